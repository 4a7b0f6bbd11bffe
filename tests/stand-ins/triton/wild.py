"""Kernels with what programs do besides: values of configs that are no words, heuristics on either side of an autotuner, constants that are no
part of the tuning key, hooks that set outputs to zero, tuples and functions as arguments, memory that is there for partial sums. Prints the
config that each launch took, and how often Triton benchmarked.

STAND_IN_KERNELS names them. With STAND_IN_THREADS each is launched by a thread of its own, all at once.
"""

import os
import threading

# Globals that are no tl.constexpr.
os.environ["TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"] = "1"

import torch
import triton
import triton.language as tl


def config(warps, pre_hook=None, **params):
    return triton.Config(params, num_warps=warps, pre_hook=pre_hook)


@triton.autotune(
    configs=[
        config(1, BLOCK=64, MODE="", CACHE=".cg", ACC=tl.float32, BY=0.5, SHAPE=(2, 32)),
        config(2, BLOCK=128, MODE="a-b", CACHE="", ACC=tl.float64, BY=0.25, SHAPE=(4, 32)),
        config(2, BLOCK=256, MODE="None", CACHE=".ca", ACC=tl.float32, BY=0.125, SHAPE=(8, 32)),
    ],
    key=["count"],
)
@triton.jit
def words(values, out, count, BLOCK: tl.constexpr, MODE: tl.constexpr, CACHE: tl.constexpr, ACC: tl.constexpr, BY: tl.constexpr, SHAPE: tl.constexpr):
    tl.static_assert(SHAPE[0] * SHAPE[1] == BLOCK)
    tl.static_assert((MODE == "") == (BY == 0.5))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < count, other=0.0, cache_modifier=CACHE).to(ACC)
    tl.store(out + at, value * BY / BY, mask=at < count)


@triton.heuristics({"SCALED": lambda given: given["scale"] is not None})
@triton.autotune(configs=[config(1, ROWS=16), config(2, ROWS=16), config(2, ROWS=32)], key=["count"])
@triton.heuristics({"EVEN": lambda given: given["count"] % given["ROWS"] == 0})
@triton.heuristics({"ODD": lambda given: not given["EVEN"], "num_warps": lambda given: min(given["num_warps"], given["ROWS"] // 16)})
@triton.jit
def guessed(values, scale, out, count, CAUSAL: tl.constexpr, ROWS: tl.constexpr, SCALED: tl.constexpr, EVEN: tl.constexpr, ODD: tl.constexpr):
    tl.static_assert(EVEN != ODD)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    value = tl.load(values + at) if EVEN else tl.load(values + at, mask=at < count, other=0.0)
    if SCALED:
        value *= tl.load(scale)
    if CAUSAL:
        value = tl.where(at < count // 2, value, 0.0)
    tl.store(out + at, value, mask=at < count)


zeroed = 0


def to_zero(*names):
    def hook(given):
        global zeroed
        for name in names:
            if given[name] is not None:
                given[name].zero_()
                zeroed += isinstance(given[name], torch.Tensor)

    return hook


@triton.autotune(
    configs=[config(1, BLOCK=64, SPLIT=1), config(1, to_zero("out"), BLOCK=64, SPLIT=2), config(2, to_zero("out"), BLOCK=128, SPLIT=4)],
    key=["count"],
)
@triton.jit
def split(values, out, count, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(tl.program_id(0) * BLOCK, count, BLOCK * SPLIT):
        total += tl.load(values + begin + at, mask=begin + at < count, other=0.0)
    if SPLIT == 1:
        tl.store(out, tl.sum(total))
    else:
        tl.atomic_add(out, tl.sum(total))


LEAST = 32


# Each block of rows has a row of partial sums, for which there is memory for the smallest blocks.
@triton.autotune(configs=[config(2, to_zero("total"), ROWS=rows) for rows in (LEAST, 64)], key=["rows", "columns"])
@triton.jit
def backward(x, dy, dx, total, partial, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    at = row[:, None] * columns + column[None, :]
    product = tl.load(x + at, mask=mask, other=0.0) * tl.load(dy + at, mask=mask, other=0.0)
    tl.store(dx + at, product, mask=mask)
    tl.atomic_add(total + column, tl.sum(product, 0), mask=column < columns)
    tl.store(partial + tl.program_id(0) * columns + column, tl.sum(product, 0), mask=column < columns)


SLOPE = 0.5


@triton.jit
def relu(x):
    return tl.maximum(x, x * SLOPE)


@triton.jit
def doubled(x):
    return x * 2


@triton.autotune(configs=[config(1, BLOCK=64), config(2, BLOCK=128)], key=["count"])
@triton.jit
def joined(inputs, out, count, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(inputs[0] + at, mask=at < count, other=0.0) + tl.load(inputs[1][0] + at, mask=at < count, other=0.0) * inputs[1][1]
    tl.store(out + at, ACTIVATION(value), mask=at < count)


# Without an autotuner: a sum for each block, in memory that is made for these blocks.
@triton.jit
def partial_sums(values, sums, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(values + at, mask=at < count, other=0.0)))


# With one, and for smaller blocks than it tries.
@triton.autotune(configs=[config(2, BLOCK=LEAST), config(4, BLOCK=LEAST), config(2, BLOCK=64)], key=["count"])
@triton.jit
def tuned_sums(values, sums, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(values + at, mask=at < count, other=0.0)))


# A total of each row. There are as many as there were parts of a row, if programs took parts.
@triton.autotune(configs=[config(1, BLOCK=32), config(2, BLOCK=64)], key=["columns"])
@triton.jit
def row_totals(values, totals, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(columns):
        total += tl.load(values + row * columns + at, mask=row < 32, other=0.0)
    tl.store(totals + row, total, mask=row < 32)


# Sums of columns by as many programs as the config says, one at the least.
@triton.autotune(configs=[config(1, SPLIT=1), config(1, SPLIT=2)], key=["count"], reset_to_zero=["sums"])
@triton.jit
def split_sums(values, sums, count, SPLIT: tl.constexpr):
    at = tl.arange(0, 32)
    total = tl.zeros((32,), tl.float32)
    for begin in range(tl.program_id(0) * 32, count, SPLIT * 32):
        total += tl.load(values + begin + at)
    tl.atomic_add(sums + at, total)


def floats(*shape):
    return torch.wave(*shape, dtype=torch.float32)


def by(name, size):
    return lambda meta: (triton.cdiv(size, meta[name]),)


def run_words():
    words[by("BLOCK", 300)](floats(300), torch.empty(300), 300)
    print("words", words.best_config)


def run_guessed():
    for causal in (True, False, True):
        guessed[by("ROWS", 80)](floats(80), None, torch.empty(80), 80, CAUSAL=causal)
        print("guessed", causal, guessed.fn.best_config)
    guessed[by("ROWS", 80)](floats(80), floats(1), torch.empty(80), 80, CAUSAL=True)


def run_split():
    before = zeroed
    split[lambda meta: (meta["SPLIT"],)](floats(300), torch.empty(1), 300)
    print("split", split.best_config, "zeroed", zeroed - before)


def run_backward():
    rows, columns = 160, 48
    partial = torch.empty(triton.cdiv(rows, LEAST), columns)
    backward[by("ROWS", rows)](floats(rows, columns), floats(rows, columns), torch.empty(rows, columns), torch.empty(columns), partial, rows, columns, COLUMNS=64)
    # Who adds them up asks how many there are.
    print("backward", triton.cdiv(rows, backward.best_config.kwargs["ROWS"]))


def run_joined():
    for activation in (relu, doubled):
        joined[by("BLOCK", 200)]((floats(200), (floats(200), 3)), torch.empty(200), 200, ACTIVATION=activation)


def run_partial_sums():
    # The first launches nothing.
    for count in (0, 1000):
        partial_sums[by("BLOCK", count)](floats(1000), torch.empty(8), count, BLOCK=128)


def run_tuned_sums():
    # The first has the same key, and launches nothing.
    for grid in ((0,), by("BLOCK", 1000)):
        tuned_sums[grid](floats(1000), torch.empty(triton.cdiv(1000, LEAST // 2)), 1000)


def run_row_totals():
    row_totals[by("BLOCK", 32)](floats(32, 1024), torch.empty(32), 1024)


def run_split_sums():
    split_sums[lambda meta: (meta["SPLIT"],)](floats(960), torch.empty(32), 960)


def main():
    calls = [globals()[f"run_{name}"] for name in os.environ["STAND_IN_KERNELS"].split()]
    if "STAND_IN_THREADS" in os.environ:
        at_once = threading.Barrier(len(calls))
        threads = [threading.Thread(target=lambda call: (at_once.wait(), call()), args=(call,)) for call in calls]
        for act in (threading.Thread.start, threading.Thread.join):
            for thread in threads:
                act(thread)
    else:
        for call in calls:
            call()
    print("benchmarked", torch.benchmarked)


if __name__ == "__main__":
    main()
