"""The configs of triton.json, which lies beside this file.

    import triton_configs
    config = triton_configs.best("softmax", rows=4096, columns=4096)
    kernel[grid](..., **config.all_kwargs())

or, for a kernel that is tuned for one problem, `@triton.autotune(configs=[config], key=[])`.
"""

import json
import os

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "triton.json")) as file:
    KERNELS = json.load(file)["kernels"]


def best(kernel, **sizes):
    """The triton.Config that won the problem of these sizes; KeyError for one that was not tuned."""
    import triton

    found = KERNELS[kernel][",".join(f"{name}={sizes[name]}" for name in sorted(sizes))]
    options = {name: found[name] for name in ("num_warps", "num_stages", "num_ctas", "maxnreg") if name in found}
    return triton.Config(found["kwargs"], **options)
