"""Started by every Python below `bluefin capture --triton`, `apply` and `gain`, since this folder is first on PYTHONPATH.

Waits for Triton's autotuner to be imported, and has `bluefin_triton` wrap it. Whatever goes wrong here is no matter of the program's.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_WATCHED = "triton.runtime.autotuner"


class _Watch(importlib.abc.MetaPathFinder):
    """Lets the module be found by those behind it, and wraps it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            try:
                import bluefin_triton

                bluefin_triton.install(module)
            except Exception as error:
                print(f"bluefin: Triton's autotuner is left as it is: {error!r}", file=sys.stderr)

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
