//! The engines' kernels, by what they import and by their arguments; what is computed is bluefin's.

/// What vLLM's file imports and does beside its kernels.
pub const HEAD: &str = "import functools\nimport torch\nimport vllm.envs as envs\nfrom vllm import _custom_ops as ops\nfrom vllm.logger import init_logger\n\
    from vllm.platforms import current_platform\nfrom vllm.triton_utils import tl, triton\n\
    from vllm.triton_utils.allocation import set_triton_allocator\nfrom vllm.utils.torch_utils import direct_register_custom_op\n\n\
    logger = init_logger(__name__)\n\n\n@functools.lru_cache\ndef get_moe_configs(E: int, block_shape: torch.Tensor | None):\n    return envs.X\n\n\n\
    direct_register_custom_op(op_name=\"x\", op_func=get_moe_configs, mutates_args=[])\n\n\n";

/// SGLang's kernel, by its arguments; what it computes is bluefin's.
pub const SGLANGS: &str = "\n\n@triton.jit\ndef fused_moe_kernel(\n    a_ptr, a_desc, b_ptr, b_desc, bias_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr,\n    \
    sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr, add_mask_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak,\n    \
    stride_be, stride_bk, stride_bn, stride_bias_e, stride_bias_n, stride_cm, stride_cn, stride_asm, stride_ask, stride_bse,\n    \
    stride_bsk, stride_bsn, group_n: tl.constexpr, group_k: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,\n    \
    BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr,\n    \
    compute_type: tl.constexpr, use_fp8_w8a8: tl.constexpr, use_int8_w8a8: tl.constexpr, use_int8_w8a16: tl.constexpr,\n    \
    per_channel_quant: tl.constexpr, even_Ks: tl.constexpr, c_sorted: tl.constexpr, swap_ab: tl.constexpr,\n    \
    FUSE_ADD_TO_OUTPUT: tl.constexpr, MASK_OUTPUT: tl.constexpr, FUSE_SUM_ALL_REDUCE: tl.constexpr, ROUTER_TOPK: tl.constexpr,\n    \
    FUSE_SWIGLU: tl.constexpr = False,\n):\n    tl.static_assert(a_desc is None and add_mask_ptr is None and ROUTER_TOPK == 1)\n    \
    tl.static_assert(even_Ks == (BLOCK_SIZE_K <= 64))\n    \
    own(a_ptr, b_ptr, c_ptr, bias_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,\n        \
    num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm,\n        \
    stride_cn, stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, 0, 0, group_n, group_k, False, BLOCK_SIZE_M,\n        \
    BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, 1, MUL_ROUTED_WEIGHT, top_k, compute_type, use_fp8_w8a8, False, False, False,\n        \
    False, swap_ab)\n";

/// SGLang's kernel for weights in groups, as [`SGLANGS`] is.
pub const SGLANGS_OF_GROUPS: &str = "\n\n@triton.jit\ndef fused_moe_kernel_gptq_awq(\n    a_ptr, b_ptr, c_ptr, b_scale_ptr, b_zp_ptr, topk_weights_ptr, \
    sorted_token_ids_ptr, expert_ids_ptr,\n    num_tokens_post_padded_ptr, N: tl.constexpr, K: tl.constexpr, EM, num_valid_tokens, stride_am, \
    stride_ak,\n    stride_be, stride_bk, stride_bn, stride_cm, stride_cn, stride_bse, stride_bsk, stride_bsn, stride_bze, stride_bzk,\n    \
    stride_bzn, group_size: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,\n    \
    GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr,\n    \
    has_zp: tl.constexpr, use_int4_w4a16: tl.constexpr, use_int8_w8a16: tl.constexpr, even_Ks: tl.constexpr,\n):\n    \
    tl.static_assert(even_Ks == ((K // 2 if use_int4_w4a16 else K) % BLOCK_SIZE_K == 0))\n    \
    own_of_groups(a_ptr, b_ptr, c_ptr, b_scale_ptr, b_zp_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,\n        \
    num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm,\n        \
    stride_cn, stride_bse, stride_bsk, stride_bsn, stride_bze, stride_bzk, stride_bzn, even_Ks, group_size, BLOCK_SIZE_M,\n        \
    BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, 1, MUL_ROUTED_WEIGHT, top_k, compute_type, has_zp, use_int4_w4a16, use_int8_w8a16)\n";
