"""A program as people have them: kernels with @triton.autotune, and host code that wants torch. Prints the config that each took, and how
often Triton benchmarked.
"""

import os

import torch
import triton
import triton.language as tl

import blocks
import blocks.ops as ops
from blocks.ops import leaky

LIMIT = tl.constexpr(8.0)


def config(warps, **params):
    return triton.Config(params, num_warps=warps)


@triton.jit
def halved(x):
    return ops.leaky(blocks.ops.scaled(x, 0.5), 1.0) * ops.SLOPE


@triton.autotune(
    configs=[config(1, BM=16, BN=16, BK=16), config(2, BM=32, BN=16, BK=16), config(1, BM=16, BN=32, BK=32), config(4, BM=64, BN=64, BK=32)],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN": lambda given: given["K"] % given["BK"] == 0})
@triton.jit
def product(a, b, c, bias, M, N, K, stride, scale, clamp, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr,
            ACTIVATION: tl.constexpr, OUT: tl.constexpr = tl.float32):
    columns = tl.cdiv(N, BN)
    row = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    column = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + row[:, None] * stride + inner[None, :]
    right = b + inner[:, None] * N + column[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, tl.cdiv(K, BK)):
        wanted = (row[:, None] < M) if EVEN else (row[:, None] < M) & (inner[None, :] < K - at * BK)
        x = tl.load(left, mask=wanted, other=0.0)
        y = tl.load(right, mask=(column[None, :] < N) & (inner[:, None] < K - at * BK), other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * N
    if bias is not None:
        total += tl.load(bias + column, mask=column < N, other=0.0)[None, :]
    if ACTIVATION == "leaky":
        total = leaky(total)
    total = halved(ops.scaled(total, scale))
    if clamp:
        total = tl.minimum(total, LIMIT)
    tl.store(c + row[:, None] * N + column[None, :], total.to(OUT), mask=(row[:, None] < M) & (column[None, :] < N))


@triton.autotune(configs=[config(1, BLOCK=64), config(2, BLOCK=128), config(4, BLOCK=256)], key=["count"], reset_to_zero=["sums"])
@triton.jit
def gather(values, places, sums, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(places + at, mask=at < count, other=0)
    value = tl.load(values + at, mask=at < count, other=0.0)
    tl.atomic_add(sums + place, value, mask=at < count)


# Without an autotuner.
@triton.jit
def shift(values, out, count, by, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < count, other=0.0)
    for _ in tl.static_range(ROUNDS):
        value += by
    tl.store(out + at, value, mask=at < count)


def shifts(count):
    values, out = torch.wave(count, dtype=torch.float32), torch.empty(count)
    for _ in range(3):
        took = shift[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](values, out, count, 0.5, 3, BLOCK=128, num_warps=2)
    print("shift warps", took.metadata.num_warps, "shape", [int(size) for size in took.src.constants.values() if size in (64, 128, 256, 512)])


def products(M, N, K):
    a, b, c = torch.wave(M, 96), torch.wave(K, N), torch.empty(M, N)
    for bias in (torch.wave(N, dtype=torch.float32), None):
        def grid(meta):
            return (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)

        for _ in range(2):
            product[grid](a, b, c, bias, M, N, K, a.stride(0), 0.5, True, ACTIVATION="leaky")
        print("product", product.best_config)


def sums(count):
    places = torch.tensor([at * 7 % 16 for at in range(count)])
    # The second half, as a view.
    half = torch.empty(32)[16:]
    gather[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](torch.wave(count, dtype=torch.float32), places, half, count)
    print("gather", gather.best_config)


def main():
    for asked in os.environ.get("STAND_IN_KERNELS", "products 48 40 72, sums 500").split(","):
        name, *sizes = asked.split()
        {"products": products, "sums": sums, "shifts": shifts}[name](*map(int, sizes))
    print("benchmarked", torch.benchmarked)


if __name__ == "__main__":
    main()
