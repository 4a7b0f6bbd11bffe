"""Tuners of a program's own: subclasses of Triton's `Autotuner` that do all of `run` by themselves, with a memory of their own for what they chose.

Nobody knows how they remember. What is to be launched is given to a copy of the tuner that has this config alone, as one config is no choice.
"""

import ast
import copy
import functools
import inspect
import types


def choices(tuner):
    """The config for each tuning key: Triton's own memory of them, or one beside a tuner that has its own."""
    return tuner.__dict__.setdefault("_bluefin_choices", {}) if runs_by_itself(tuner) else tuner.cache


def runs_by_itself(tuner):
    return hasattr(getattr(type(tuner), "run", None), "_bluefin_own")


def watch(tuner_class, wrap):
    """Has `wrap` be around each `run` of a subclass of `Autotuner` that calls on no other."""

    def made(cls, **kwargs):
        super(tuner_class, cls).__init_subclass__(**kwargs)
        own = cls.__dict__.get("run")
        if isinstance(own, types.FunctionType) and not calls_on(own, tuner_class):
            cls.run = wrap(given(own))
            cls.run._bluefin_own = own

    tuner_class.__init_subclass__ = classmethod(made)


def calls_on(run, base):
    """Whether a method uses the `run` that it stands in front of, be it in a function within it."""
    try:
        text = inspect.getsource(run)
        # As it is indented, which texts of several lines in it may not be.
        tree = ast.parse(f"if True:\n{text}" if text[0].isspace() else text)
        scope = {**run.__globals__, **inspect.getclosurevars(run).nonlocals}
        used = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "run"]
        return any(is_super(one) or is_tuner(one, scope, base) for one in used)
    except Exception:
        # No source, as with `exec`: its names may be of other calls.
        names = run.__code__.co_names
        return "run" in names and ("super" in names or base.__name__ in names)


def is_super(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def is_tuner(node, scope, base):
    """Whether an expression is `base` by its name, or a subclass of it."""
    names = ast.unparse(node).split(".")
    if names[-1] == base.__name__:
        return True
    found = scope.get(names[0])
    for name in names[1:]:
        # Not of an object: to ask it may run what the program has there.
        found = getattr(found, name, None) if isinstance(found, (type, types.ModuleType)) else None
    return isinstance(found, type) and issubclass(found, base)


def given(own):
    """A `run` that launches with the config that is the choice for its tuning key, where there is one."""
    from bluefin_triton import tuning_key

    @functools.wraps(own)
    def run(tuner, *args, **kwargs):
        config = choices(tuner).get(tuning_key(tuner, args, kwargs))
        if config is None:
            return own(tuner, *args, **kwargs)
        single = copy.copy(tuner)
        single.configs = [config]
        launched = own(single, *args, **kwargs)
        # What is around the tuner asks it afterwards.
        tuner.best_config = config
        return launched

    return run
