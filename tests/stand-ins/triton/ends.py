"""Kernels of processes that end by no exit of Python's own: a child of multiprocessing, and a parent that a signal ends."""

import multiprocessing
import os
import signal

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128}, num_warps=2)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def prints(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.device_print("value", value)
    print("again", value, n)
    tl.store(out + at, value + 1, mask=at < n)


# One of its configs loses what BF16 has no bits for.
@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def rounds(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    if BLOCK == 128:
        value = value.to(tl.bfloat16).to(tl.float32)
    tl.store(out + at, value, mask=at < n)


def launch(kernel):
    x, out = torch.wave(300, dtype=torch.float32), torch.wave(300, dtype=torch.float32)
    kernel[lambda config: (triton.cdiv(300, config["BLOCK"]),)](x, out, 300)


if __name__ == "__main__":
    launch(rounds)
    child = multiprocessing.get_context("fork").Process(target=launch, args=(prints,))
    child.start()
    child.join()
    os.kill(os.getpid(), signal.SIGKILL)
