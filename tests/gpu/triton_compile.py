"""What a plain loop of Triton takes to compile the space of one matrix product for gfx942: every kernel of `bluefin tune --kernel
common/kernel-spec/kernels/triton/gemm.toml --stage compile --budget all`, in as many processes as there are CPUs. Needs Triton, no GPU:

    python3 tests/gpu/triton_compile.py 16 13312 16384
"""

import itertools
import multiprocessing
import os
import resource
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../common/kernel-spec/kernels/triton"))

SPLITS = (2, 4, 5, 6, 8, 10, 12, 16, 18, 24)


def kernels(m, n, k):
    """Constants of each kernel, and how many configs there are of it: tune_gemm.py's rules for FP16 and 64 KiB of LDS."""
    instruction = 16 if m < 32 or n < 32 else 32
    sizes = (16, 32, 64, 128, 256)
    for bm, bn, bk, warps, kd, kpack in itertools.product(sizes, sizes, sizes, (1, 2, 4, 8), (16, 32), (1, 2)):
        groups = [g for g in (1, 2, 4, 8, 16, 32) if g == 1 or g * bm <= m]
        large = m >= 2048 and n >= 2048
        if (
            kd > instruction or bm * bn < 64 or bm < kd or bn < kd
            or m <= kd and bm != kd or n <= kd and bn != kd
            or bm > 2 * m and bm != 16 or bn > 2 * n and bn != 16
            or 2 * bk * (bm + bn) > 65536
            or large and (bm < 64 or bn < 64 or bk < 64 or warps < 4 or m % bm or n % bn)
        ):
            continue
        config = (bm, bn, bk, warps, kd, kpack)
        yield "gemm", config, len(groups)
        splits = [s for s in SPLITS if k % (s * bk) == 0] if min(m, n) < 64 and k > 1024 else []
        if splits:
            yield "gemm_part", config, len(groups) * len(splits)


def compiled(task):
    import gemm
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    (m, n, k), name, (bm, bn, bk, warps, kd, kpack) = task
    fn = getattr(gemm, name)
    constants = dict(
        BLOCK_SIZE_M=bm, BLOCK_SIZE_N=bn, BLOCK_SIZE_K=bk, EVEN_K=k % bk == 0, XCDS=8, BIAS=0, PRECISION="ieee", INTEGER=0,
        a_column=1, b_row=1,
    )
    constants = {p.name: constants[p.name] for p in fn.params if p.name in constants}
    pointers = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "bias": "*fp16", "parts": "*i8"}
    signature = {p.name: "constexpr" if p.name in constants else pointers.get(p.name, "i32") for p in fn.params}
    sizes = {"m": m, "n": n, "k": k, "a_row": k, "b_column": k}
    divisible = [i for i, p in enumerate(fn.params) if p.name in pointers or sizes.get(p.name, 1) % 16 == 0]
    attrs = {(i,): [["tt.divisibility", 16]] for i in divisible if fn.params[i].name not in constants}
    options = dict(num_warps=warps, num_stages=2, waves_per_eu=0, matrix_instr_nonkdim=kd, kpack=kpack)
    try:
        triton.compile(ASTSource(fn, signature, constants, attrs), target=GPUTarget("hip", "gfx942", 64), options=options)
    except Exception as error:
        return str(error)[:100]
    return None


def main():
    size = tuple(int(word) for word in sys.argv[1:4])
    every = list(kernels(*size))
    tasks = [(size, name, config) for name, config, _ in every]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        started = time.time()
        with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
            failures = [failure for failure in pool.imap_unordered(compiled, tasks, 1) if failure]
            pool.close()
            pool.join()
        wall = time.time() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{sum(count for _, _, count in every)} configs, {len(tasks)} kernels, {len(failures)} not compiled: {wall:.1f} s, "
        f"{cpu:.1f} s of CPU time, {len(tasks) / cpu:.2f} kernels a CPU second, {cpu / wall / os.cpu_count():.0%} of the CPUs"
    )
    for failure in failures[:3]:
        print(failure)


if __name__ == "__main__":
    main()
