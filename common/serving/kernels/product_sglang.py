"""One product with weights in groups, by the arguments of SGLang's kernel, which is the engine's own."""

import triton
import triton.language as tl

from fused_moe import fused_moe_kernel_gptq_awq


@triton.jit
def product(
    a, w, c, w_scale, zero_points, topk_weights, sorted_token_ids, expert_ids, padded, N: tl.constexpr, K: tl.constexpr, EM, routes,
    stride_am, stride_be, stride_bn, stride_cm, stride_bse, stride_bsn, stride_bze, stride_bzn,
    EVEN: tl.constexpr, GROUP: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, WEIGHTED: tl.constexpr, TOP_K: tl.constexpr, OUT: tl.constexpr, ZERO_POINTS: tl.constexpr,
    INT4: tl.constexpr, INT8: tl.constexpr,
):
    fused_moe_kernel_gptq_awq(
        a, w, c, w_scale, zero_points, topk_weights, sorted_token_ids, expert_ids, padded, N, K, EM, routes,
        stride_am, 1, stride_be, 1, stride_bn, stride_cm, 1, stride_bse, 1, stride_bsn, stride_bze, 1, stride_bzn,
        GROUP, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, WEIGHTED, TOP_K, OUT, ZERO_POINTS, INT4, INT8, EVEN,
    )
