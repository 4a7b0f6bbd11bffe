"""The configs that `bluefin tune --triton` found, for the Triton kernels of this process.

    import bluefin.triton

    bluefin.triton.apply("out")          # before the first launch of a kernel

It is what `bluefin apply --triton out -- python3 ...` does, from inside. What is captured is captured from outside:
`bluefin capture --triton -o kernels -- python3 ...`.
"""

import json
import os
import sys

__all__ = ["apply"]

_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")
_TUNED = "triton-tuned.json"
_VARIABLE = "BLUEFIN_TRITON"


def apply(folder):
    """Gives each function with `@triton.autotune` the config of its tuning key from the `folder` that `bluefin tune --triton` wrote.

    A kernel that was not tuned, or whose source changed, is left to Triton.
    """
    tuned = os.path.abspath(os.path.join(folder, _TUNED))
    if not os.path.isfile(tuned):
        raise FileNotFoundError(f"{tuned}: not there; bluefin tune --triton DIR --out {folder} writes it")
    import triton.runtime.autotuner as autotuner

    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = json.dumps({"mode": "apply", "tuned": tuned, "gives": True, "times": False})
    sys.path.insert(0, _HOOK)
    try:
        import bluefin_triton

        bluefin_triton.install(autotuner)
    finally:
        # Processes of this one begin with no hook, as this one did.
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
