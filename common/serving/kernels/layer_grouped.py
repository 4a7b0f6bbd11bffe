"""The two products of a mixture of experts whose weights are packed and have a scale for each group of columns, and both as plain sums.

`product` hands its arguments on to the kernel as the engine launches it. Weights are numbers without a sign: two of 4 bits lie in a byte,
the first in its low half.
"""

import triton
import triton.language as tl

from product import product


@triton.jit
def first(
    a, w, c, w_scale, zero_points, sorted_token_ids, expert_ids, padded, EM, routes,
    stride_am, stride_be, stride_bn, stride_cm, stride_bse, stride_bsn, stride_bze, stride_bzn,
    TOP_K: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, ZERO_POINTS: tl.constexpr, OUT: tl.constexpr,
    WIDE: tl.constexpr, HIDDEN: tl.constexpr, INTERMEDIATE: tl.constexpr, EVEN_FIRST: tl.constexpr, EVEN_SECOND: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
    SECOND_N: tl.constexpr, SECOND_K: tl.constexpr,
):
    """(tokens, HIDDEN) by (experts, WIDE, HIDDEN): each token by its experts."""
    product(
        a, w, c, w_scale, zero_points, None, sorted_token_ids, expert_ids, padded, WIDE, HIDDEN, EM, routes,
        stride_am, stride_be, stride_bn, stride_cm, stride_bse, stride_bsn, stride_bze, stride_bzn,
        EVEN_FIRST, GROUP, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, False, TOP_K, OUT, ZERO_POINTS, BITS == 4, BITS == 8,
    )


@triton.jit
def second(
    a, w, c, w_scale, zero_points, topk_weights, sorted_token_ids, expert_ids, padded, EM, routes,
    stride_am, stride_be, stride_bn, stride_cm, stride_bse, stride_bsn, stride_bze, stride_bzn,
    TOP_K: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, ZERO_POINTS: tl.constexpr, OUT: tl.constexpr,
    WIDE: tl.constexpr, HIDDEN: tl.constexpr, INTERMEDIATE: tl.constexpr, EVEN_FIRST: tl.constexpr, EVEN_SECOND: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
    SECOND_N: tl.constexpr, SECOND_K: tl.constexpr,
):
    """(routes, INTERMEDIATE) by (experts, HIDDEN, INTERMEDIATE): each route by its expert, times its weight."""
    product(
        a, w, c, w_scale, zero_points, topk_weights, sorted_token_ids, expert_ids, padded, HIDDEN, INTERMEDIATE, EM, routes,
        stride_am, stride_be, stride_bn, stride_cm, stride_bse, stride_bsn, stride_bze, stride_bzn,
        EVEN_SECOND, GROUP, BLOCK_SIZE_M, SECOND_N, SECOND_K, GROUP_SIZE_M, True, 1, OUT, ZERO_POINTS, BITS == 4, BITS == 8,
    )


@triton.jit
def plain_first(
    a, w, c, w_scale, zero_points, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, ZERO_POINTS: tl.constexpr,
):
    sums(a, w, c, w_scale, zero_points, None, topk_ids, N, K, TOP_K, GROUP, BITS, ZERO_POINTS, False)


@triton.jit
def plain_second(
    a, w, c, w_scale, zero_points, topk_weights, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, ZERO_POINTS: tl.constexpr,
):
    sums(a, w, c, w_scale, zero_points, topk_weights, topk_ids, N, K, 1, GROUP, BITS, ZERO_POINTS, True)


@triton.jit
def sums(
    a, w, c, w_scale, zero_points, topk_weights, topk_ids, N, K,
    TOP_K: tl.constexpr, GROUP: tl.constexpr, BITS: tl.constexpr, ZERO_POINTS: tl.constexpr, WEIGHTED: tl.constexpr,
):
    """Route by route, and 64 columns at a time: what both products are, in FP32 and without blocks of routes."""
    PACK: tl.constexpr = 8 // BITS
    MASK: tl.constexpr = (1 << BITS) - 1
    route = tl.program_id(0)
    columns = tl.program_id(1) * 64 + tl.arange(0, 64)
    inside = columns < N
    expert = tl.load(topk_ids + route).to(tl.int64)
    row = (route // TOP_K).to(tl.int64)
    groups = tl.cdiv(K, GROUP)
    sum = tl.zeros([64], tl.float32)
    for start in range(0, K, 64):
        k = start + tl.arange(0, 64)
        mask = inside[:, None] & (k < K)[None, :]
        x = tl.load(a + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        place = (expert * N + columns[:, None]) * (K // PACK) + k[None, :] // PACK
        y = tl.load(w + place, mask=mask, other=0).to(tl.int32)
        y = (y >> (k % PACK * BITS)[None, :]) & MASK
        zero = 1 << (BITS - 1)
        if ZERO_POINTS:
            of_group = (expert * (N // PACK) + columns[:, None] // PACK) * groups + k[None, :] // GROUP
            zero = tl.load(zero_points + of_group, mask=mask, other=0).to(tl.int32)
            zero = (zero >> (columns % PACK * BITS)[:, None]) & MASK
        scale = tl.load(w_scale + (expert * N + columns[:, None]) * groups + k[None, :] // GROUP, mask=mask, other=0.0)
        sum += tl.sum(x[None, :] * (y - zero).to(tl.float32) * scale.to(tl.float32), 1)
    if WEIGHTED:
        sum = sum * tl.load(topk_weights + route)
    tl.store(c + route.to(tl.int64) * N + columns, sum.to(c.dtype.element_ty), mask=inside)
