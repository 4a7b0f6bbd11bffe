"""The two products of a mixture of experts, launched as SGLang launches them, and both as plain sums.

`fused_moe` is the engine's own file. The functions here hand their arguments on to its kernel, with the constants that each of the two
products has.
"""

import triton
import triton.language as tl

from fused_moe import fused_moe_kernel


@triton.jit
def first(
    a, a_tensor, w, w_tensor, c, a_scale, w_scale, sorted_token_ids, expert_ids, padded, N, K, EM, routes,
    stride_am, stride_be, stride_bn, stride_cm, stride_asm, stride_bse, stride_bsn,
    TOP_K: tl.constexpr, GROUP_N: tl.constexpr, GROUP_K: tl.constexpr, NAIVE: tl.constexpr,
    FP8: tl.constexpr, INT8: tl.constexpr, INT8_WEIGHTS: tl.constexpr, PER_CHANNEL: tl.constexpr, OUT: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, SWAP: tl.constexpr,
    EVEN_FIRST: tl.constexpr, EVEN_SECOND: tl.constexpr, USE_TMA: tl.constexpr = False,
):
    """(tokens, K) by (experts, N, K): each token by its experts."""
    fused_moe_kernel(
        a, a_tensor, w, w_tensor, None, c, a_scale, w_scale, None, sorted_token_ids, expert_ids, padded, None, N, K, EM, routes,
        stride_am, 1, stride_be, 1, stride_bn, 0, 0, stride_cm, 1, stride_asm, 1, stride_bse, 1, stride_bsn,
        GROUP_N, GROUP_K, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, False, TOP_K, OUT,
        FP8, INT8, INT8_WEIGHTS, PER_CHANNEL, EVEN_FIRST, False, SWAP, False, False, False, 1,
    )


@triton.jit
def second(
    a, a_tensor, w, w_tensor, c, a_scale, w_scale, topk_weights, sorted_token_ids, expert_ids, padded, N, K, EM, routes,
    stride_am, stride_be, stride_bn, stride_cm, stride_asm, stride_bse, stride_bsn,
    TOP_K: tl.constexpr, GROUP_N: tl.constexpr, GROUP_K: tl.constexpr, NAIVE: tl.constexpr,
    FP8: tl.constexpr, INT8: tl.constexpr, INT8_WEIGHTS: tl.constexpr, PER_CHANNEL: tl.constexpr, OUT: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, SWAP: tl.constexpr,
    EVEN_FIRST: tl.constexpr, EVEN_SECOND: tl.constexpr, USE_TMA: tl.constexpr = False,
):
    """(routes, K) by (experts, N, K): each route by its expert, times its weight."""
    fused_moe_kernel(
        a, a_tensor, w, w_tensor, None, c, a_scale, w_scale, topk_weights, sorted_token_ids, expert_ids, padded, None, N, K, EM, routes,
        stride_am, 1, stride_be, 1, stride_bn, 0, 0, stride_cm, 1, stride_asm, 1, stride_bse, 1, stride_bsn,
        GROUP_N, GROUP_K, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, True, 1, OUT,
        FP8, INT8, INT8_WEIGHTS, PER_CHANNEL, EVEN_SECOND, False, SWAP, False, False, False, 1,
    )


@triton.jit
def plain_first(
    a, w, c, a_scale, w_scale, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP_N: tl.constexpr, GROUP_K: tl.constexpr,
    FP8: tl.constexpr, INT8: tl.constexpr, INT8_WEIGHTS: tl.constexpr, PER_CHANNEL: tl.constexpr,
):
    sums(a, w, c, a_scale, w_scale, None, topk_ids, N, K, TOP_K, GROUP_N, GROUP_K, FP8, INT8_WEIGHTS, PER_CHANNEL, False)


@triton.jit
def plain_second(
    a, w, c, a_scale, w_scale, topk_weights, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP_N: tl.constexpr, GROUP_K: tl.constexpr,
    FP8: tl.constexpr, INT8: tl.constexpr, INT8_WEIGHTS: tl.constexpr, PER_CHANNEL: tl.constexpr,
):
    sums(a, w, c, a_scale, w_scale, topk_weights, topk_ids, N, K, 1, GROUP_N, GROUP_K, FP8, INT8_WEIGHTS, PER_CHANNEL, True)


@triton.jit
def sums(
    a, w, c, a_scale, w_scale, topk_weights, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP_N: tl.constexpr, GROUP_K: tl.constexpr,
    FP8: tl.constexpr, INT8_WEIGHTS: tl.constexpr, PER_CHANNEL: tl.constexpr, WEIGHTED: tl.constexpr,
):
    """Route by route, and 64 columns at a time: what both products are, in FP32 and without blocks of routes."""
    route = tl.program_id(0)
    columns = tl.program_id(1) * 64 + tl.arange(0, 64)
    inside = columns < N
    expert = tl.load(topk_ids + route).to(tl.int64)
    row = (route // TOP_K).to(tl.int64)
    sum = tl.zeros([64], tl.float32)
    for start in range(0, K, 64):
        k = start + tl.arange(0, 64)
        x = tl.load(a + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        place = w + expert * N * K + columns[:, None].to(tl.int64) * K + k[None, :]
        y = tl.load(place, mask=inside[:, None] & (k < K)[None, :], other=0.0).to(tl.float32)
        if GROUP_K > 0:
            groups = tl.cdiv(K, GROUP_K)
            x = x * tl.load(a_scale + row * groups + k // GROUP_K, mask=k < K, other=0.0)
            of_block = (expert * tl.cdiv(N, GROUP_N) + columns[:, None] // GROUP_N) * groups + k[None, :] // GROUP_K
            y = y * tl.load(w_scale + of_block, mask=inside[:, None] & (k < K)[None, :], other=0.0)
        sum += tl.sum(x[None, :] * y, 1)
    if INT8_WEIGHTS or PER_CHANNEL:
        sum = sum * tl.load(w_scale + expert * N + columns, mask=inside, other=0.0)
    if PER_CHANNEL:
        sum = sum * tl.load(a_scale + row)
    elif FP8 and GROUP_K == 0:
        sum = sum * tl.load(a_scale) * tl.load(w_scale + expert)
    if WEIGHTED:
        sum = sum * tl.load(topk_weights + route)
    tl.store(c + route.to(tl.int64) * N + columns, sum.to(c.dtype.element_ty), mask=inside)
