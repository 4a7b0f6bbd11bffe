"""Kernels that can not be captured, each in its way, and then an exit code of its own."""

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

PAIR = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]


class Word:
    pass


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, pre_hook=lambda given: given["out"].clone()), triton.Config({"BLOCK": 128})], key=["count"])
@triton.jit
def hooked(out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at, mask=at < count)


@triton.autotune(configs=PAIR, key=["count"])
@triton.jit
def addressed(places, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(tl.load(places).to(tl.int64).to(tl.pointer_type(tl.int32)) + at, at, mask=at < count)


@triton.autotune(configs=PAIR, key=["count"])
@triton.jit
def worded(out, count, word: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at, mask=at < count)


def shorter(given):
    given["out"].shape = [128]


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=warps, pre_hook=shorter) for warps in (1, 2)], key=["count"])
@triton.jit
def described(out, count, BLOCK: tl.constexpr):
    out.store([tl.program_id(0) * BLOCK], out.load([tl.program_id(0) * BLOCK]))


DOUBLED = tl.constexpr(lambda number: number * 2)


@triton.autotune(configs=PAIR, key=["count"])
@triton.jit
def nameless(out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at * DOUBLED(1), mask=at < count)


class Plain:
    """A function as Triton's interpreter has it."""

    def __init__(self, fn):
        self.fn, self.arg_names = fn, ["out", "count", "BLOCK"]

    def run(self, *args, **kwargs):
        self.fn(*args)


@triton.autotune(configs=PAIR, key=["count"])
@Plain
def interpreted(out, count):
    assert count == 256


out = torch.empty(256, dtype=torch.int32)
hooked[(4,)](out, 256)
addressed[(1,)](out, 64)
worded[(4,)](out, 256, Word())
nameless[(4,)](out, 256)
described[(4,)](TensorDescriptor(out, [256], [1], [64]), 256)
interpreted[(4,)](out, 256)
sys.exit(3)
