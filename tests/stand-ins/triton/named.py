"""Two functions of one name, and launches that differ in what is equal to Python: a constant that is True, 1 or False. Prints the config of each."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128}, num_warps=2)]


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def scale(values, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(values + at, mask=at < count) * 2, mask=at < count)


twice = scale


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def scale(values, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(values + at, mask=at < count) * 3, mask=at < count)


thrice = scale


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def added(values, out, count, FLAG: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(values + at, mask=at < count) + FLAG, mask=at < count)


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def joined(values, more, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < count)
    if more is not None:
        value += tl.load(more + at, mask=at < count)
    tl.store(out + at, value, mask=at < count)


def main():
    count = 300
    values, out = torch.wave(count, dtype=torch.float32), torch.empty(count)

    def grid(meta):
        return (triton.cdiv(count, meta["BLOCK"]),)

    for kernel in (twice, thrice):
        kernel[grid](values, out, count)
        print("scale", kernel.best_config)
    for _ in range(3):
        for flag in (True, 1, False):
            added[grid](values, out, count=count, FLAG=flag)
    # What is no tensor at first is one of two types later.
    half = torch.empty(count, dtype=torch.float16)
    for _ in range(3):
        for more in (None, out, half):
            joined[grid](values, more, out, count)
    print("benchmarked", torch.benchmarked)


if __name__ == "__main__":
    main()
