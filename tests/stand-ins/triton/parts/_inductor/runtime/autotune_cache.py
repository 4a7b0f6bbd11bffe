"""Stands in for PyTorch's module of this name: choices on disk, beside the file that a kernel was written into."""

import hashlib
import json
import os


class AutotuneCache:
    def __init__(self, configs_hash):
        self.configs_hash = configs_hash

    @staticmethod
    def create(inductor_meta, filename, configs_hash):
        cache = AutotuneCache(configs_hash)
        name = hashlib.sha256(os.path.basename(filename).encode()).hexdigest()
        cache.local_cache = (None, os.path.join(os.path.dirname(filename), f"{name}.best_config"))
        return cache

    def read_best(self, inductor_meta, configs):
        try:
            with open(self.local_cache[1]) as file:
                best = json.load(file)
        except FileNotFoundError:
            return None
        if best.pop("configs_hash") != self.configs_hash:
            return None
        if inductor_meta.get("coordinate_descent_tuning") and best.pop("found_by_coordesc"):
            options = {name: best.pop(name) for name in ("num_warps", "num_stages")}
            # All else is of the kernel's, so that nothing else may be there.
            config = type(configs[0])(best, **options)
            config.found_by_coordesc = True
            return config
        names = [{**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages} for config in configs]
        found = [config for config, given in zip(configs, names) if all(best.get(name) == value for name, value in given.items())]
        return found[0] if len(found) == 1 else None

    def save(self, config, time_taken_ns, found_by_coordesc=False, triton_cache_hash=None):
        raise AssertionError("nothing is to be chosen here")
