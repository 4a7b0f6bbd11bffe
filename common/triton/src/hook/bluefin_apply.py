"""Gives each autotuner the config that was found for its key, and says how long its launches take, if that is asked.

A key that was not tuned gets the config of the nearest one of the same function and types; what has none is left to Triton.
"""

import json
import math
import os
import time

import bluefin_hooks
from bluefin_capture import has_events, plain_key, refusals, typed, write
from bluefin_triton import Left, State, between_events, constants, jit_function, marked, tuning_key, variant, warn
from bluefin_tuners import choices

FORMAT = 1
# Launches of each key whose time is taken.
TIMED = 50


class Apply:
    def __init__(self, autotuner, asked):
        self.autotuner = autotuner
        self.folder = asked.get("folder")
        self.times = asked.get("times", False)
        self.state = State()
        self.rows, self.names = {}, set()
        self.given, self.left, self.timed = {}, {}, []
        self.target = None
        # Where the first function of a name is.
        self.places = {}
        self.takes_jit = False
        # Else it only looks: what is measured is the program as it is.
        self.gives = asked["gives"]
        self.timed_launches = TIMED if self.times else 0
        with open(asked["tuned"], encoding="utf-8") as tuned:
            document = json.load(tuned)
        self.target = document["target"]
        for row in document["kernels"]:
            self.rows.setdefault(row["source"], []).append(row)
            self.names.add(row["function"])
            self.takes_jit = self.takes_jit or row.get("jit", False)

    def run(self, original, tuner, args, kwargs):
        if len(tuner.configs) < 2:
            return original(tuner, *args, **kwargs)
        marks, mark, found = marked(tuner, args, kwargs)
        # Of a key with several sets of constants the choice is made anew.
        if found is not None and len(found[1]) == 1:
            if not self.times or len(found[0]["events"]) >= TIMED:
                marks.settled[mark] = found[0]
            return self.again(found[0], original, tuner, args, kwargs)
        key = tuning_key(tuner, args, kwargs)
        own = constants(tuner, args, kwargs)
        variants = self.state.of(tuner).setdefault(key, {})
        known = variant(variants, own)
        if known is not None:
            if mark is not None:
                marks.keep(args, kwargs, mark, (known, variants))
            # Triton keeps one config for a key, and launches with other constants have theirs.
            if len(variants) > 1 and "config" in known:
                choices(tuner)[key] = known["config"]
            return self.again(known, original, tuner, args, kwargs)
        with self.state.lock:
            # There may be several sets of constants from now on.
            if marks:
                marks.settled.clear()
            known = variants[own] = {"function": self.called(tuner), "calls": 1, "events": [], "key": str(key)}
            self.timed.append(known)
            begin = time.monotonic()
            launched = self.first(original, tuner, key, variants, args, kwargs)
            known["first_s"] = time.monotonic() - begin
            known["config"] = getattr(tuner, "best_config", None)
        return launched

    def first(self, original, tuner, key, variants, args, kwargs):
        # What the program chose by itself stays.
        chosen = choices(tuner)
        free = key not in chosen or len(variants) > 1
        row, exact = self.row(tuner, key, args, kwargs) if self.gives and self.rows and free else (None, False)
        if row is None:
            return original(tuner, *args, **kwargs)
        before = chosen.get(key)
        chosen[key] = bluefin_hooks.own(tuner, self.config(row))
        try:
            launched = original(tuner, *args, **kwargs)
        except refusals(self.autotuner) as error:
            # What fits one size need not fit another.
            del chosen[key]
            if before is not None:
                chosen[key] = before
            self.leave(tuner, key, f"the config of {row['name']} does not compile for it: {type(error).__name__}")
            return original(tuner, *args, **kwargs)
        beside = f" of {len(variants)} sets of constants" if len(variants) > 1 else ""
        self.given[f"{self.called(tuner)} {key}{beside}"] = {"from": row["name"], "exact": exact}
        return launched

    def first_of_jit(self, original, plain, keys, args, kwargs):
        """The first call of a function that has no autotuner: with what was found for it, or as it is."""
        known = keys[plain.key] = {"function": self.called(plain), "calls": 1, "events": [], "key": str(plain.key)}
        row, exact = None, False
        if plain.base_fn.__name__ in self.names:
            self.timed.append(known)
            row, exact = self.row(plain, plain.key, args, kwargs) if self.gives else (None, False)
        begin = time.monotonic()
        if row is not None:
            try:
                given = self.config(row)
                changed, named = self.with_config(given, plain, args, kwargs)
                launched = original(plain.fn, *changed, **named)
                known["given"] = given
                self.given[f"{self.called(plain)} {plain.key}"] = {"from": row["name"], "exact": exact}
            except refusals(self.autotuner) as error:
                self.leave(plain, plain.key, f"the config of {row['name']} does not compile for it: {type(error).__name__}")
        if "given" not in known:
            launched = original(plain.fn, *args, **kwargs)
        known["first_s"] = time.monotonic() - begin
        known["config"] = str(known.get("given", plain.configs[0]))
        return launched

    @staticmethod
    def with_config(config, plain, args, kwargs):
        """The arguments of a launch with what a config chooses in the place of what the program does."""
        chosen = config.all_kwargs()
        args = tuple(chosen.get(name, value) for name, value in zip(plain.arg_names, args))
        return args, {**kwargs, **{name: value for name, value in chosen.items() if name not in plain.arg_names[: len(args)]}}

    def again(self, known, original, tuner, args, kwargs):
        known["calls"] += 1
        if not self.times or len(known["events"]) >= TIMED or not has_events():
            return original(tuner, *args, **kwargs)
        around, launched = between_events(lambda: original(tuner, *args, **kwargs))
        known["events"].append(around)
        return launched

    def row(self, tuner, key, args, kwargs):
        """What was found for the key or the nearest, of those the one whose constants are most like these; and whether it is the key's own."""
        function, _ = jit_function(tuner)
        rows = self.rows.get(function.cache_key)
        if rows is None:
            if function.__name__ in self.names:
                self.leave(tuner, key, "its source changed since it was captured")
            else:
                self.leave(tuner, key, "it was not tuned")
            return None, False
        if not self.is_for_this_gpu():
            self.leave(tuner, key, f"what was found is for {self.target['arch']}")
            return None, False
        own = [plain_key(one) for one in key]
        near = [(distance(own, row["key"]), row) for row in rows]
        near = [(far, row) for far, row in near if far is not None]
        if not near:
            self.leave(tuner, key, "no key of the same types was tuned")
            return None, False
        given = {**dict(zip(tuner.arg_names, args)), **kwargs}
        given = {param.name: given.get(param.name, param.default) for param in function.params if param.is_constexpr}
        far, row = min(near, key=lambda one: (one[0], unlike(one[1].get("constants", {}), given)))
        return row, far == 0

    def is_for_this_gpu(self):
        import triton

        target = triton.runtime.driver.active.get_current_target()
        return (target.backend, target.arch) == (self.target["backend"], self.target["arch"])

    def config(self, row):
        import triton.language as tl

        def value(typed):
            (kind, inner), = typed.items()
            if kind == "none":
                return None
            if kind == "dtype":
                return tl.dtype(inner)
            return tuple(value(one) for one in inner) if kind == "tuple" else inner

        options = {name: value(one) for name, one in row["options"].items()}
        return self.autotuner.Config({name: value(one) for name, one in row["kwargs"].items()}, **options)

    def leave(self, tuner, key, reason):
        self.left[f"{self.called(tuner)} {key}"] = reason

    def called(self, tuner):
        """A function's name; of several functions of one name the later ones say where they are."""
        code = getattr(tuner.base_fn, "__code__", None)
        at = (code.co_filename, code.co_firstlineno) if code else None
        name = tuner.base_fn.__name__
        if self.places.setdefault(name, at) == at or at is None:
            return name
        return f"{name} ({os.path.basename(at[0])}:{at[1]})"

    def end(self):
        if self.folder is None:
            return
        timed = []
        for known in self.timed:
            known.pop("given", None)
            known["config"] = str(known.get("config"))
            try:
                taken = sorted(start.elapsed_time(end) for start, end in known.pop("events") if end.query())
            except Exception:
                taken = []
            timed.append({**known, "ms": taken})
        try:
            write(os.path.join(self.folder, f"process-{os.getpid()}.json"), {"given": self.given, "left": self.left, "timed": timed})
        except OSError as error:
            warn(f"what was given to Triton is not written down: {error}")


def unlike(constants, given):
    """How many of the constants that something was captured with are others in these arguments."""
    def same(name, value):
        try:
            return name not in given or typed(given[name]) == value
        except Left:
            return False

    return sum(not same(name, value) for name, value in constants.items())


def distance(own, other):
    """How far two keys are apart, in doublings; nothing where they differ in more than numbers."""
    if len(own) != len(other):
        return None
    far = 0.0
    for one, two in zip(own, other):
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (one, two))
        if not numbers:
            if one != two:
                return None
        elif one != two:
            if one < 0 or two < 0:
                return None
            far += abs(math.log2((one + 1) / (two + 1)))
    return far
