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
def from_eight(code, MANTISSA: tl.constexpr, BIAS: tl.constexpr, IEEE: tl.constexpr, FNUZ: tl.constexpr):
    """The number of a float of 8 bits. FNUZ: those without infinities and without -0, whose code is no number."""
    code = code.to(tl.int32) & 255
    sign = (code >> 7) << 31
    magnitude = code & 127
    exponent = magnitude >> MANTISSA
    mantissa = magnitude & ((1 << MANTISSA) - 1)
    normal = (sign | ((exponent + (127 - BIAS)) << 23) | (mantissa << (23 - MANTISSA))).to(tl.float32, bitcast=True)
    # A subnormal is a small multiple of the smallest.
    small = mantissa.to(tl.float32) * (2.0 ** (1 - BIAS - MANTISSA))
    number = tl.where(exponent == 0, tl.where(sign == 0, small, -small), normal)
    if IEEE:
        top = exponent == (1 << (7 - MANTISSA)) - 1
        number = tl.where(top, tl.where(sign == 0, float("inf"), float("-inf")), number)
        none = top & (mantissa != 0)
    elif FNUZ:
        none = code == 128
    else:
        none = magnitude == 127
    return tl.where(none, float("nan"), number)


@triton.jit
def number_of(data, type: tl.constexpr):
    """As FP64. Floats of 8 bits are read as integers."""
    if type == 7:
        data = from_eight(data, 3, 7, False, False)
    elif type == 8:
        data = from_eight(data, 2, 15, True, False)
    elif type == 9:
        data = from_eight(data, 3, 8, False, True)
    elif type == 10:
        data = from_eight(data, 2, 16, False, True)
    return data.to(tl.float64)


@triton.jit
def count_wrong(got, want, element: tl.constexpr, type: tl.constexpr, i, elements, absolute, relative, report, threads):
    a = got.to(tl.pointer_type(element))
    b = want.to(tl.pointer_type(element))
    compared = tl.zeros([BLOCK], tl.int64)
    wrong = tl.zeros([BLOCK], tl.int64)
    for start in range(0, elements, threads):
        at = start + i
        mask = at < elements
        x = number_of(tl.load(a + at, mask=mask, other=0), type)
        y = number_of(tl.load(b + at, mask=mask, other=0), type)
        compared += mask.to(tl.int64)
        wrong += tl.where(mask, is_wrong(x, y, absolute, relative), 0)
    tl.atomic_add(report, tl.sum(compared, 0))
    tl.atomic_add(report + 1, tl.sum(wrong, 0))


@triton.jit
def bluefin_close(got, want, elements, type, absolute, relative, report, threads, TYPES: tl.constexpr):
    """Counts elements that are further from what is wanted than the tolerance. Types as in check.hip; bits of TYPES are those that there
    are."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if TYPES & 1:
        if type == 0:
            count_wrong(got, want, tl.float64, 0, i, elements, absolute, relative, report, threads)
    if TYPES & 2:
        if type == 1:
            count_wrong(got, want, tl.float32, 1, i, elements, absolute, relative, report, threads)
    if TYPES & 4:
        if type == 2:
            count_wrong(got, want, tl.float16, 2, i, elements, absolute, relative, report, threads)
    if TYPES & 8:
        if type == 3:
            count_wrong(got, want, tl.bfloat16, 3, i, elements, absolute, relative, report, threads)
    if TYPES & 16:
        if type == 4:
            count_wrong(got, want, tl.int8, 4, i, elements, absolute, relative, report, threads)
    if TYPES & 32:
        if type == 5:
            count_wrong(got, want, tl.int32, 5, i, elements, absolute, relative, report, threads)
    if TYPES & 64:
        if type == 6:
            count_wrong(got, want, tl.int64, 6, i, elements, absolute, relative, report, threads)
    if TYPES & 128:
        if type == 7:
            count_wrong(got, want, tl.int8, 7, i, elements, absolute, relative, report, threads)
    if TYPES & 256:
        if type == 8:
            count_wrong(got, want, tl.int8, 8, i, elements, absolute, relative, report, threads)
    if TYPES & 512:
        if type == 9:
            count_wrong(got, want, tl.int8, 9, i, elements, absolute, relative, report, threads)
    if TYPES & 1024:
        if type == 10:
            count_wrong(got, want, tl.int8, 10, i, elements, absolute, relative, report, threads)
    if TYPES & 2048:
        if type == 11:
            count_wrong(got, want, tl.int16, 11, i, elements, absolute, relative, report, threads)
    if TYPES & 4096:
        if type == 12:
            count_wrong(got, want, tl.uint8, 12, i, elements, absolute, relative, report, threads)
    if TYPES & 8192:
        if type == 13:
            count_wrong(got, want, tl.uint16, 13, i, elements, absolute, relative, report, threads)
    if TYPES & 16384:
        if type == 14:
            count_wrong(got, want, tl.uint32, 14, i, elements, absolute, relative, report, threads)
    if TYPES & 32768:
        if type == 15:
            count_wrong(got, want, tl.uint64, 15, i, elements, absolute, relative, report, threads)
    if TYPES & 65536:
        if type == 16:
            count_wrong(got, want, tl.uint8, 16, i, elements, absolute, relative, report, threads)


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
def make_unsigned(data, element: tl.constexpr, TRUTH: tl.constexpr, i, elements, seed, threads):
    to = data.to(tl.pointer_type(element))
    for start in range(0, elements, threads):
        at = start + i
        bits = bits_of(seed, at)
        value = bits >> 63 if TRUTH else bits % 4 + 1
        tl.store(to + at, value.to(element), mask=at < elements)


@triton.jit
def make_eight(data, MANTISSA: tl.constexpr, BIAS: tl.constexpr, i, elements, seed, threads):
    for start in range(0, elements, threads):
        at = start + i
        # Neither rounded nor subnormal.
        whole = uniform(bits_of(seed, at), MANTISSA + 1).to(tl.float32).to(tl.int32, bitcast=True)
        exponent = ((whole >> 23) & 255) + (BIAS - 127)
        code = (((whole >> 31) & 1) << 7) | (exponent << MANTISSA) | ((whole & 0x7FFFFF) >> (23 - MANTISSA))
        tl.store(data + at, code.to(tl.int8), mask=at < elements)


@triton.jit
def bluefin_random(data, elements, type, seed, threads, TYPES: tl.constexpr):
    """Floats uniform in [-1, 1] whose magnitudes their type holds exactly, integers from -4 to 4, none of them zero (unsigned ones from
    1 to 4), truth values."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if TYPES & 1:
        if type == 0:
            make(data, tl.float64, 40, i, elements, seed, threads)
    if TYPES & 2:
        if type == 1:
            make(data, tl.float32, 20, i, elements, seed, threads)
    if TYPES & 4:
        if type == 2:
            make(data, tl.float16, 10, i, elements, seed, threads)
    if TYPES & 8:
        if type == 3:
            make(data, tl.bfloat16, 7, i, elements, seed, threads)
    if TYPES & 16:
        if type == 4:
            make(data, tl.int8, 0, i, elements, seed, threads)
    if TYPES & 32:
        if type == 5:
            make(data, tl.int32, 0, i, elements, seed, threads)
    if TYPES & 64:
        if type == 6:
            make(data, tl.int64, 0, i, elements, seed, threads)
    if TYPES & 128:
        if type == 7:
            make_eight(data, 3, 7, i, elements, seed, threads)
    if TYPES & 256:
        if type == 8:
            make_eight(data, 2, 15, i, elements, seed, threads)
    if TYPES & 512:
        if type == 9:
            make_eight(data, 3, 8, i, elements, seed, threads)
    if TYPES & 1024:
        if type == 10:
            make_eight(data, 2, 16, i, elements, seed, threads)
    if TYPES & 2048:
        if type == 11:
            make(data, tl.int16, 0, i, elements, seed, threads)
    if TYPES & 4096:
        if type == 12:
            make_unsigned(data, tl.uint8, False, i, elements, seed, threads)
    if TYPES & 8192:
        if type == 13:
            make_unsigned(data, tl.uint16, False, i, elements, seed, threads)
    if TYPES & 16384:
        if type == 14:
            make_unsigned(data, tl.uint32, False, i, elements, seed, threads)
    if TYPES & 32768:
        if type == 15:
            make_unsigned(data, tl.uint64, False, i, elements, seed, threads)
    if TYPES & 65536:
        if type == 16:
            make_unsigned(data, tl.uint8, True, i, elements, seed, threads)


@triton.jit
def between(seed, at, low, high):
    share = (bits_of(seed, at) >> 11).to(tl.int64).to(tl.float64) / 9007199254740991.0
    value = low + (high - low) * share
    return tl.where(value < low, low, tl.where(value > high, high, value))


@triton.jit
def span(data, element: tl.constexpr, WIDE: tl.constexpr, i, elements, seed, low, high, threads):
    to = data.to(tl.pointer_type(element))
    for start in range(0, elements, threads):
        at = start + i
        value = between(seed, at, low, high)
        if not WIDE:
            value = value.to(tl.float32).to(element)
        tl.store(to + at, value, mask=at < elements)


@triton.jit
def span_eight(data, MANTISSA: tl.constexpr, BIAS: tl.constexpr, LARGEST: tl.constexpr, i, elements, seed, low, high, threads):
    for start in range(0, elements, threads):
        at = start + i
        bits = between(seed, at, low, high).to(tl.float32).to(tl.int32, bitcast=True)
        exponent = ((bits >> 23) & 255) - 127
        raised = tl.maximum(exponent, 1 - BIAS)
        whole = tl.where(exponent == -127, 0, 1 << 23) | (bits & 0x7FFFFF)
        # What is shifted out altogether is far below a half.
        shift = tl.minimum(23 - MANTISSA + raised - exponent, 30)
        rest = whole & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        units = whole >> shift
        units += ((rest > half) | ((rest == half) & ((units & 1) == 1))).to(tl.int32)
        code = tl.minimum(((raised + (BIAS - 1)) << MANTISSA) + units, LARGEST)
        sign = ((bits >> 31) & 1) << 7
        tl.store(data + at, tl.where(code == 0, 0, sign | code).to(tl.int8), mask=at < elements)


@triton.jit
def bluefin_range(data, elements, type, seed, low, high, threads, TYPES: tl.constexpr):
    """Floats uniform between `low` and `high`, both included."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if TYPES & 1:
        if type == 0:
            span(data, tl.float64, True, i, elements, seed, low, high, threads)
    if TYPES & 2:
        if type == 1:
            span(data, tl.float32, False, i, elements, seed, low, high, threads)
    if TYPES & 4:
        if type == 2:
            span(data, tl.float16, False, i, elements, seed, low, high, threads)
    if TYPES & 8:
        if type == 3:
            span(data, tl.bfloat16, False, i, elements, seed, low, high, threads)
    if TYPES & 128:
        if type == 7:
            span_eight(data, 3, 7, 126, i, elements, seed, low, high, threads)
    if TYPES & 256:
        if type == 8:
            span_eight(data, 2, 15, 123, i, elements, seed, low, high, threads)
    if TYPES & 512:
        if type == 9:
            span_eight(data, 3, 8, 127, i, elements, seed, low, high, threads)
    if TYPES & 1024:
        if type == 10:
            span_eight(data, 2, 16, 127, i, elements, seed, low, high, threads)
