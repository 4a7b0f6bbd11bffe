"""Kernels with what is no part of a kernel spec: types of torch's, named tuples, infinite numbers, functions that Python runs while it compiles,
and objects that stand in for tensors. Launched without an autotuner but one, which has heuristics alone to choose its block.
"""

import collections
import typing

import torch
import triton
import triton.language as tl

Pair = collections.namedtuple("Pair", ["data", "factor"])


class Sizes(typing.NamedTuple):
    rows: int
    columns: int


class Number(float):
    """Is written in a way of its own, as NumPy's are."""

    def __repr__(self):
        return f"np.float64({float(self)})"


def value_of(one):
    return one.value if isinstance(one, tl.constexpr) else one


@tl.constexpr
def twice(number):
    return value_of(number) * 2


@triton.constexpr_function
def thrice(number):
    return number * 3


@triton.jit
def carried(x, pair, out, count, most, KIND: tl.constexpr, LEAST: tl.constexpr, SIZES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count, other=LEAST)
    if KIND == torch.float16:
        value += tl.load(pair.data + at, mask=at < count, other=0.0) * pair.factor
    FINITE: tl.constexpr = torch.finfo(torch.float32).max
    both = Pair(tl.minimum(value, tl.minimum(most, FINITE)), SIZES.columns)
    tl.store(out + at, both.data * both.factor * twice(2) * thrice(1), mask=at < count)


# Where `index` says, of rows that begin nowhere.
@triton.jit
def gathered(x, index, out, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(index + at, mask=at < count, other=0)
    tl.store(out + at, tl.load(x + place * columns, mask=at < count, other=0.0), mask=at < count)


@triton.jit
def reversed(x, out, count, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride, mask=at < count, other=0.0), mask=at < count)


@triton.jit
def widened(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count, other=0.0).to(tl.float32), mask=at < count)


# What is masked is as small as a float can be, beside which nothing else has a size.
@triton.jit
def masked(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    größe = tl.load(x + at, mask=at < count, other=0.0)
    tl.store(out + at, tl.where(at % 2 == 0, größe, -3.4e38), mask=at < count)


@triton.autotune(configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=2)], key=["count"])
@triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["count"] // 4)})
@triton.jit
def warps(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count, other=0.0) * 2, mask=at < count)


# A constexpr that is an option of a launch as well.
@triton.jit
def staged(x, out, count, num_stages: tl.constexpr, BLOCK: tl.constexpr):
    for begin in tl.range(tl.program_id(0) * BLOCK, count, BLOCK * 2, num_stages=num_stages):
        at = begin + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < count, other=0.0) * num_stages, mask=at < count)


# A `while`, through which addresses go, and an argument called as Triton calls the launch's.
@triton.jit
def stepped(grid, out, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    place = out
    while count > 0:
        total += tl.load(grid + at, mask=at < count, other=0.0)
        tl.store(place + at, total, mask=at < count)
        place += BLOCK
        grid += BLOCK
        count -= BLOCK


class Strided:
    """A view with strides that torch has not."""

    def __init__(self, base, shape, strides, begin=0):
        self.base, self.shape, self.strides, self.begin = base, shape, strides, begin
        self.dtype, self.device = base.dtype, base.device

    def stride(self):
        return self.strides

    def element_size(self):
        return self.base.element_size()

    def data_ptr(self):
        return self.base.data_ptr() + self.begin * self.element_size()

    def untyped_storage(self):
        return self.base.untyped_storage()


class Bare:
    """An address and a type, and nothing more."""

    def __init__(self, base):
        self.dtype, self.data_ptr = base.dtype, base.data_ptr


def floats(count):
    return torch.wave(count, dtype=torch.float32)


if __name__ == "__main__":
    out, grid = torch.empty(100), (2,)
    carried[grid](floats(100), Pair(floats(100), 3), out, 100, float("inf"), torch.float16, float("-inf"), Sizes(1, Number(2)), BLOCK=64)
    rows = Strided(floats(4000), [100, 40], [0, 1])
    gathered[grid](rows, torch.tensor([at * 37 % 100 for at in range(100)]), out, 100, 40, BLOCK=64)
    reversed[grid](Strided(floats(100), [100], [-1], 99), out, 100, -1, BLOCK=64)
    widened[grid](triton.reinterpret(torch.bytes(100), tl.float8e5), out, 100, BLOCK=64)
    result = torch.sentinels(100)
    masked[grid](floats(100), result, 100, BLOCK=64)
    warps[lambda given: (triton.cdiv(100, given["BLOCK"]),)](floats(100), out, 100)
    staged[grid](floats(100), out, 100, num_stages=3, BLOCK=16)
    # By its place, where the option is another.
    staged[grid](floats(100), out, 100, tl.constexpr(1), BLOCK=32)
    stepped[(1,)](floats(100), out, 100, BLOCK=32)
    widened[grid](Bare(floats(100)), out, 100, BLOCK=64)
    print("benchmarked", torch.benchmarked)
