"""Started by every Python below `bluefin capture --triton`, `apply` and `gain`, since this folder is first on PYTHONPATH.

Waits for Triton's autotuner and Inductor's to be imported, and has `bluefin_triton` wrap them. Whatever goes wrong here is no matter of the
program's.
"""

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# What wraps a module.
_WATCHED = {
    "triton.runtime.autotuner": "install",
    "torch._inductor.runtime.triton_heuristics": "install_inductor",
    "torch._inductor.select_algorithm": "install_templates",
}


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


def _keep_graphs_apart():
    """The graphs that torch.compile keeps on disk hold the configs of their kernels: a capture reads none, since those that were not taken are
    missing there, and what is given to the program stays out of its own."""
    asked = json.loads(os.environ["BLUEFIN_TRITON"])
    tag = os.environ.get("TORCH_COMPILE_CACHE_KEY_TAG", "")
    if asked["mode"] == "capture":
        os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
    elif asked["gives"] and "bluefin-" not in tag:
        with open(asked["tuned"], "rb") as tuned:
            digest = hashlib.sha256(tuned.read()).hexdigest()[:16]
        os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] = f"{tag}bluefin-{digest}"


def _call_on():
    """Runs the `sitecustomize` that this one stands in front of."""
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if "BLUEFIN_TRITON" in os.environ:
    sys.meta_path.insert(0, _Watch())
    try:
        _keep_graphs_apart()
    except (OSError, ValueError, KeyError) as error:
        print(f"bluefin: graphs that torch.compile keeps are used as they are: {error!r}", file=sys.stderr)
_call_on()
