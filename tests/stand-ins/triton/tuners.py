"""Tuners of a program's own, as libraries of kernels have them: one that tunes by itself, and remembers by sizes that it has rounded, and one that
has Triton tune. Prints the config of each launch, and how often something was benchmarked.
"""

import os

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128}, num_warps=2)]
tried = 0


class Rounded(triton.runtime.Autotuner):
    def __init__(self, *given):
        super().__init__(*given)
        # By a key that Triton has not.
        self.cache = {}

    def run(self, *args, **kwargs):
        global tried
        self.nargs = dict(zip(self.arg_names, args))
        config = self.configs[0]
        if len(self.configs) > 1:
            key = triton.next_power_of_2(self.nargs["count"])
            if key not in self.cache:
                for one in super().prune_configs(kwargs):
                    tried += 1
                    self.fn.run(*args, **kwargs, **one.all_kwargs())
                self.cache[key] = self.configs[0]
            config = self.cache[key]
        self.best_config = config
        return self.fn.run(*args, **kwargs, **config.all_kwargs())


class Counted(triton.runtime.Autotuner):
    runs = 0

    def run(self, *args, **kwargs):
        Counted.runs += 1
        return (lambda: super(Counted, self).run(*args, **kwargs))()


def tuned(tuner):
    return lambda fn: tuner(fn, fn.arg_names, CONFIGS, ["count"], None, None)


@tuned(Rounded)
@triton.jit
def rounded(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count, other=0.0) + 1, mask=at < count)


@tuned(Counted)
@triton.jit
def counted(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count, other=0.0) + 2, mask=at < count)


if __name__ == "__main__":
    size = int(os.environ.get("STAND_IN_SIZE", "300"))
    for kernel in (rounded, rounded, counted):
        kernel[lambda given: (triton.cdiv(size, given["BLOCK"]),)](torch.wave(size, dtype=torch.float32), torch.empty(size), size)
        print(kernel.base_fn.__name__, kernel.best_config)
    print("counted", Counted.runs, "tried", tried, "benchmarked", torch.benchmarked)
