"""Wraps `Autotuner.run` of Triton, and what Inductor has in its place: captures what is tuned, or gives it what was found.

`BLUEFIN_TRITON` says which, as JSON: {"mode": "capture", "folder": path, "contents": "all" or "integers" or "none", "jit": bool, "gpus":
[[name, [backend, name there, lanes of a warp]]]}, or {"mode": "apply", "tuned": path, "gives": bool, "folder": path, "times": bool}. Nothing
here may end the program: what can not be done is written down.
"""

import atexit
import contextlib
import functools
import json
import os
import sys
import threading


# Clock cycles, some half a millisecond.
SLEEP = 1_000_000
# Sets of constants in which launches of one key differ, at most: others are as the first.
VARIANTS = 4


@functools.cache
def around_all():
    """What this process does with autotuners: one for all kinds of them."""
    asked, autotuner = json.loads(os.environ["BLUEFIN_TRITON"]), sys.modules["triton.runtime.autotuner"]
    if asked["mode"] == "capture":
        import bluefin_capture

        around = bluefin_capture.Capture(autotuner, asked)
        os.register_at_fork(after_in_child=around.forked)
    else:
        import bluefin_apply

        around = bluefin_apply.Apply(autotuner, asked)
    atexit.register(getattr(around, "at_exit", around.end))
    return around


def install_inductor(heuristics):
    """Wraps what Inductor has of its own, in the module `torch._inductor.runtime.triton_heuristics`."""
    # Without Triton it is for CPUs alone.
    if "triton.runtime.autotuner" in sys.modules:
        import bluefin_inductor

        bluefin_inductor.install(heuristics, around_all())


def install_templates(selection):
    """Wraps what Inductor chooses templates by, in the module `torch._inductor.select_algorithm`."""
    if "triton.runtime.autotuner" in sys.modules:
        import bluefin_templates

        bluefin_templates.install(selection, around_all())


def install(autotuner):
    """Wraps `Autotuner` of the module `triton.runtime.autotuner`, and subclasses of it that have a `run` of their own."""
    import bluefin_tuners

    around = around_all()
    inside = around.inside = wrap_launches(around) if around.takes_jit else contextlib.nullcontext()

    def wrap(original):
        @functools.wraps(original)
        def run(self, *args, **kwargs):
            # One config is no choice: what is launched by it is a launch like others.
            if not around.takes_jit or len(self.configs) < 2:
                known = settled(self, args, kwargs)
                # A child of a fork times its own.
                if known is not None and len(known["events"]) >= around.timed_launches:
                    known["calls"] += 1
                    return original(self, *args, **kwargs)
                return around.run(original, self, args, kwargs)
            with inside:
                return around.run(original, self, args, kwargs)

        run._bluefin = True
        return run

    bluefin_tuners.watch(autotuner.Autotuner, wrap)
    autotuner.Autotuner.run = wrap(autotuner.Autotuner.run)


def wrap_launches(around):
    """Wraps `JITFunction.run` as well. Returns what autotuners are run within."""
    import bluefin_jit
    from triton.runtime.jit import JITFunction

    original, launches = JITFunction.run, bluefin_jit.Launches(around)

    @functools.wraps(original)
    def run(self, *args, **kwargs):
        return launches.run(original, self, args, kwargs)

    JITFunction.run = run
    return launches.inside


class Left(Exception):
    """A call that can not be captured, and why."""


class Empty(Exception):
    """A launch of no programs, of which Triton makes nothing."""


class State:
    """What is known of each autotuner: kept beside it, so that it goes with it."""

    def __init__(self):
        self.renew()
        # Whoever holds it stays in the parent.
        os.register_at_fork(after_in_child=self.renew)

    def renew(self):
        # A handler of a signal may come back to it.
        self.lock = threading.RLock()

    @staticmethod
    def of(tuner):
        known = tuner.__dict__.get("_bluefin")
        if known is None:
            known = tuner.__dict__["_bluefin"] = {}
        return known


def tuning_key(tuner, args, kwargs):
    """The key by which Triton remembers its choice for these arguments."""
    given = {**dict(zip(tuner.arg_names, args)), **kwargs}
    named = {name: value for name, value in given.items() if name in tuner.arg_names}
    key = [named[name] for name in tuner.keys if name in named]
    key += [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
    return tuple(key)


def given_to(names, args, kwargs):
    """What a launch gives to each argument of these names, and its options. An argument called as Triton calls the grid has its value by its place."""
    return {**dict(zip(names, args)), **{name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}}


def constant_names(tuner):
    """The constexprs that are no part of the tuning key."""
    names = tuner.__dict__.get("_bluefin_constants")
    if names is None:
        function, _ = jit_function(tuner)
        names = [param.name for param in function.params if param.is_constexpr and param.name not in tuner.keys]
        tuner.__dict__["_bluefin_constants"] = names
    return names


def constants(tuner, args, kwargs):
    """The constexprs of a launch that are neither in its tuning key nor set by a config, as text: launches of one key may differ in them."""
    try:
        names = constant_names(tuner)
        given = given_to(tuner.arg_names, args, kwargs) if names else {}
        return tuple(str(given[name]) for name in names if name in given)
    except Exception:
        # No function as Triton compiles them: TRITON_INTERPRET, decorators of the program's.
        return ()


def variant(variants, given):
    """What is known of launches with these constants, among those of one key; nothing if they are new and not too many."""
    known = variants.get(given)
    return known if known is not None or len(variants) < VARIANTS else next(iter(variants.values()))


class Marks:
    """What is known of launches by their marks: what key and constants are made of, as they are. To make these anew for each launch takes as long as
    a good part of the launch."""

    # Values of which equal ones have one text, by their type.
    PLAIN = {int, float, bool, str, type(None)}
    # Of a tuner at most: a constant may be another one each time.
    MOST = 256

    def __init__(self, tuner):
        names = [*tuner.arg_names]
        read = dict.fromkeys([*tuner.keys, *constant_names(tuner)])
        self.read = [(names.index(name), name) for name in read if name in names]
        # Where what is read stands, and tensors, by the names and types of what is given.
        self.plans = {}
        self.known = {}
        # Those of `known` of which no more than the calls is counted.
        self.settled = {}

    @classmethod
    def of(cls, tuner):
        marks = tuner.__dict__.get("_bluefin_marks")
        if marks is None:
            try:
                marks = cls(tuner)
            except Exception:
                # No function as Triton compiles them.
                marks = False
            tuner.__dict__["_bluefin_marks"] = marks
        return marks

    def plan(self, args, kwargs):
        if len(self.plans) >= self.MOST:
            self.plans.clear()
        places = [at for at, _ in self.read if at < len(args)]
        names = [name for at, name in self.read if at >= len(args) and name in kwargs]
        tensors = [at for at, one in enumerate(args) if hasattr(one, "dtype")]
        named = [name for name, one in kwargs.items() if hasattr(one, "dtype")]
        return places, names, tensors, named

    def mark(self, args, kwargs):
        """The mark of a launch."""
        given = (*kwargs, *map(type, args), *map(type, kwargs.values()))
        plan = self.plans.get(given)
        if plan is None:
            plan = self.plans[given] = self.plan(args, kwargs)
        places, names, tensors, named = plan
        told = [args[at] for at in places] + [kwargs[name] for name in names]
        return given, *told, *[args[at].dtype for at in tensors], *[kwargs[name].dtype for name in named]

    def keep(self, args, kwargs, mark, known):
        places, names, _, _ = self.plan(args, kwargs)
        told = [args[at] for at in places] + [kwargs[name] for name in names]
        # Zeros of either sign are equal, and their texts are not.
        is_plain = all(type(one) in self.PLAIN and not (type(one) is float and one == 0) for one in told)
        if is_plain and len(self.known) < self.MOST:
            self.known[mark] = known


def marked(tuner, args, kwargs):
    """The marks of a tuner, the mark of a launch, and what is known of launches with it."""
    marks = Marks.of(tuner)
    try:
        mark = marks.mark(args, kwargs) if marks else None
        return marks, mark, None if mark is None else marks.known.get(mark)
    except Exception:
        # A value or a type that can not be told from others.
        return marks, None, None


def settled(tuner, args, kwargs):
    """What is known of a launch of which no more than the call is to be counted; nothing of others."""
    marks = tuner.__dict__.get("_bluefin_marks")
    try:
        return marks.settled.get(marks.mark(args, kwargs)) if marks else None
    except Exception:
        return None


def jit_function(tuner):
    """The function behind all decorators, and the heuristics between it and the tuner, outermost first."""
    from triton.runtime.jit import JITFunction

    function, heuristics = tuner.fn, []
    while not isinstance(function, JITFunction):
        if type(function).__name__ == "Heuristics":
            heuristics.append(function)
        if not hasattr(function, "fn"):
            # As with TRITON_INTERPRET.
            raise Left(f"its function is a {type(tuner.fn).__name__}, expected one of @triton.jit")
        function = function.fn
    return function, heuristics


def between_events(launch, before=None):
    """Launches between two events, and returns them with what the launch returned. The GPU sleeps in front of them, so that it does not wait
    for this process between the events: what they tell is the kernel's time alone. What is launched `before` is not timed."""
    import torch

    around = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    if hasattr(torch.cuda, "_sleep"):
        torch.cuda._sleep(SLEEP)
    if before is not None:
        before()
    around[0].record()
    launched = launch()
    around[1].record()
    return around, launched


def warn(text):
    print(f"bluefin: {text}", file=sys.stderr)
