"""C (m x n) = A (m x k) x B (k x n), plus a bias for each row of C if there is one. C is row major. BATCHED: many of them, one behind the
other in memory, whose number is the last index of a program."""

import triton
import triton.language as tl


@triton.jit
def gemm_reference(
    a, b, c, bias, m, n, k, a_row, a_column, b_row, b_column, BIAS: tl.constexpr, INTEGER: tl.constexpr,
    SWAPPED: tl.constexpr = False, BATCHED: tl.constexpr = False,
):
    """Sums in FP32, of products in FP32. SWAPPED: C is B x A."""
    if SWAPPED:
        a, b = b, a
    if BATCHED:
        number = tl.program_id(1).to(tl.int64)
        a, b, c = a + number * (m * k), b + number * (k * n), c + number * (m * n)
    columns = tl.cdiv(n, 64)
    row = tl.program_id(0) // columns * 64 + tl.arange(0, 64)
    column = tl.program_id(0) % columns * 64 + tl.arange(0, 64)
    along = tl.arange(0, 16)
    sums = tl.zeros([64, 64], tl.float32)
    for start in range(0, k, 16):
        at = start + along
        mask_a = (row[:, None] < m) & (at[None, :] < k)
        mask_b = (at[:, None] < k) & (column[None, :] < n)
        x = tl.load(a + row[:, None] * a_row + at[None, :] * a_column, mask=mask_a, other=0.0).to(tl.float32)
        y = tl.load(b + at[:, None] * b_row + column[None, :] * b_column, mask=mask_b, other=0.0).to(tl.float32)
        sums = tl.dot(x, y, sums, input_precision="ieee")
    if BIAS:
        sums += tl.load(bias + row, mask=row < m, other=0.0).to(tl.float32)[:, None]
    if INTEGER:
        sums = sums.to(tl.int32)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], sums.to(c.dtype.element_ty), mask=mask)


@triton.jit
def place(tile, rows, columns, group, XCDS: tl.constexpr):
    """Row and column of a tile of C. Tiles that follow each other on one of the XCDs, which get blocks in turn, lie beside each other,
    `group` rows at a time."""
    if XCDS > 1:
        tiles = rows * columns
        most = tl.cdiv(tiles, XCDS)
        # So many XCDs have `most` tiles, the others one less.
        full = tiles - (most - 1) * XCDS
        xcd = tile % XCDS
        tile = xcd * most - tl.maximum(xcd - full, 0) + tile // XCDS
    wide = group * columns
    first = tile // wide * group
    height = tl.minimum(rows - first, group)
    return first + tile % wide % height, tile % wide // height


@triton.jit
def product(
    a, b, m, n, k, start, a_row, a_column, b_row, b_column, row, column, SUM: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr, PRECISION: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):
    """A tile of the product over `k` elements from `start` on. Rows and columns outside are others, computed again."""
    along = tl.arange(0, BLOCK_K)
    x_at = a + (row % m)[:, None] * a_row + (start + along)[None, :] * a_column
    y_at = b + (start + along)[:, None] * b_row + (column % n)[None, :] * b_column
    sums = tl.zeros([rows, columns], SUM)
    for done in range(0, k, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_at)
            y = tl.load(y_at)
        else:
            x = tl.load(x_at, mask=along[None, :] < k - done, other=0.0)
            y = tl.load(y_at, mask=along[:, None] < k - done, other=0.0)
        sums = tl.dot(x, y, sums, input_precision=PRECISION, out_dtype=SUM)
        x_at += BLOCK_K * a_column
        y_at += BLOCK_K * b_row
    return sums


@triton.jit
def gemm(
    a, b, c, bias, m, n, k, a_row, a_column, b_row, b_column, group, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr, EVEN_K: tl.constexpr, XCDS: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    INTEGER: tl.constexpr, SWAPPED: tl.constexpr = False, BATCHED: tl.constexpr = False,
):
    """SWAPPED: C is B x A."""
    if SWAPPED:
        a, b = b, a
    if BATCHED:
        number = tl.program_id(1).to(tl.int64)
        a, b, c = a + number * (m * k), b + number * (k * n), c + number * (m * n)
    SUM: tl.constexpr = tl.int32 if INTEGER else tl.float32
    down, along = place(tl.program_id(0), tl.cdiv(m, BLOCK_SIZE_M), tl.cdiv(n, BLOCK_SIZE_N), group, XCDS)
    row = down * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    column = along * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    sums = product(
        a, b, m, n, k, 0, a_row, a_column, b_row, b_column, row, column, SUM, BLOCK_SIZE_K, EVEN_K, PRECISION, BLOCK_SIZE_M,
        BLOCK_SIZE_N,
    )
    if BIAS:
        sums += tl.load(bias + row, mask=row < m, other=0.0).to(SUM)[:, None]
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], sums.to(c.dtype.element_ty), mask=mask)


@triton.jit
def gemm_part(
    a, b, parts, m, n, k, a_row, a_column, b_row, b_column, group, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr, PRECISION: tl.constexpr, INTEGER: tl.constexpr, SWAPPED: tl.constexpr = False,
    BATCHED: tl.constexpr = False,
):
    """The sum over the `k` elements of one part. The same part of each product lies side by side."""
    if SWAPPED:
        a, b = b, a
    SUM: tl.constexpr = tl.int32 if INTEGER else tl.float32
    part = tl.program_id(1)
    to = parts.to(tl.pointer_type(SUM))
    if BATCHED:
        number = tl.program_id(2).to(tl.int64)
        whole = k * tl.num_programs(1)
        a, b = a + number * (m * whole), b + number * (whole * n)
        to += (part.to(tl.int64) * tl.num_programs(2) + number) * (m * n)
    else:
        to += part.to(tl.int64) * m * n
    down, along = place(tl.program_id(0), tl.cdiv(m, BLOCK_SIZE_M), tl.cdiv(n, BLOCK_SIZE_N), group, 1)
    row = down * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    column = along * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    sums = product(
        a, b, m, n, k, part * k, a_row, a_column, b_row, b_column, row, column, SUM, BLOCK_SIZE_K, True, PRECISION,
        BLOCK_SIZE_M, BLOCK_SIZE_N,
    )
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(to + row[:, None] * n + column[None, :], sums, mask=mask)


@triton.jit
def gemm_sum(parts, c, bias, m, n, count, BIAS: tl.constexpr, INTEGER: tl.constexpr):
    """C is the sum of `count` parts, in their order."""
    SUM: tl.constexpr = tl.int32 if INTEGER else tl.float32
    at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    mask = at < m * n
    sums = tl.zeros([1024], SUM)
    start = parts.to(tl.pointer_type(SUM))
    for part in range(0, count):
        sums += tl.load(start + part.to(tl.int64) * m * n + at, mask=mask, other=0.0)
    if BIAS:
        sums += tl.load(bias + at // n, mask=mask, other=0.0).to(SUM)
    tl.store(c + at, sums.to(c.dtype.element_ty), mask=mask)
