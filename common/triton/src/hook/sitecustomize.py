"""Started by every Python below `bluefin capture --triton`, `apply` and `gain`, since this folder is first on PYTHONPATH.

Waits for Triton's autotuner and Inductor's to be imported, and has `bluefin_triton` wrap them. Whatever goes wrong here is no matter of the
program's.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# What wraps a module.
_WATCHED = {"triton.runtime.autotuner": "install", "torch._inductor.runtime.triton_heuristics": "install_inductor"}


class _Watch(importlib.abc.MetaPathFinder):
    """Lets the modules be found by those behind it, and wraps them once they are loaded."""

    def find_spec(self, name, path, target=None):
        wrap = _WATCHED.pop(name, None)
        if wrap is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            try:
                import bluefin_triton

                getattr(bluefin_triton, wrap)(module)
            except Exception as error:
                print(f"bluefin: the autotuner of {name} is left as it is: {error!r}", file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


def _call_on():
    """Runs the `sitecustomize` that this one stands in front of."""
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if "BLUEFIN_TRITON" in os.environ:
    sys.meta_path.insert(0, _Watch())
_call_on()
