#!/usr/bin/env python3
"""What cuBLAS and a plain Triton kernel reach on the NVIDIA GPU of this machine, for bluefin's figures to stand beside.

    bluefin tune tests/gpu/compare_gemm.txt --out db
    python3 tests/gpu/compare_gemm.py --bluefin db/winners.json [--json FILE] [--quick]

Times torch.matmul (cuBLAS) and a short autotuned Triton kernel by Triton's do_bench (median, cache flushed before each
run) on fresh random inputs: FP16 and FP32 at 8192 x 8192 x 8192 and on products that ResNet-50's 1 x 1 convolutions are.
FP32 is FP32: TF32 is off. `--bluefin` adds what bluefin found for the
same products and convolutions. Needs PyTorch with CUDA and Triton.
"""

import argparse
import json
import re

import torch
import triton
import triton.language as tl
from triton.testing import do_bench

# (m, n, k): a square one, and k x (n * h * w) x c of layers of ResNet-50 at batch 32.
SHAPES = {
    "8192x8192x8192": (8192, 8192, 8192),
    "256x100352x64 (res2 expand)": (256, 32 * 56 * 56, 64),
    "128x100352x256 (res3 reduce)": (128, 32 * 56 * 56, 256),
    "512x25088x128 (res3 expand)": (512, 32 * 28 * 28, 128),
    "1024x6272x256 (res4 expand)": (1024, 32 * 14 * 14, 256),
    "2048x1568x512 (res5 expand)": (2048, 32 * 7 * 7, 512),
}


def space(quick):
    tiles = [(128, 256, 64, 8), (128, 128, 64, 4), (256, 128, 64, 8), (128, 128, 32, 4), (64, 128, 64, 4), (64, 64, 32, 4)]
    stages = (3,) if quick else (3, 4, 5)
    return [
        triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=warps, num_stages=stage)
        for m, n, k, warps in tiles
        for stage in stages
    ]


def kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tile, down, across = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    band = tile // (GROUP * across)
    height = min(down - band * GROUP, GROUP)
    row = band * GROUP + tile % (GROUP * across) % height
    column = tile % (GROUP * across) // height
    rows, columns = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    left = a + (rows % m)[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + (columns % n)[None, :]
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, k, BK):
        x = tl.load(left, mask=depth[None, :] < k - at, other=0.0)
        y = tl.load(right, mask=depth[:, None] < k - at, other=0.0)
        sums = tl.dot(x, y, sums, input_precision="ieee")
        left += BK
        right += BK * n
    out = c + rows[:, None] * n + columns[None, :]
    tl.store(out, sums.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def winners(path):
    """Milliseconds by (m, n, k, type): of GEMMs, and of 1 x 1 convolutions as the products that they are."""
    found = {}
    for entry in json.load(open(path))["problems"]:
        gemm = re.fullmatch(r"gemm NN (\d+)x(\d+)x(\d+) (\w+)", entry["label"])
        conv = re.fullmatch(r"conv F (\d+)x(\d+)x(\d+) k(\d+) 1x1 s1 n(\d+) (\w+)", entry["label"])
        if gemm:
            key = (*map(int, gemm.groups()[:3]), gemm[4])
        elif conv:
            c, h, w, k, n = map(int, conv.groups()[:5])
            key = (k, n * h * w, c, conv[6])
        else:
            continue
        if entry["winner"]:
            found[key] = entry["winner"]["median_ms"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--bluefin", metavar="FILE", help="winners.json, to set its figures beside")
    parser.add_argument("--quick", action="store_true", help="a smaller space for Triton, and no Triton for FP32")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    own = winners(options.bluefin) if options.bluefin else {}
    tuned = triton.autotune(configs=space(options.quick), key=["m", "n", "k"])(triton.jit(kernel))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    print(f"{'problem':44} {'cuBLAS':>17} {'Triton':>17} {'bluefin':>17}   (ms, TFLOP/s)")
    rows = []
    for data_type, label in ((torch.float16, "FP16"), (torch.float32, "FP32")):
        for name, (m, n, k) in SHAPES.items():
            a = torch.empty(m, k, dtype=data_type, device="cuda").uniform_(-1, 1)
            b = torch.empty(k, n, dtype=data_type, device="cuda").uniform_(-1, 1)
            c = torch.empty(m, n, dtype=data_type, device="cuda")
            times = {"cublas": do_bench(lambda: torch.matmul(a, b, out=c), warmup=25, rep=100, return_mode="median")}
            if data_type == torch.float16 or not options.quick:

                def run():
                    tuned[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](a, b, c, m, n, k)

                want = c.clone()
                run()
                torch.testing.assert_close(c, want, rtol=1e-2, atol=0.1)
                times["triton"] = do_bench(run, warmup=25, rep=100, return_mode="median")
            if (m, n, k, label) in own:
                times["bluefin"] = own[m, n, k, label]
            figures = ""
            for who in ("cublas", "triton", "bluefin"):
                ms = times.get(who)
                figures += f" {ms:9.4f} {2e-9 * m * n * k / ms:7.1f}" if ms else f" {'-':>17}"
            print(f"{name + ' ' + label:44}{figures}", flush=True)
            rows.append({"problem": f"{name} {label}", "m": m, "n": n, "k": k, "ms": times})
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
