"""Launches of `@triton.jit` functions that have no autotuner: captured, or given what was found, as if each had one whose only config is what the
program launches it with.

What may be chosen of a launch is its options, and those constexprs that its grid is computed from: of others nobody knows what depends on them.
"""

import threading

import bluefin_around
import bluefin_hooks
from bluefin_triton import State, between_events, given_to

# Tuning keys of a function that are captured: sizes may be others in each launch.
KEYS = 4
OPTIONS = ("num_warps", "num_stages", "num_ctas")


class Inside(threading.local):
    """Whether this thread is in an autotuner, whose own launches these are."""

    deep = 0

    def __enter__(self):
        self.deep += 1

    def __exit__(self, *_):
        self.deep -= 1


class Plain:
    """What stands in for the autotuner of a launch."""

    configs_least = 1
    cache_results = False
    user_defined_pre_hook = False
    reset_to_zero = restore_value = ()
    # Whether a program launches it without an autotuner.
    plain = True

    def __init__(self, autotuner, function, args, kwargs):
        import triton

        self.fn, self.base_fn, self.arg_names = function, function.fn, function.arg_names
        given = given_to(self.arg_names, args, kwargs)
        self.keys = [name for name in self.arg_names if isinstance(given.get(name), (bool, int, str))]
        self.key = tuple(given[name] for name in self.keys)
        self.key += tuple(str(given[name].dtype) for name in self.arg_names if hasattr(given.get(name), "dtype"))
        described = [one for name in self.arg_names for one in descriptors(given.get(name))]
        self.key += tuple(f"{one.base.dtype}{[*one.block_shape]}" for one in described)
        # AMD's backend has a default of its own.
        stages = 2 if triton.runtime.driver.active.get_current_target().backend == "hip" else 3
        options = {"num_warps": 4, "num_stages": stages, **{name: kwargs[name] for name in OPTIONS if name in kwargs}}
        read = {name: given[name] for name in self.read_by_grid(kwargs.get("grid"), given)}
        # The program has made the memory for these blocks, and for no others.
        pinned = {*bluefin_around.reduced(read, shapes(function, given)).values()}
        chosen = [name for name in read if name not in pinned]
        # The program itself has said their blocks.
        if described:
            chosen = []
        self.configs = [autotuner.Config({name: given[name] for name in chosen}, **options)]
        # What is chosen is no option of the launch any more.
        self.kwargs = {name: value for name, value in kwargs.items() if name not in OPTIONS}

    @staticmethod
    def cache_place():
        return {"why": "it has no autotuner, so that Triton looks for no choice"}

    def read_by_grid(self, grid, given):
        """Constexprs that are sizes of blocks: the grid is computed from them."""
        from bluefin_capture import Tracked

        if not callable(grid):
            return []
        tracked = Tracked(given)
        grid(tracked)
        constexprs = {param.name for param in self.fn.params if param.is_constexpr}
        return [
            name for name in self.arg_names
            if name in constexprs and name in tracked.read and isinstance(given[name], int) and not isinstance(given[name], bool)
        ]


def descriptors(value):
    """The tensor descriptors that an argument is, or has."""
    if isinstance(value, (tuple, list)):
        return [found for part in value for found in descriptors(part)]
    return [value] if bluefin_hooks.is_descriptor(value) else []


def shapes(function, given):
    """What is to be known of arguments for `bluefin_around.reduced`."""
    told = []
    for param in function.params:
        value = given.get(param.name)
        if hasattr(value, "data_ptr") and hasattr(value, "shape"):
            told.append({"name": param.name, "kind": "tensor", "shape": list(value.shape)})
        elif bluefin_hooks.is_descriptor(value):
            told.append({"name": param.name, "kind": "descriptor", "shape": list(value.shape)})
        elif isinstance(value, int) and not isinstance(value, bool):
            kind, value = ("constexpr", {"int": value}) if param.is_constexpr else ("int", value)
            told.append({"name": param.name, "kind": kind, "value": value})
    return told


class Launches:
    """Wraps `JITFunction.run`."""

    def __init__(self, around):
        self.around = around
        self.inside = Inside()
        self.state = State()

    def run(self, original, function, args, kwargs):
        if self.inside.deep or kwargs.get("warmup"):
            return original(function, *args, **kwargs)
        try:
            plain = Plain(self.around.autotuner, function, args, kwargs)
        except Exception:
            # No launch as others are: whatever is wrong with it, the program is to say.
            return original(function, *args, **kwargs)
        keys = self.state.of(function)
        known = keys.get(plain.key)
        if known is None:
            with self.state.lock:
                # Another thread may have been first meanwhile.
                known = keys.get(plain.key)
                if known is None:
                    return self.around.first_of_jit(original, plain, keys, args, kwargs)
        known["calls"] += 1
        return self.again(known, original, plain, args, kwargs)

    def again(self, known, original, plain, args, kwargs):
        from bluefin_capture import has_events

        if "given" in known:
            args, kwargs = self.around.with_config(known["given"], plain, args, kwargs)
        launch = lambda: original(plain.fn, *args, **kwargs)
        if len(known["events"]) < self.around.timed_launches and has_events():
            around, launched = between_events(launch)
            known["events"].append(around)
            return launched
        return launch()
