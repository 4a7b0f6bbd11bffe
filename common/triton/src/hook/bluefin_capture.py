"""Writes down each function and tuning key that a program's autotuners meet: one folder each, put in place whole.

The program does not tune meanwhile: it takes the config that Triton's own cache on disk has for the key, or the first that runs.
"""

import contextlib
import copy
import hashlib
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time

import bluefin_around
import bluefin_cache
import bluefin_hooks
import bluefin_roles
import bluefin_sources
from bluefin_buffers import Buffers
from bluefin_cache import NotOnDisk
from bluefin_sources import is_named_tuple, literal
from bluefin_triton import Empty, Left, State, between_events, constants, given_to, jit_function, marked, tuning_key, variant
from bluefin_tuners import choices, runs_by_itself

FORMAT = 1
# Points of a neighbourhood for which a grid is asked.
NEIGHBOURS = 4096
# Launches of each key whose time is taken.
TIMED = 10
# Reasons that are written down at once; of more, those of a second together.
FEW = 32


class Capture:
    def __init__(self, autotuner, asked):
        self.autotuner = autotuner
        self.folder = asked["folder"]
        self.contents = asked["contents"]
        self.takes_jit = asked.get("jit", False)
        # Name, and backend, name there and lanes of a warp.
        self.gpus = asked.get("gpus", [])
        self.timed_launches = TIMED
        self.state = State()
        # What is there of each key, by its name: how often it was launched, and events around launches.
        self.seen = {}
        self.left = {}
        # Its lock is held for no launch, as that of `state` is: whoever notes something waits for nobody's compiler.
        self.noting = State()
        self.written = 0.0
        # Whether Triton's own `run` was met at all.
        self.met = False

    def run(self, original, tuner, args, kwargs):
        self.met = True
        # One config is no choice.
        if len(tuner.configs) < 2:
            return original(tuner, *args, **kwargs)
        marks, mark, known = marked(tuner, args, kwargs)
        if known is not None:
            if len(known["events"]) >= TIMED:
                marks.settled[mark] = known
            return self.again(known, original, tuner, args, kwargs)
        key = tuning_key(tuner, args, kwargs)
        given = constants(tuner, args, kwargs)
        known = variant(self.state.of(tuner).setdefault(key, {}), given)
        if known is None:
            with self.state.lock:
                # Another thread may have been first meanwhile.
                known = variant(self.state.of(tuner)[key], given)
                if known is None:
                    return self.first(original, tuner, key, given, args, kwargs)
        if mark is not None:
            marks.keep(args, kwargs, mark, known)
        return self.again(known, original, tuner, args, kwargs)

    @staticmethod
    def again(known, original, tuner, args, kwargs):
        known["calls"] += 1
        # Asked each time: what goes into a CUDA graph is launched again and again.
        if len(known["events"]) < TIMED and has_events():
            around, launched = between_events(lambda: original(tuner, *args, **kwargs))
            known["events"].append(around)
            return launched
        return original(tuner, *args, **kwargs)

    def first(self, original, tuner, key, given, args, kwargs):
        """The first call with a key and these constants: writes it down, and launches it with a config that nobody had to search for."""
        variants = self.state.of(tuner)[key]
        known = variants.setdefault(given, {"calls": 1, "events": []})
        taken = None
        try:
            tuner.nargs = dict(zip(tuner.arg_names, args))
            configs = list(tuner.prune_configs(kwargs))
            try:
                taken = Taken(self, tuner, key, args, kwargs, configs, len(variants) - 1)
            except Empty:
                # The next launch of the key may have something to do.
                variants.pop(given, None)
            except Exception as error:
                self.leave(tuner, error)
        except Exception:
            # The program's own rule fails: let it fail where it would.
            return original(tuner, *args, **kwargs)
        finally:
            tuner.nargs = None
        launched = self.launch(original, tuner, key, args, kwargs, configs)
        if taken is not None:
            try:
                self.took(taken.write(launched, choices(tuner)[key]), known)
            except Exception as error:
                self.leave(tuner, error)
        return launched

    def first_of_jit(self, original, plain, keys, args, kwargs):
        """The first call of a function that has no autotuner, of these types and numbers; not of more than a few."""
        import bluefin_jit

        known = keys.setdefault(plain.key, {"calls": 1, "events": []})
        taken = None
        if len(keys) <= bluefin_jit.KEYS:
            try:
                taken = Taken(self, plain, plain.key, args, plain.kwargs, plain.configs)
            except Empty:
                keys.pop(plain.key, None)
            except Exception as error:
                self.leave(plain, error)
        launched = original(plain.fn, *args, **kwargs)
        if taken is not None:
            try:
                self.took(taken.write(launched, plain.configs[0]), known)
            except Exception as error:
                self.leave(plain, error)
        return launched

    def launch(self, original, tuner, key, args, kwargs, configs):
        """Launches with the config that is known already, or the first that compiles and fits."""
        chosen = choices(tuner)
        if key not in chosen:
            tuner.nargs = dict(zip(tuner.arg_names, args))
            try:
                self.from_disk(tuner, key, configs)
            finally:
                tuner.nargs = None
        if key in chosen:
            return original(tuner, *args, **kwargs)
        failed = None
        for config in configs:
            chosen[key] = config
            try:
                return original(tuner, *args, **kwargs)
            except refusals(self.autotuner) as error:
                failed = error
        del chosen[key]
        raise failed

    @staticmethod
    def from_disk(tuner, key, configs):
        if not getattr(tuner, "cache_results", False) or runs_by_itself(tuner):
            return

        def nobody():
            raise NotOnDisk

        try:
            tuner.check_disk_cache(key, configs, nobody)
        except NotOnDisk:
            pass

    def leave(self, tuner, error):
        # Decorators of the program's need not have what functions have.
        function = getattr(tuner, "base_fn", None)
        code = getattr(function, "__code__", None)
        at = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "?:1"
        self.leave_at(getattr(function, "__name__", "kernel"), at, error)

    def leave_at(self, name, at, error):
        """Notes why something is not captured. Whatever goes wrong here, the launch goes on."""
        with contextlib.suppress(Exception), self.noting.lock:
            reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) and not isinstance(error, Left) else str(error)
            if (name, reason) not in self.left:
                self.left[name, reason] = at
                if len(self.left) <= FEW or time.monotonic() - self.written >= 1:
                    self.end()

    def took(self, name, known):
        """A kernel is captured, also by a process that a signal ends later."""
        with self.noting.lock:
            self.seen[name] = known
            self.end()

    def forked(self):
        """A child counts for itself. Those of multiprocessing end by no handler but its own."""
        for known in [*self.seen.values()]:
            known["calls"], known["events"] = 0, []
            known.pop("ms", None)
        self.left = {}
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, lambda own: util.Finalize(None, own.end, exitpriority=0))

    def at_exit(self):
        replaced = self.autotuner.Autotuner.run
        if not self.met and not hasattr(replaced, "_bluefin"):
            code = getattr(replaced, "__code__", None)
            at = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(replaced)
            self.leave_at("Autotuner.run", at, "the program put this in the place of Triton's own, which it does not call")
        self.end()

    def end(self):
        """What this process did: how often, for how long, and what was left."""
        with self.noting.lock:
            counted, is_asked = {}, not is_capturing()
            for name, known in [*self.seen.items()]:
                if is_asked:
                    known["ms"] = shortest([*known["events"]])
                if known["calls"] > 0:
                    counted[name] = {"calls": known["calls"], "ms": known.get("ms")}
            left = [{"function": name, "reason": reason, "at": at} for (name, reason), at in [*self.left.items()]]
            if counted or left:
                write(os.path.join(self.folder, f".process-{os.getpid()}.json"), {"kernels": counted, "left": left})
            self.written = time.monotonic()


def has_events():
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and not is_capturing()


def is_capturing():
    """Whether this goes into a CUDA graph, which a question to the GPU would spoil."""
    torch = sys.modules.get("torch")
    try:
        return torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    except Exception:
        # Nobody knows: nothing is asked then.
        return True


def shortest(events):
    """Milliseconds of the shortest launch among those that have ended, which waited for no compiler; none is waited for."""
    try:
        return min((start.elapsed_time(end) for start, end in events if end.query()), default=None)
    except Exception:
        return None


def refusals(autotuner):
    """What a config is passed over for, as Triton's own tuner does."""
    from triton.compiler.errors import CompilationError

    names = ["OutOfResources", "PTXASError"]
    return (CompilationError, *[getattr(autotuner, name) for name in names if hasattr(autotuner, name)])


def write(path, document):
    write_text(path, json.dumps(document, indent=1))


def write_text(path, text):
    """Writes a file, whole or not at all."""
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".part-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


class Tracked(dict):
    """Arguments that remember which of them were read."""

    def __init__(self, *given):
        super().__init__(*given)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name, otherwise=None):
        self.read.add(name)
        return super().get(name, otherwise)

    def everything(self):
        self.read.update(dict.keys(self))

    def keys(self):
        self.everything()
        return super().keys()

    def items(self):
        self.everything()
        return super().items()

    def values(self):
        self.everything()
        return super().values()

    def __iter__(self):
        self.everything()
        return super().__iter__()


def is_function(value):
    from triton.runtime.jit import JITFunction

    return isinstance(value, JITFunction)


def plain_value(value):
    import triton.language as tl

    return value.value if isinstance(value, tl.constexpr) else value


def typed(value):
    """A value of a constexpr, with its kind."""
    import triton.language as tl

    value = plain_value(value)
    if value is None:
        return {"none": True}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": int(value)}
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Left(f"found {value} as a constexpr, expected a finite number")
        return {"float": value}
    if isinstance(value, str):
        return {"str": value}
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, (tuple, list)) and not is_named_tuple(type(value)):
        return {"tuple": [typed(one) for one in value]}
    raise Left(f"found a constexpr that is a {type(value).__name__}, expected a number, a text, a type, None, or a tuple of such")


def constant(name, value):
    """A constexpr that no config sets: of a kind that a spec has words for, or else what is written in Python."""
    try:
        return {"kind": "constexpr", "value": typed(value)}
    except Left as reason:
        try:
            return {"kind": "written", "text": f"tl.constexpr({literal(name, plain_value(value))})"}
        except Left:
            raise reason from None


class Taken:
    """A call with all that its kernel depends on, before it is launched."""

    def __init__(self, capture, tuner, key, args, kwargs, configs, variant=0):
        import triton

        self.capture, self.tuner, self.key = capture, tuner, key
        # What is in the tensors can not be read then.
        if is_capturing():
            raise Left("its first launch was captured into a CUDA graph")
        # How many were before it with the same key and other constants.
        self.variant = variant
        self.function, self.heuristics = jit_function(tuner)
        for config in configs:
            if getattr(config, "ir_override", None):
                raise Left("its configs override Triton's code")
        if len(configs) < getattr(tuner, "configs_least", 2):
            raise Left("pruning leaves one config")
        given = given_to(tuner.arg_names, args, kwargs)
        self.grid = kwargs.get("grid")
        self.launch_options = {
            name: value for name, value in given.items()
            if name not in tuner.arg_names and name not in ("stream", "device")
        }
        self.given = {name: value for name, value in given.items() if name in tuner.arg_names}
        self.configs = configs
        self.points = [self.point(config) for config in configs]
        if all(0 in point["grid"] for point in self.points):
            raise Empty
        target = triton.runtime.driver.active.get_current_target()
        self.target = {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size}
        self.buffers = Buffers(capture.contents)
        # Of tensor descriptors, by name, as the program has them.
        self.blocks = {}
        # Params that the lengths of all outputs follow from.
        self.parted = []
        # Configs with another length of these, as text.
        self.left_out = []
        self.around = bluefin_around.Around(self.function, [self.argument(param) for param in self.function.params])
        self.arguments = self.around.arguments
        asked = [bluefin_hooks.asked(tuner, config, {**self.given, **self.launch_options}, Tracked) for config in configs]
        self.zeroed = [zeroed for zeroed, _, _ in asked]
        for point, (_, blocks, _) in zip(self.points, asked):
            point["blocks"] = {name: blocks.get(name, block) for name, block in self.blocks.items()}
        # Params that the blocks of descriptors follow from.
        self.read_by_hooks = {name for _, _, told in asked for name in told.read if self.blocks and name in configs[0].kwargs}
        self.buffers.look(self.arguments)
        self.sources = bluefin_sources.Sources(self.function)
        self.version = triton.__version__

    def meta(self, values):
        """All arguments by name where the params have these values, computed constexprs among them."""
        meta = {**self.given, **values}
        for heuristics in self.heuristics:
            for name, rule in heuristics.values.items():
                meta[name] = rule(dict(meta))
        return meta

    def grid_of(self, meta):
        """The grid, and the names that it depends on."""
        tracked = Tracked(meta)
        grid = self.grid(tracked) if callable(self.grid) else self.grid
        grid = [int(size) for size in (grid if isinstance(grid, (tuple, list)) else [grid])]
        return grid + [1] * (3 - len(grid)), tracked.read

    def point(self, config):
        values = {**self.launch_options, **config.all_kwargs()}
        meta = self.meta(values)
        grid, read = self.grid_of(meta)
        computed = {name: meta[name] for heuristics in self.heuristics for name in heuristics.values}
        return {
            "kwargs": {name: typed(value) for name, value in config.kwargs.items()},
            "options": {name: typed(value) for name, value in config.all_kwargs().items() if name not in config.kwargs},
            "computed": {name: typed(value) for name, value in computed.items()},
            "grid": grid,
            "read": sorted(name for name in read if name in config.kwargs or name in computed),
            "text": str(config),
        }

    def argument(self, param):
        name = param.name
        if param.is_constexpr:
            if any(name in point["kwargs"] or name in point["computed"] for point in self.points):
                return {"name": name, "kind": "param"}
            value = self.given.get(name, param.default if param.has_default else None)
            if any(name in point["options"] for point in self.points):
                # A launch gives a name to both, unless it is given by its place.
                if name not in self.given or all(point["options"].get(name) == typed(value) for point in self.points):
                    return {"name": name, "kind": "param"}
                return {"name": name, "kind": "written", "text": f"tl.constexpr({literal(name, plain_value(value))})"}
            if is_function(value):
                return {"name": name, "kind": "function", "function": value}
            return {"name": name, **constant(name, value)}
        return self.argument_of(name, self.given.get(name, param.default if param.has_default else None))

    def argument_of(self, name, value):
        if type(value) in (tuple, list) or is_named_tuple(type(value)):
            named = {"named": literal(name, type(value))} if is_named_tuple(type(value)) else {}
            return {"name": name, "kind": "tuple", "parts": [self.argument_of(f"{name}_{at}", one) for at, one in enumerate(value)], **named}
        if value is None:
            return {"name": name, "kind": "none"}
        if isinstance(value, bool):
            return {"name": name, "kind": "bool", "value": value}
        if isinstance(value, int):
            return {"name": name, "kind": "int", "value": value}
        if isinstance(value, float):
            if not math.isfinite(value):
                return {"name": name, "kind": "infinite", "value": value}
            return {"name": name, "kind": "float", "value": value}
        if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
            return {"name": name, "kind": "tensor", **self.buffers.view(name, value)}
        if bluefin_hooks.is_descriptor(value):
            self.blocks[name] = [int(size) for size in value.block_shape]
            view = self.buffers.view(name, value.base, value.shape, value.strides)
            nan, tf32 = getattr(value, "padding", "zero") == "nan", bool(getattr(value, "round_f32_to_tf32", False))
            return {"name": name, "kind": "descriptor", **view, "nan": nan, "tf32": tf32}
        raise Left(f"argument {name}: found a {type(value).__name__}, expected a tensor, a number or None")

    def leave_out(self, chosen):
        """Has outputs whose length follows from the config be left out of what is compared, if there are others. Otherwise configs are left out that
        have another length than the one that ran."""
        read = {name for point in self.points for name in point["read"]}
        blocks = {name: {config.kwargs.get(name) for config in self.configs} for name in read}
        blocks = {name: min(values) for name, values in blocks.items() if len(values) > 1 and all(type(value) is int for value in values)}
        outputs = {one["name"] for one in self.buffers.found.values() if one["role"] != "input"}
        named = [one["buffer"] for one in self.arguments if "buffer" in one]
        alone = {one["buffer"]: one["name"] for one in self.arguments if one["kind"] == "tensor" and named.count(one["buffer"]) == 1}
        # The memory may also be for smaller blocks than the list has.
        smaller = [{name: block >> halved for name, block in blocks.items() if block >> halved > 0} for halved in range(3)]
        in_parts = [
            {
                name: param for name, param in bluefin_around.reduced(sizes, self.arguments).items()
                if alone.get(name) == name and self.buffers.role(name) == "output"
            }
            for sizes in smaller
        ]
        self.scratch = in_parts[0]
        in_parts = [{name: param for name, param in found.items() if self.has_a_program_for_each_part(chosen, param)} for found in in_parts]
        if outputs in [{*found} for found in in_parts]:
            self.parted = sorted({param for found in in_parts if outputs == {*found} for param in found.values()})
            self.scratch = {}
            lengths = {name: typed(chosen.kwargs.get(name)) for name in self.parted}
            taken = [point for point in self.points if all(point["kwargs"].get(name) == length for name, length in lengths.items())]
            self.left_out = [re.sub(r"(, )?\w+: None", "", point["text"]) for point in self.points if point not in taken]
            self.points = taken
        elif outputs == {*self.scratch}:
            # By chance.
            self.scratch = {}
        for name in self.scratch:
            self.around.leave_out(name, self.buffers.take_out(name))

    def has_a_program_for_each_part(self, chosen, param):
        """Whether the launch has as many programs along a dimension as there are blocks of some tensor's size or of a number. Lengths alone may be
        so by chance."""
        block, blocks = chosen.kwargs.get(param), {grid for point in self.points if point["text"] == str(chosen) for grid in point["grid"]}
        return isinstance(block, int) and any(-(-size // block) in blocks - {1} for size in bluefin_around.sizes(self.arguments))

    def neighbours(self):
        """Grids of what lies beside the configs, by the params that the grid reads; nothing where there is no telling."""
        if self.scratch or self.parted:
            return None, f"lengths of tensors follow from {', '.join(sorted({*self.scratch.values(), *self.parted}))}"
        if hasattr(self.tuner, "not_widened"):
            return None, self.tuner.not_widened
        if any(point["computed"] != self.points[0]["computed"] for point in self.points):
            return None, "constexprs are computed from the config"
        if any(name in self.points[0]["options"] for name in self.points[0]["computed"]):
            return None, "launch options are computed"
        is_hooked = {config.pre_hook is not None for config in self.configs}
        if any(zeroed != self.zeroed[0] for zeroed in self.zeroed) or (self.blocks and len(is_hooked) > 1):
            return None, "some of its configs have a pre_hook"
        if self.blocks and is_hooked == {False} and self.configs[0].kwargs:
            return None, "the program itself sets the blocks of its descriptors"
        if len({tuple(point["kwargs"]) for point in self.points}) != 1:
            return None, "configs set different names"
        first = self.configs[0]
        # What is computed is the same for all.
        names = sorted(({name for point in self.points for name in point["read"]} | self.read_by_hooks) & {*first.kwargs})
        values = {name: widened([config.kwargs[name] for config in self.configs]) for name in first.kwargs}
        count = math.prod(len(values[name]) for name in names)
        if count > NEIGHBOURS:
            return None, f"the grid has {count} cases"
        cases, chosen = [], [{}]
        for name in names:
            chosen = [{**one, name: value} for one in chosen for value in values[name]]
        for one in chosen:
            try:
                grid, _ = self.grid_of(self.meta({**self.launch_options, **first.all_kwargs(), **one}))
            except Exception:
                return None, "its grid is known for its own configs alone"
            cases.append({"values": {name: typed(value) for name, value in one.items()}, "grid": grid, "blocks": self.blocks_of(one)})
        return {"params": {name: [typed(value) for value in values[name]] for name in values}, "cases": cases}, None

    def blocks_of(self, values):
        """The blocks of descriptors where the params have these values."""
        if not self.blocks:
            return {}
        config = copy.copy(self.configs[0])
        config.kwargs = {**config.kwargs, **values}
        _, blocks, _ = bluefin_hooks.asked(self.tuner, config, {**self.given, **self.launch_options})
        return {name: blocks.get(name, block) for name, block in self.blocks.items()}

    def write(self, launched, chosen):
        """Puts the folder in place, and returns its name."""
        if bluefin_roles.takes_addresses(launched):
            raise Left("it reads addresses out of memory, where no argument says what lies there")
        roles = bluefin_roles.of(launched, self.arguments)
        self.buffers.settle(self.arguments, roles, set().union(self.tuner.reset_to_zero, *self.zeroed), self.tuner.restore_value)
        self.leave_out(chosen)
        if self.around.needed:
            self.sources.put_around(self.around)
        parts = bluefin_cache.parts(self)
        parts_of = [self.sources.digest(), self.arguments, [point["text"] for point in self.points], str(self.key)]
        identity = json.dumps(parts_of + ([self.blocks] if self.blocks else []))
        name = f"{plain(self.function.__name__)}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
        place = os.path.join(self.capture.folder, name)
        if os.path.exists(place):
            return name
        beyond, narrow = self.neighbours()
        code = self.tuner.base_fn.__code__
        document = {
            "format": FORMAT,
            "function": self.function.__name__,
            "module": self.function.module,
            "file": code.co_filename,
            "line": code.co_firstlineno,
            "triton": self.version,
            "python": "%d.%d" % sys.version_info[:2],
            "target": self.target,
            "device": device_name(),
            "jit": getattr(self.tuner, "plain", False),
            "key": [plain_key(one) for one in self.key],
            "key_names": [name for name in self.tuner.keys if name in self.given],
            "arguments": self.arguments,
            "buffers": self.buffers.told(),
            "launch_options": {name: typed(value) for name, value in self.launch_options.items()},
            "configs": self.points,
            "chosen": str(chosen),
            "workspace": self.around.workspace,
            "widened": beyond,
            "not_widened": narrow,
            # With the param that their length follows from.
            "not_compared": self.scratch,
            "left_out": self.left_out,
            "function_digest": self.function.cache_key,
            "source": self.sources.entry,
            "files": sorted(self.sources.texts()),
            "cache": parts,
        }
        beside = tempfile.mkdtemp(dir=self.capture.folder, prefix=".part-")
        try:
            for file, text in self.sources.texts().items():
                with open(os.path.join(beside, file), "w", encoding="utf-8") as out:
                    out.write(text)
            self.buffers.write(beside)
            with open(os.path.join(beside, "capture.json"), "w", encoding="utf-8") as out:
                json.dump(document, out, indent=1)
            os.chmod(beside, 0o755)
            os.rename(beside, place)
        except BaseException as error:
            shutil.rmtree(beside, ignore_errors=True)
            # Another process of the program was first.
            if not isinstance(error, OSError) or not os.path.exists(place):
                raise
        return name


def widened(values):
    """The values of a param and those beside them: powers of two go one further each way."""
    numbers = sorted({value for value in values if isinstance(value, int) and not isinstance(value, bool)})
    others = sorted({value for value in values if value not in numbers or isinstance(value, bool)}, key=str)
    if others or len(numbers) == 0 or any(value < 1 or value & (value - 1) for value in numbers):
        return [*numbers, *others]
    least, most = numbers[0], numbers[-1]
    # Below 16 there are no matrix instructions, and a param of 1 or 2 is no block.
    least = least // 2 if least >= 32 else least
    return [1 << bits for bits in range(least.bit_length() - 1, (most * 2).bit_length())]


def plain(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48] or "kernel"


def plain_key(value):
    """A part of a tuning key, which text alone tells apart from another."""
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def device_name():
    torch = sys.modules.get("torch")
    try:
        return torch.cuda.get_device_name()
    except Exception:
        return None
