"""Softmax of each row of a rows x columns matrix, and the reference that candidates are compared with."""

import triton
import triton.language as tl


@triton.jit
def softmax_reference(matrix, result, columns):
    """A row a program, three times over it."""
    row = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, 128)
    largest = tl.full([128], float("-inf"), tl.float32)
    for start in range(0, columns, 128):
        at = start + lanes
        largest = tl.maximum(largest, tl.load(matrix + row + at, mask=at < columns, other=float("-inf")))
    top = tl.max(largest, 0)
    sums = tl.zeros([128], tl.float32)
    for start in range(0, columns, 128):
        at = start + lanes
        sums += tl.exp(tl.load(matrix + row + at, mask=at < columns, other=float("-inf")) - top)
    total = tl.sum(sums, 0)
    for start in range(0, columns, 128):
        at = start + lanes
        value = tl.load(matrix + row + at, mask=at < columns, other=0.0)
        tl.store(result + row + at, tl.exp(value - top) / total, mask=at < columns)


@triton.jit
def softmax(matrix, result, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """ROWS rows a program, one pass for the sums: a larger maximum rescales what was summed before."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    base = row.to(tl.int64) * columns
    top = tl.full([ROWS, 1], float("-inf"), tl.float32)
    total = tl.zeros([ROWS, 1], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        value = tl.load(matrix + base + at, mask=(row < rows) & (at < columns), other=float("-inf"))
        larger = tl.maximum(top, tl.max(value, 1, keep_dims=True))
        # Rows that are not there have no maximum.
        larger = tl.where(row < rows, larger, 0.0)
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(value - larger), 1, keep_dims=True)
        top = larger
    for start in range(0, columns, BLOCK):
        at = start + lanes
        mask = (row < rows) & (at < columns)
        value = tl.load(matrix + base + at, mask=mask, other=0.0)
        tl.store(result + base + at, tl.exp(value - top) / total, mask=mask)
