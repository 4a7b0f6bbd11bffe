"""Kernels of `torch.compile` that are no templates: Inductor has an autotuner of its own, one for each kernel that it writes. They are captured, or given what was
found, as Triton's autotuners are.

Inductor compiles all configs before it times them, in processes of its own. A capture leaves that, and has it time none.
"""

import functools
import inspect
import os
import sys
import threading
import time
import types

from bluefin_capture import Taken, is_capturing, refusals
from bluefin_triton import Left, State, warn

# Where Inductor's scheduler times what it may write.
WEIGHING = ("benchmark_codegened_module", "benchmark_fused_nodes", "benchmark_combo_kernel")

# What is known of each autotuner.
_STATE = State()


def install(heuristics, around):
    """Wraps `CachingAutotuner` of the module `torch._inductor.runtime.triton_heuristics`."""
    tuner = heuristics.CachingAutotuner
    original = tuner.run
    kernels = (Giving if hasattr(around, "gives") else Capturing)(heuristics, around)

    @functools.wraps(original)
    def run(self, *args, **kwargs):
        return kernels.run(original, self, args, kwargs)

    tuner.run = run
    kernels.wrap_cache()


class Kernel:
    """What stands in for Triton's autotuner of a kernel of Inductor's, and a launch of it."""

    configs_least = 1
    cache_results = False
    user_defined_pre_hook = False
    why = "it is Inductor's, which has a cache of its own"

    def __init__(self, heuristics, tuner, args, kwargs):
        self.heuristics, self.tuner = heuristics, tuner
        self.fn = function_of(tuner)
        self.base_fn, self.arg_names = self.fn.fn, self.fn.arg_names
        launcher = tuner.launchers[0]
        names = [name for name in inspect.signature(launcher).parameters if name not in ("stream", "grid")]
        given = {**tuner.triton_meta.get("constants", {}), **dict(zip(names, args)), **kwargs}
        given.pop("stream", None)
        self.own_grid = given.pop("grid", None)
        # Sizes of a grid that the program computed: no arguments of the kernel.
        self.beside = {name: value for name, value in given.items() if name not in self.arg_names}
        self.configs = [one.config for one in tuner.launchers]
        chosen = {name for config in self.configs for name in config.kwargs}
        self.given = {name: value for name, value in given.items() if name in self.arg_names and name not in chosen}
        self.keys = [name for name, value in self.given.items() if isinstance(value, int) and not isinstance(value, bool)]
        self.key = tuple(self.given[name] for name in self.keys)
        self.key += tuple(str(value.dtype) for value in self.given.values() if hasattr(value, "dtype"))
        self.reset_to_zero = tuple(getattr(tuner, "reset_to_zero_arg_names", ()))
        self.restore_value = tuple(getattr(tuner, "mutated_arg_names", ()))

    def arguments(self):
        """The arguments by name, as `Taken` wants them."""
        options = {}
        if "enable_fp_fusion" in self.tuner.triton_meta:
            options["enable_fp_fusion"] = self.tuner.triton_meta["enable_fp_fusion"]
        return {**self.given, **options, "grid": self.grid}

    def grid(self, meta):
        """The grid where params have these values, by Inductor's own rule."""
        if self.own_grid is not None:
            return self.own_grid(meta) if callable(self.own_grid) else self.own_grid
        rule = self.heuristics.GridExpr.from_meta(self.tuner.inductor_meta, meta)
        # What the rule asked for is what the grid depends on: the rest is looked at unseen.
        sizes = {name: dict.__getitem__(meta, name) for name in dict.keys(meta)}
        return rule.eval_slow({**sizes, **self.beside})

    def cache_place(self):
        """Where Inductor looks for its choice, and what has to stand there."""
        saved = getattr(getattr(self.tuner, "save_cache_hook", None), "__self__", None)
        local = getattr(saved, "local_cache", None)
        if not local or not hasattr(saved, "configs_hash"):
            return {"why": self.why}
        folder, file = os.path.split(local[1])
        return {
            "why": self.why,
            "inductor": {
                "folder": os.path.basename(folder),
                "file": file,
                "configs_hash": saved.configs_hash,
                "source": os.path.basename(self.tuner.filename),
                "any_config": bool(self.tuner.inductor_meta.get("coordinate_descent_tuning")),
            },
        }

    def compiled(self):
        """The first config as Triton compiled it, with its code."""
        import triton

        found, own = [], threading.get_ident()

        def noted(*args, **kwargs):
            made = compile(*args, **kwargs)
            # Others may compile meanwhile.
            if threading.get_ident() == own:
                found.append(made)
            return made

        with _STATE.lock:
            compile, triton.compile = triton.compile, noted
            try:
                # Triton has it on disk.
                self.tuner._precompile_config(self.configs[0])
            finally:
                triton.compile = compile
        return found[0] if found else None


class Capturing:
    def __init__(self, heuristics, capture):
        self.heuristics, self.capture = heuristics, capture

    def wrap_cache(self):
        """Has Inductor find no choice of before: of a kernel that has one it would not say what else there is."""
        wrap_read_best(lambda original, self, *args: None)

    def run(self, original, tuner, args, kwargs):
        state = _STATE.of(tuner)
        if "known" in state:
            return self.capture.again(state["known"], original, tuner, args, kwargs)
        if getattr(tuner, "triton_interpret", False):
            return original(tuner, *args, **kwargs)
        if not tuner.launchers:
            tuner.precompile()
        many, descends, taken = len(tuner.launchers) > 1, descends_from(tuner), None
        if kwargs.get("benchmark_run") or is_capturing() or is_weighed():
            # Of arguments that Inductor makes up, or amid a graph, there is nothing to be learnt.
            if many and is_capturing():
                self.leave(tuner, Left("its first launch was captured into a CUDA graph"))
            self.cut(tuner)
            return original(tuner, *args, **kwargs)
        if many or descends or self.capture.takes_jit:
            state["known"] = {"calls": 1, "events": []}
            taken = self.take(tuner, args, kwargs)
            self.cut(tuner)
        else:
            leave_alone(tuner, original)
        launched = original(tuner, *args, **kwargs)
        if taken is not None:
            kernel, call = taken
            try:
                self.capture.took(call.write(kernel.compiled(), kernel.configs[0]), state["known"])
            except Exception as error:
                self.leave(tuner, error)
        return launched

    def take(self, tuner, args, kwargs):
        """The launch with all that the kernel depends on; nothing where that can not be said."""
        try:
            kernel = Kernel(self.heuristics, tuner, args, kwargs)
            if tuner.triton_meta.get("launch_cooperative_grid"):
                raise Left("its blocks wait for each other, and are launched together")
            if is_below("generate_and_run_autotune_block"):
                raise Left("Inductor runs it with arguments of its own (cpp_wrapper)")
            return kernel, Taken(self.capture, kernel, kernel.key, (), kernel.arguments(), kernel.configs)
        except Exception as error:
            self.leave(tuner, error)
            return None

    def leave(self, tuner, error):
        self.capture.leave_at(getattr(tuner.fn, "__name__", "kernel"), f"{getattr(tuner, 'filename', None) or '?'}:1", error)

    @staticmethod
    def cut(tuner):
        """Leaves the first config alone, with which Inductor is content: after a launch it counts on one."""
        tuner.launchers = tuner.launchers[:1]
        tuner.launchers[0].config.found_by_coordesc = True


class Giving:
    def __init__(self, heuristics, apply):
        self.heuristics, self.apply = heuristics, apply
        self.of_file = {row["inductor"]: row for rows in apply.rows.values() for row in rows if row.get("inductor")}

    def wrap_cache(self):
        """Has Inductor find what was found where its cache would say what it chose before. A kernel whose file is the captured one is
        compiled once then, for that config."""
        cache = cache_class()
        if not self.apply.gives or not self.of_file or cache is None:
            return
        create = cache.create

        def named(inductor_meta, filename, *args, **kwargs):
            made = create(inductor_meta, filename, *args, **kwargs)
            if made is not None:
                made._bluefin_source = os.path.basename(filename)
            return made

        def read(original, asked, *args):
            # The file's name stands for what is in it, the GPU included; a process that only compiles knows of none.
            row = self.of_file.get(getattr(asked, "_bluefin_source", None))
            try:
                config = None if row is None else self.config(row)
                # One that Inductor would not compile may not do: `give` has a way back.
                if config is not None and any(is_same(one, config) for one in args[1]):
                    return config
            except Exception as error:
                warn(f"{row['name']} is left to Inductor: {error!r}")
            return original(asked, *args)

        cache.create = staticmethod(named)
        wrap_read_best(read)

    def config(self, row):
        """The config of a row, with which Inductor is content."""
        config = self.apply.config(row)
        config.found_by_coordesc = True
        return config

    def run(self, original, tuner, args, kwargs):
        state = _STATE.of(tuner)
        if "known" in state:
            return self.apply.again(state["known"], original, tuner, args, kwargs)
        if getattr(tuner, "triton_interpret", False):
            return original(tuner, *args, **kwargs)
        if kwargs.get("benchmark_run") or is_capturing() or is_weighed():
            return original(tuner, *args, **kwargs)
        begin = time.monotonic()
        if not tuner.launchers:
            tuner.precompile()
        # Functions without a choice are looked at where something was found for one alone: their source has to be read again.
        if len(tuner.launchers) < 2 and tuner.fn.__name__ not in self.apply.names:
            leave_alone(tuner, original)
            return original(tuner, *args, **kwargs)
        known = state["known"] = {"function": tuner.fn.__name__, "calls": 1, "events": [], "key": ""}
        try:
            self.give(tuner, known, args, kwargs)
        except Exception as error:
            self.apply.left[f"{tuner.fn.__name__} {known['key']}"] = f"{type(error).__name__}: {error}"
        launched = original(tuner, *args, **kwargs)
        if not self.apply.times:
            leave_alone(tuner, original)
        known["first_s"] = time.monotonic() - begin
        known["config"] = str(tuner.launchers[0].config)
        return launched

    def give(self, tuner, known, args, kwargs):
        """Has the kernel launched with what was found for it or the nearest; without, it stays as it is."""
        kernel = Kernel(self.heuristics, tuner, args, kwargs)
        known["key"] = str(kernel.key)
        self.apply.timed.append(known)
        row, exact = self.apply.row(kernel, kernel.key, (), {}) if self.apply.gives and self.apply.rows else (None, False)
        if row is None:
            return
        config = self.config(row)
        same = [one for one in tuner.launchers if is_same(one.config, config)]
        if not same:
            try:
                same = [tuner._precompile_config(config).make_launcher()]
            except refusals(self.apply.autotuner) as error:
                reason = f"the config of {row['name']} does not compile for it: {type(error).__name__}"
                self.apply.leave(kernel, kernel.key, reason)
                return
        same[0].config.found_by_coordesc = True
        tuner.launchers = same[:1]
        self.apply.given[f"{tuner.fn.__name__} {kernel.key}"] = {"from": row["name"], "exact": exact}


def leave_alone(tuner, original):
    """Has later launches cost what they would: each of a program's takes some microseconds."""
    tuner.run = types.MethodType(original, tuner)


def function_of(tuner):
    """The JIT function of a kernel: one that another process compiled has lost its own."""
    function = tuner.fn
    if function.fn is None:
        function = tuner.fn = tuner._reload_kernel().fn
    return function


def descends_from(tuner):
    """Whether Inductor would look around its choice, which it does not for kernels that a template or the program made."""
    if getattr(tuner.heuristic_type, "name", None) in ("TEMPLATE", "USER_AUTOTUNE", "FIXED"):
        return False
    config = tuner.launchers[0].config
    return bool(tuner.inductor_meta.get("coordinate_descent_tuning")) and not getattr(config, "found_by_coordesc", False)


def is_same(one, other):
    return one.kwargs == other.kwargs and (one.num_warps, one.num_stages) == (other.num_warps, other.num_stages)


def is_weighed():
    """Whether Inductor runs a kernel to find out whether it would be worth while: it is none of the program's then."""
    return is_below(*WEIGHING)


def is_below(*names):
    """Whether a function of one of these names is running this."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in names:
            return True
        frame = frame.f_back
    return False


def cache_class():
    """What Inductor's choices on disk are read by; nothing in versions without."""
    try:
        from torch._inductor.runtime.autotune_cache import AutotuneCache
    except ImportError:
        return None
    return AutotuneCache if hasattr(AutotuneCache, "read_best") and hasattr(AutotuneCache, "create") else None


def wrap_read_best(read):
    """Has `read` in the place of what Inductor reads a choice with, where it has that."""
    cache = cache_class()
    if cache is None:
        return
    original = cache.read_best

    @functools.wraps(original)
    def read_best(self, *args, **kwargs):
        return read(original, self, *args, *kwargs.values())

    cache.read_best = read_best
