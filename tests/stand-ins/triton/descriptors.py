"""Kernels that take tensor descriptors, whose blocks a hook of each config says or the program itself, and one that makes its own. Prints the config that each launch
took, the block that its descriptor has then, and how often Triton benchmarked.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def blocks(given):
    if not isinstance(given["a"], TensorDescriptor):
        return
    m, n, k = given["BLOCK_M"], given["BLOCK_N"], given["BLOCK_K"]
    given["a"].block_shape = [m, k]
    given["b"].block_shape = [n, k]
    # Results are stored by halves.
    given["c"].block_shape = [m, n // 2] if given["HALVES"] else [m, n]


def config(warps, **params):
    return triton.Config(params, num_warps=warps, num_stages=2, pre_hook=blocks)


@triton.autotune(
    configs=[
        config(2, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, HALVES=True),
        config(1, BLOCK_M=16, BLOCK_N=64, BLOCK_K=32, HALVES=True),
        config(2, BLOCK_M=64, BLOCK_N=32, BLOCK_K=16, HALVES=False),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def product(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, HALVES: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for at in range(0, k, BLOCK_K):
        sums = tl.dot(a.load([row, at]), b.load([column, at]).T, sums)
    if HALVES:
        left, right = tl.split(tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        c.store([row, column], left.to(tl.float16))
        c.store([row, column + BLOCK_N // 2], right.to(tl.float16))
    else:
        c.store([row, column], sums.to(tl.float16))


@triton.autotune(configs=[triton.Config({"ROWS": rows}, num_warps=1) for rows in (8, 16)], key=["rows"])
@triton.jit
def made(values, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(values, shape=[rows, columns], strides=[columns, 1], block_shape=[ROWS, COLUMNS])
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for column in range(0, columns, COLUMNS):
        total += tl.sum(source.load([tl.program_id(0) * ROWS, column]).to(tl.float32), 1)
    tl.store(out + at, total, mask=at < rows)


@triton.jit
def doubled(values, out, count, BLOCK: tl.constexpr):
    out.store([tl.program_id(0) * BLOCK], values.load([tl.program_id(0) * BLOCK]) * 2)


m, n, k = 80, 96, 64
# A descriptor of a part of what it lies in, that ends amid a block.
a, b, c = torch.wave(m + 16, k), torch.wave(n, k), torch.empty(m, n, dtype=torch.float16)
given = [TensorDescriptor(tensor, [rows, columns], [columns, 1], [1, 1]) for tensor, rows, columns in ((a, m, k), (b, n, k), (c, m, n))]
product[lambda params: (triton.cdiv(m, params["BLOCK_M"]), triton.cdiv(n, params["BLOCK_N"]))](*given, m, n, k)
print("product", product.best_config.kwargs["BLOCK_M"], given[2].block_shape)
values = torch.wave(40, 96)
made[lambda params: (triton.cdiv(40, params["ROWS"]),)](values, torch.empty(40), 40, 96, COLUMNS=32)
print("made", made.best_config.kwargs["ROWS"])
for block in (64, 128):
    flat = [TensorDescriptor(tensor, [500], [1], [block]) for tensor in (torch.wave(512), torch.empty(512, dtype=torch.float16))]
    doubled[lambda params: (triton.cdiv(500, params["BLOCK"]),)](*flat, 500, BLOCK=block)
print("benchmarked", torch.benchmarked)
