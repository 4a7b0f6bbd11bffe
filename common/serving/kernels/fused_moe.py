"""Kernels of bluefin's own with the parameters of vLLM's, to try things where no engine is installed. What is found with them says little
of the engine's."""

import triton
import triton.language as tl


@triton.jit
def fused_moe_kernel(
    a_ptr, b_ptr, c_ptr, b_bias_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
    num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_asm, stride_ask, stride_bse, stride_bsk, stride_bsn, stride_bbe, stride_bbn,
    group_n: tl.constexpr, group_k: tl.constexpr, naive_block_assignment: tl.constexpr, BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, SPLIT_K: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr, use_fp8_w8a8: tl.constexpr,
    use_int8_w8a8: tl.constexpr, use_int8_w8a16: tl.constexpr, per_channel_quant: tl.constexpr, HAS_BIAS: tl.constexpr,
    SWAP_AB: tl.constexpr, USE_TD: tl.constexpr = False,
):
    # Blocks of rows that share columns follow each other, GROUP_SIZE_M at a time.
    blocks = tl.cdiv(EM, BLOCK_SIZE_M)
    columns = tl.cdiv(N, BLOCK_SIZE_N)
    at = tl.program_id(0)
    band = at // (GROUP_SIZE_M * columns) * GROUP_SIZE_M
    height = min(blocks - band, GROUP_SIZE_M)
    inside = at % (GROUP_SIZE_M * columns)
    block = band + inside % height
    column = inside // height
    if block * BLOCK_SIZE_M < tl.load(num_tokens_post_padded_ptr):
        lanes = tl.arange(0, BLOCK_SIZE_M)
        if naive_block_assignment:
            route = tl.where(lanes == 0, block, num_valid_tokens)
        else:
            route = tl.load(sorted_token_ids_ptr + block * BLOCK_SIZE_M + lanes)
        route = route.to(tl.int64)
        is_route = route < num_valid_tokens
        expert = tl.load(expert_ids_ptr + block).to(tl.int64)
        n = column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        is_column = n < N
        k = tl.arange(0, BLOCK_SIZE_K)
        row = route // top_k
        a = a_ptr + row[:, None] * stride_am + k[None, :] * stride_ak
        b = b_ptr + expert * stride_be + n[None, :].to(tl.int64) * stride_bn + k[:, None] * stride_bk
        sums = tl.zeros([BLOCK_SIZE_M, BLOCK_SIZE_N], tl.float32)
        for start in range(0, K, BLOCK_SIZE_K):
            x = tl.load(a, mask=is_route[:, None] & (k < K - start)[None, :], other=0.0)
            y = tl.load(b, mask=(k < K - start)[:, None] & is_column[None, :], other=0.0)
            if (use_fp8_w8a8 or use_int8_w8a8) and group_k > 0:
                group = start // group_k
                x_scale = tl.load(a_scale_ptr + row * stride_asm + group * stride_ask, mask=is_route, other=0.0)
                of_column = b_scale_ptr + expert * stride_bse + n // group_n * stride_bsn + group * stride_bsk
                y_scale = tl.load(of_column, mask=is_column, other=0.0)
                sums += tl.dot(x, y) * x_scale[:, None] * y_scale[None, :]
            elif use_int8_w8a8:
                sums += tl.dot(x, y)
            else:
                sums = tl.dot(x, y.to(x.dtype), acc=sums)
            a += BLOCK_SIZE_K * stride_ak
            b += BLOCK_SIZE_K * stride_bk
        if use_int8_w8a16 or per_channel_quant:
            of_column = b_scale_ptr + expert * stride_bse + n * stride_bsn
            sums = sums * tl.load(of_column, mask=is_column, other=0.0)[None, :]
        if per_channel_quant:
            sums = sums * tl.load(a_scale_ptr + row * stride_asm, mask=is_route, other=0.0)[:, None]
        elif use_fp8_w8a8 and group_k == 0:
            sums = sums * tl.load(a_scale_ptr) * tl.load(b_scale_ptr + expert)
        if MUL_ROUTED_WEIGHT:
            sums = sums * tl.load(topk_weights_ptr + route, mask=is_route, other=0.0)[:, None]
        c = c_ptr + route[:, None] * stride_cm + n[None, :] * stride_cn
        tl.store(c, sums.to(compute_type), mask=is_route[:, None] & is_column[None, :])


@triton.jit
def fused_moe_kernel_gptq_awq(
    a_ptr, b_ptr, c_ptr, b_scale_ptr, b_zp_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr,
    N: tl.constexpr, K: tl.constexpr, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_bse, stride_bsk, stride_bsn, stride_bze, stride_bzk, stride_bzn, block_k_diviable: tl.constexpr, group_size: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, SPLIT_K: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr, has_zp: tl.constexpr,
    use_int4_w4a16: tl.constexpr, use_int8_w8a16: tl.constexpr,
):
    """For weights without a sign in groups of columns, two of 4 bits in a byte."""
    PACK: tl.constexpr = 2 if use_int4_w4a16 else 1
    BITS: tl.constexpr = 8 // PACK
    MASK: tl.constexpr = (1 << BITS) - 1
    blocks = tl.cdiv(EM, BLOCK_SIZE_M)
    columns = tl.cdiv(N, BLOCK_SIZE_N)
    at = tl.program_id(0)
    band = at // (GROUP_SIZE_M * columns) * GROUP_SIZE_M
    height = min(blocks - band, GROUP_SIZE_M)
    inside = at % (GROUP_SIZE_M * columns)
    block = band + inside % height
    column = inside // height
    if block * BLOCK_SIZE_M < tl.load(num_tokens_post_padded_ptr):
        route = tl.load(sorted_token_ids_ptr + block * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
        is_route = route < num_valid_tokens
        expert = tl.load(expert_ids_ptr + block).to(tl.int64)
        n = column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        is_column = n < N
        a_rows = a_ptr + (route // top_k)[:, None] * stride_am
        b_columns = b_ptr + expert * stride_be + n[None, :].to(tl.int64) * stride_bn
        sums = tl.zeros([BLOCK_SIZE_M, BLOCK_SIZE_N], tl.float32)
        for start in range(0, K, BLOCK_SIZE_K):
            k = start + tl.arange(0, BLOCK_SIZE_K)
            is_inside = (k < K)[:, None] & is_column[None, :]
            x = tl.load(a_rows + k[None, :] * stride_ak, mask=is_route[:, None] & (k < K)[None, :], other=0.0)
            y = tl.load(b_columns + (k // PACK)[:, None] * stride_bk, mask=is_inside, other=0)
            y = (y >> (k % PACK * BITS)[:, None]) & MASK
            group = k[:, None] // group_size
            of_group = b_scale_ptr + expert * stride_bse + n[None, :] * stride_bsn + group * stride_bsk
            scale = tl.load(of_group, mask=is_inside, other=0.0).to(tl.float32)
            zero = 1 << (BITS - 1)
            if has_zp:
                of_group = b_zp_ptr + expert * stride_bze + (n // PACK)[None, :] * stride_bzn + group * stride_bzk
                zero = (tl.load(of_group, mask=is_inside, other=0) >> (n % PACK * BITS)[None, :]) & MASK
                zero = zero.to(tl.float32)
            sums = tl.dot(x, ((y.to(tl.float32) - zero) * scale).to(compute_type), acc=sums)
        if MUL_ROUTED_WEIGHT:
            sums = sums * tl.load(topk_weights_ptr + route, mask=is_route, other=0.0)[:, None]
        c = c_ptr + route[:, None] * stride_cm + n[None, :] * stride_cn
        tl.store(c, sums.to(compute_type), mask=is_route[:, None] & is_column[None, :])
