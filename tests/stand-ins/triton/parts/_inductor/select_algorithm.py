"""Stands in for PyTorch's module of this name: chooses between libraries and configs of templates by times, which it keeps on disk. What it
compiles and times is counted.
"""

import json
import math
import os

import torch


class Meta:
    """A tensor that something is timed with."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def to_tensor(self):
        return torch.wave(*self.sizes)


class Request:
    def __init__(self, kernel_name, module_path, inputs, output, extra_args, num_warps, num_stages):
        self.kernel_name, self.module_path = kernel_name, module_path
        self.input_tensor_meta, self.output_tensor_meta, self.extra_args = inputs, output, extra_args
        self.num_warps, self.num_stages, self.workspace_size = num_warps, num_stages, None


class TritonTemplateCaller:
    def __init__(self, description, bmreq, ms):
        self.description, self.bmreq, self.ms = description, bmreq, ms

    def hash_key(self):
        return f"{self.bmreq.kernel_name}-{os.path.basename(self.bmreq.module_path)[:-3]}"


class ExternKernelCaller:
    description = ""

    def __init__(self, name, ms):
        self.name, self.ms = name, ms

    def hash_key(self):
        return f"{self.name}-of-a-library"


class PersistentCache:
    system = {"device": {"name": "stand-in"}}

    @staticmethod
    def get_local_cache_path():
        return os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "cache", "0123456789abcdef")

    def lookup(self, choices, op, inputs, benchmark, hint_override=None):
        try:
            with open(self.get_local_cache_path()) as file:
                known = json.load(file)["cache"].get(op, {}).get(inputs, {}).get("highest", {})
        except FileNotFoundError:
            known = {}
        if all(choice.hash_key() in known for choice in choices):
            return {choice: known[choice.hash_key()] for choice in choices}
        return {} if benchmark is None else benchmark(choices)


class AlgorithmSelectorCache(PersistentCache):
    compiled = timed = 0

    def __call__(self, name, choices, inputs):
        if len(self.lookup(choices, name, inputs, benchmark=None)) < len(choices):
            self.compiled += len(choices)
            for choice in choices:
                # It is left out from then on.
                choice.ms = math.inf if choice.ms is None else choice.ms
        times = self.lookup(choices, name, inputs, self.benchmark)
        assert any(time < math.inf for time in times.values()), "no valid choices"
        return min(choices, key=times.__getitem__)

    def benchmark(self, choices):
        self.timed += len(choices)
        if any(choice.ms is None for choice in choices):
            raise TypeError("a config that does not compile, where nothing was compiled before")
        return {choice: choice.ms for choice in choices}
