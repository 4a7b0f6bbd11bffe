"""Puts a tuner of its own in the place of Triton's, and then launches by it."""

import torch
import triton
import triton.language as tl


def run(tuner, *args, **kwargs):
    return tuner.fn.run(*args, **kwargs, **tuner.configs[0].all_kwargs())


triton.runtime.Autotuner.run = run


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["count"])
@triton.jit
def copied(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count), mask=at < count)


if __name__ == "__main__":
    copied[(2,)](torch.wave(100, dtype=torch.float32), torch.empty(100), 100)
