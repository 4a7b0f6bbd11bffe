"""A program with a matrix product for which Inductor chooses between a library and configs of a template, each in a file of its own. Prints
what it took, and how many were compiled and timed.

STAND_IN_LIBRARY is how long the library's takes, of what the first config that runs does. The first config does not compile, and another library
does not run. Then it asks once more, for a part of the configs.
"""

import hashlib
import os

import torch
import triton.runtime.autotuner
from torch._inductor import select_algorithm
from torch._inductor.select_algorithm import AlgorithmSelectorCache, ExternKernelCaller, Meta, Request, TritonTemplateCaller

TEMPLATE = '''
import triton
import triton.language as tl

from torch._inductor.runtime import triton_heuristics

@triton_heuristics.template(
num_stages={num_stages},
num_warps={num_warps},
triton_meta={{'device': 'cuda:0'}},
)
@triton.jit
def triton_mm(arg_A, arg_B, out_ptr0):
    BLOCK_M : tl.constexpr = {BLOCK_M}
    BLOCK_N : tl.constexpr = {BLOCK_N}
    BLOCK_K : tl.constexpr = 16
    EVEN_N : tl.constexpr = {EVEN_N}
    ACC_TYPE : tl.constexpr = tl.float32
    M = 48
    N = 64
    K = 32
    pid = tl.program_id(0)
    rows = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
    for k in range(0, K, BLOCK_K):
        a = tl.load(arg_A + rows[:, None] * K + k + inner[None, :], mask=rows[:, None] < M, other=0.)
        b = tl.load(arg_B + (k + inner[:, None]) * N + columns[None, :], mask=columns[None, :] < N, other=0.)
        total += tl.dot(a, b, out_dtype=ACC_TYPE)
    if EVEN_N:
        tl.store(out_ptr0 + rows[:, None] * N + columns[None, :], total, mask=rows[:, None] < M)
    else:
        tl.store(out_ptr0 + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))
'''


def template(ms, **constants):
    text = TEMPLATE.format(**constants)
    name = "c" + hashlib.sha256(text.encode()).hexdigest()[:50]
    path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], name[1:3], f"{name}.py")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    blocks = -(-48 // constants["BLOCK_M"]) * -(-64 // constants["BLOCK_N"])
    sizes, inputs = (blocks, 1, 1), [Meta(48, 32), Meta(32, 64)]
    request = Request("triton_mm", path, inputs, Meta(48, 64), sizes, constants["num_warps"], constants["num_stages"])
    return TritonTemplateCaller(", ".join(f"{name}={value}" for name, value in sorted(constants.items())), request, ms)


def main():
    configs = [(128, 64, 4, 1, True), (16, 16, 1, 1, True), (32, 32, 2, 2, True), (16, 128, 4, 1, False)]
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages", "EVEN_N")
    choices = [ExternKernelCaller("mm", float(os.environ.get("STAND_IN_LIBRARY", 100)))]
    choices += [ExternKernelCaller("other", float("inf"))]
    choices += [template(None if at == 0 else 1.0, **dict(zip(names, config))) for at, config in enumerate(configs)]
    select = AlgorithmSelectorCache()
    for _ in range(2):
        took = select("mm", choices, "[('cuda', 'torch.float16', 48, 32), ('cuda', 'torch.float16', 32, 64)]")
    select("mm", choices[3:5], "[('cuda', 'torch.float16', 48, 32), ('cuda', 'torch.float16', 32, 64)]")
    print("took", took.hash_key().split("-")[0], took.description)
    print("compiled", select.compiled, "timed", select.timed)


if __name__ == "__main__":
    main()
