"""Goes beside the source of a problem's reference. With it an eval worker makes inputs, compares outputs and restores inputs where
they are, at the speed of the device's memory: the same entries as check.hip has, and the same numbers.

All are launched with blocks of 256 threads, `threads` of them in all. A report is two counts, of what was compared and of what was wrong.
"""

import triton
import triton.language as tl

BLOCK = tl.constexpr(256)


@triton.jit
def bluefin_fill(words, count, even, odd, threads):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    for start in range(0, count, threads):
        at = start + i
        tl.store(words + at, tl.where(at % 2 == 1, odd, even), mask=at < count)


@triton.jit
def bluefin_copy(to, source, bytes, threads):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # What is long is aligned.
    words = tl.where(bytes >= 256, bytes // 8, 0)
    wide_to, wide_from = to.to(tl.pointer_type(tl.int64)), source.to(tl.pointer_type(tl.int64))
    for start in range(0, words, threads):
        at = start + i
        tl.store(wide_to + at, tl.load(wide_from + at, mask=at < words), mask=at < words)
    for start in range(words * 8, bytes, threads):
        at = start + i
        tl.store(to + at, tl.load(source + at, mask=at < bytes), mask=at < bytes)


@triton.jit
def bluefin_same(got, want, bytes, report, threads):
    """Counts bytes that differ, or groups of eight in which any does."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    words = tl.where(bytes >= 256, bytes // 8, 0)
    wide_got, wide_want = got.to(tl.pointer_type(tl.int64)), want.to(tl.pointer_type(tl.int64))
    compared = tl.zeros([BLOCK], tl.int64)
    wrong = tl.zeros([BLOCK], tl.int64)
    for start in range(0, words, threads):
        at = start + i
        a = tl.load(wide_got + at, mask=at < words, other=0)
        b = tl.load(wide_want + at, mask=at < words, other=0)
        compared += tl.where(at < words, 8, 0)
        wrong += (a != b).to(tl.int64)
    for start in range(words * 8, bytes, threads):
        at = start + i
        a = tl.load(got + at, mask=at < bytes, other=0)
        b = tl.load(want + at, mask=at < bytes, other=0)
        compared += (at < bytes).to(tl.int64)
        wrong += (a != b).to(tl.int64)
    tl.atomic_add(report, tl.sum(compared, 0))
    tl.atomic_add(report + 1, tl.sum(wrong, 0))


@triton.jit
def is_wrong(got, want, absolute, relative):
    infinite = tl.full([BLOCK], 0x7FF0000000000000, tl.int64)
    magnitude = tl.full([BLOCK], 0x7FFFFFFFFFFFFFFF, tl.int64)
    g = got.to(tl.int64, bitcast=True)
    w = want.to(tl.int64, bitcast=True)
    g_nan = (g & magnitude) > infinite
    w_nan = (w & magnitude) > infinite
    endless = ((g & magnitude) == infinite) | ((w & magnitude) == infinite)
    difference = tl.abs(got - want)
    close = difference <= absolute + relative * tl.abs(want)
    right = tl.where(g_nan | w_nan, g_nan & w_nan, tl.where(endless, g == w, close))
    return (right == 0).to(tl.int64)


@triton.jit
def count_wrong(got, want, element: tl.constexpr, i, elements, absolute, relative, report, threads):
    a = got.to(tl.pointer_type(element))
    b = want.to(tl.pointer_type(element))
    compared = tl.zeros([BLOCK], tl.int64)
    wrong = tl.zeros([BLOCK], tl.int64)
    for start in range(0, elements, threads):
        at = start + i
        mask = at < elements
        x = tl.load(a + at, mask=mask, other=0).to(tl.float64)
        y = tl.load(b + at, mask=mask, other=0).to(tl.float64)
        compared += mask.to(tl.int64)
        wrong += tl.where(mask, is_wrong(x, y, absolute, relative), 0)
    tl.atomic_add(report, tl.sum(compared, 0))
    tl.atomic_add(report + 1, tl.sum(wrong, 0))


@triton.jit
def bluefin_close(got, want, elements, type, absolute, relative, report, threads):
    """Counts elements that are further from what is wanted than the tolerance. Types as in check.hip."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if type == 0:
        count_wrong(got, want, tl.float64, i, elements, absolute, relative, report, threads)
    elif type == 1:
        count_wrong(got, want, tl.float32, i, elements, absolute, relative, report, threads)
    elif type == 2:
        count_wrong(got, want, tl.float16, i, elements, absolute, relative, report, threads)
    elif type == 3:
        count_wrong(got, want, tl.bfloat16, i, elements, absolute, relative, report, threads)
    elif type == 4:
        count_wrong(got, want, tl.int8, i, elements, absolute, relative, report, threads)
    elif type == 5:
        count_wrong(got, want, tl.int32, i, elements, absolute, relative, report, threads)
    else:
        count_wrong(got, want, tl.int64, i, elements, absolute, relative, report, threads)


@triton.jit
def bits_of(seed, i):
    """Element `i` of what splitmix64 makes of `seed`."""
    state = seed.to(tl.uint64) + (i + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
    once = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9
    twice = (once ^ (once >> 27)) * 0x94D049BB133111EB
    return twice ^ (twice >> 31)


@triton.jit
def uniform(bits, mantissa: tl.constexpr):
    one: tl.constexpr = 1 << mantissa
    magnitude = ((bits & (one - 1)) + 1).to(tl.int64).to(tl.float64) / one
    return tl.where((bits >> 63) == 1, -magnitude, magnitude)


@triton.jit
def integer(bits):
    magnitude = (bits % 4 + 1).to(tl.int64)
    return tl.where((bits >> 63) == 1, -magnitude, magnitude)


@triton.jit
def make(data, element: tl.constexpr, mantissa: tl.constexpr, i, elements, seed, threads):
    to = data.to(tl.pointer_type(element))
    for start in range(0, elements, threads):
        at = start + i
        bits = bits_of(seed, at)
        if mantissa == 0:
            value = integer(bits).to(element)
        elif mantissa == 40:
            value = uniform(bits, mantissa)
        else:
            value = uniform(bits, mantissa).to(tl.float32).to(element)
        tl.store(to + at, value, mask=at < elements)


@triton.jit
def bluefin_random(data, elements, type, seed, threads):
    """Floats uniform in [-1, 1] whose magnitudes their type holds exactly, integers from -4 to 4, none of them zero."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if type == 0:
        make(data, tl.float64, 40, i, elements, seed, threads)
    elif type == 1:
        make(data, tl.float32, 20, i, elements, seed, threads)
    elif type == 2:
        make(data, tl.float16, 10, i, elements, seed, threads)
    elif type == 3:
        make(data, tl.bfloat16, 7, i, elements, seed, threads)
    elif type == 4:
        make(data, tl.int8, 0, i, elements, seed, threads)
    elif type == 5:
        make(data, tl.int32, 0, i, elements, seed, threads)
    else:
        make(data, tl.int64, 0, i, elements, seed, threads)
