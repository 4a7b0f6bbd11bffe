"""What Triton's own tools take to tune one matrix product: all configs compiled by as many processes as there are CPUs, then each timed
by do_bench. The same kernel and configs as `bluefin tune-gemm -col_b --space cuda`. Needs torch and a GPU:

    python3 tests/gpu/triton_autotune.py 8192 [configs.json]

With configs, lists of BLOCK_SIZE_M, _N, _K, num_warps, GROUP_SIZE_M and num_stages, those alone are timed, in turns: two runs of do_bench
on one config differ by more than good configs do.
"""

import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time

# Turns of configs that are compared.
ROUNDS = 15

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../common/kernel-spec/kernels/triton"))


def configs(size, group_is_compiled=True):
    found = []
    for bm, bn, bk, warps, group, stages in itertools.product(
        (64, 128, 256), (64, 128, 256), (32, 64, 128), (4, 8), (1, 4, 8), (2, 3, 4)
    ):
        if bm * bn <= 256 * warps * 32 and stages * bk * (bm + bn) * 2 <= 232448 and (group == 1 or group * bm <= size):
            found.append((bm, bn, bk, warps, group, stages))
    return found


def constants(size, config):
    bm, bn, bk, warps, group, stages = config
    return dict(
        BLOCK_SIZE_M=bm, BLOCK_SIZE_N=bn, BLOCK_SIZE_K=bk, EVEN_K=size % bk == 0, XCDS=1, BIAS=0, PRECISION="ieee", INTEGER=0,
        num_warps=warps, num_stages=stages,
    )


def compiled(task):
    """Into Triton's cache, without touching a GPU's memory."""
    import gemm
    import torch

    size, config = task
    pointer = torch.float16
    try:
        gemm.gemm.warmup(
            pointer, pointer, pointer, pointer, size, size, size, size, 1, 1, size, config[4], grid=(1,), **constants(size, config)
        )
    except Exception as error:
        return str(error)[:100]
    return None


def main():
    size = int(sys.argv[1])
    all_configs = configs(size)
    rounds = 1
    if len(sys.argv) > 2:
        # Only those that somebody found to be the best.
        with open(sys.argv[2]) as file:
            all_configs = [tuple(config) for config in json.load(file)]
        rounds = ROUNDS
    started = time.time()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        failures = [failure for failure in pool.imap_unordered(compiled, [(size, c) for c in all_configs], 4) if failure]
    compile_s = time.time() - started
    import gemm
    import torch
    from triton.testing import do_bench

    a = torch.rand(size, size, device="cuda", dtype=torch.float32).mul_(2).sub_(1).half()
    b = torch.rand(size, size, device="cuda", dtype=torch.float32).mul_(2).sub_(1).half()
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    bias = torch.empty(size, device="cuda", dtype=torch.float16)
    samples = {config: [] for config in all_configs}
    for config in all_configs * rounds:
        bm, bn = config[:2]
        grid = (-(-size // bm) * -(-size // bn),)

        def launch():
            gemm.gemm[grid](a, b, c, bias, size, size, size, size, 1, 1, size, config[4], **constants(size, config))

        try:
            samples[config].append(do_bench(launch))
        except Exception as error:
            print("failed", config, str(error)[:100])
    times = [(statistics.median(found), config) for config, found in samples.items() if found]
    times.sort()
    total_s = time.time() - started
    flop = 2 * size**3
    print(f"{len(all_configs)} configs, {len(failures)} not compiled: {compile_s:.1f} s compile, {total_s - compile_s:.1f} s time, {total_s:.1f} s")
    for ms, config in times[:5]:
        print(f"{ms:.4f} ms {flop / ms / 1e9:.1f} TFLOPS {config}")


if __name__ == "__main__":
    main()
