"""Stands in for PyTorch's module of this name: the autotuner of kernels that Inductor wrote, in so far as anything looks at it. Benchmarking
is counted.
"""

import copy
import enum
import hashlib
import threading

import torch
import triton
from triton import Config
from triton.compiler import ASTSource
from triton.runtime import driver

from torch._inductor.runtime.autotune_cache import AutotuneCache

HeuristicType = enum.Enum("HeuristicType", "POINTWISE REDUCTION TEMPLATE USER_AUTOTUNE FIXED")


class GridExpr:
    @staticmethod
    def from_meta(inductor_meta, config):
        assert inductor_meta["grid_type"] == "Grid1D"
        made = GridExpr()
        made.block = (config.kwargs if isinstance(config, Config) else config).get("XBLOCK")
        return made

    def eval_slow(self, sizes):
        return (sizes["xnumel"] + self.block - 1) // self.block, 1, 1


class Result:
    """A config that is compiled."""

    def __init__(self, config, names):
        self.config, self.names = config, names

    def make_launcher(self):
        scope = {}
        exec(f"def launcher({', '.join(self.names)}, stream): pass", scope)
        scope["launcher"].config = self.config
        return scope["launcher"]


class CachingAutotuner:
    def __init__(self, fn, triton_meta, configs, save_cache_hook, heuristic_type, inductor_meta, filename, mutated_arg_names=()):
        self.fn, self.triton_meta, self.configs = fn, triton_meta, configs
        self.save_cache_hook, self.heuristic_type, self.inductor_meta = save_cache_hook, heuristic_type, inductor_meta
        self.filename, self.mutated_arg_names, self.reset_to_zero_arg_names = filename, mutated_arg_names, []
        self.launchers, self.lock = [], threading.Lock()

    def precompile(self):
        self.launchers = [self._precompile_config(config).make_launcher() for config in self.configs]
        self.configs = None

    def _precompile_config(self, config):
        meta = copy.deepcopy(self.triton_meta)
        meta["constants"].update(config.kwargs)
        source = ASTSource(self.fn, meta["signature"], meta["constants"], meta["configs"][0])
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages, "debug": False}
        triton.compile(source, target=driver.active.get_current_target(), options=options)
        return Result(config, [name for name in self.fn.arg_names if name not in meta["constants"]])

    def autotune_to_one_config(self, *args, **kwargs):
        torch.benchmarked += len(self.launchers)
        self.launchers = self.launchers[:1]

    def coordinate_descent_tuning(self, launcher, *args, **kwargs):
        torch.benchmarked += 1
        return launcher

    def run(self, *args, stream, benchmark_run=False, **kwargs):
        if not self.launchers:
            self.precompile()
        if len(self.launchers) > 1:
            self.autotune_to_one_config(*args, **kwargs)
        descends = self.inductor_meta.get("coordinate_descent_tuning")
        if descends and not getattr(self.launchers[0].config, "found_by_coordesc", False):
            self.launchers = [self.coordinate_descent_tuning(self.launchers[0], *args, **kwargs)]
        return self.launchers[0](*args, **kwargs, stream=stream)


def pointwise(configs, triton_meta, inductor_meta, filename):
    """Decorates a kernel with its autotuner. `configs` are made here, of hints, in PyTorch."""
    cache = None
    if len(configs) > 1 or inductor_meta.get("coordinate_descent_tuning"):
        text = "".join(f"{sorted(one.kwargs.items())} {one.num_warps} {one.num_stages}\n" for one in configs)
        cache = AutotuneCache.create(inductor_meta, filename, hashlib.sha256(text.encode()).hexdigest())
        best = cache.read_best(inductor_meta, configs)
        configs = configs if best is None else [best]
    save = cache and cache.save
    return lambda fn: CachingAutotuner(fn, triton_meta, configs, save, HeuristicType.POINTWISE, inductor_meta, filename)
