"""A program whose kernel Inductor wrote, into a file of its cache that is named after what is in it. Prints the config that it took, and how
often it was benchmarked.

STAND_IN_SIZE is how many numbers there are, STAND_IN_DESCENDS has Inductor look around its choice.
"""

import hashlib
import importlib.util
import os

import torch

KERNEL = '''
import triton
import triton.language as tl
from triton import Config
from torch._inductor.runtime import triton_heuristics

@triton_heuristics.pointwise(
    configs=[Config({{"XBLOCK": 64}}, num_warps=1), Config({{"XBLOCK": 128}}, num_warps=2), Config({{"XBLOCK": 256}}, num_warps=4)],
    filename=__file__,
    triton_meta={{"signature": {{"in_out_ptr0": "*fp32", "in_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}}, "constants": {{}},
                 "configs": [{{}}], "device": "{target}"}},
    inductor_meta={{"grid_type": "Grid1D", "coordinate_descent_tuning": {descends}}},
)
@triton.jit
def triton_poi_fused_add_clone_embedding_gelu_mean_mul_native_layer_norm_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_out_ptr0 + xindex, xmask)
    tmp1 = tl.load(in_ptr0 + xindex, xmask)
    tl.store(in_out_ptr0 + xindex, tmp0 + tmp1, xmask)
'''


def kernel():
    text = KERNEL.format(descends="STAND_IN_DESCENDS" in os.environ, target=os.environ.get("STAND_IN_TARGET"))
    name = "c" + hashlib.sha256(text.encode()).hexdigest()[:50]
    path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], name[1:3], f"{name}.py")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.triton_poi_fused_add_clone_embedding_gelu_mean_mul_native_layer_norm_0


def benchmark_codegened_module(total, part, size):
    """As Inductor's scheduler weighs what it may write: a kernel that the program never launches."""
    weighed = kernel()
    weighed.run(total, part, size, stream=0)
    assert len(weighed.launchers) == 1


def main():
    size = int(os.environ.get("STAND_IN_SIZE", 500))
    total, part = (torch.wave(size, dtype=torch.float32) for _ in range(2))
    benchmark_codegened_module(total, part, size)
    torch.benchmarked = 0
    add = kernel()
    for _ in range(3):
        add.run(total, part, size, stream=0)
    print("add", add.launchers[0].config)
    print("benchmarked", torch.benchmarked)


if __name__ == "__main__":
    main()
