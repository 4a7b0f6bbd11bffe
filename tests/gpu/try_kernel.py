#!/usr/bin/env python3
"""Runs kernels that were compiled elsewhere on the NVIDIA GPU of this machine, without bluefin.

    python3 tests/gpu/try_kernel.py FOLDER [--filter TEXT]

FOLDER holds cases.json and the PTX or cubin files that it names, as `cargo run --example emit_kernels` writes them. Every
candidate's output is compared with that of its problem's reference kernel, and timed by Triton's do_bench rule. Needs
PyTorch with CUDA and the driver's libcuda, nothing else. Exits 1 if a candidate fails.
"""

import argparse
import json
import pathlib
import sys

import torch
from triton.testing import do_bench

from libcuda import LOCAL_BYTES, REGISTERS, Driver, Module, launcher

TYPES = {"FP16": torch.float16, "FP32": torch.float32}


def worst(got, want, tolerance):
    """How far the worst element is from the reference, in units of what is allowed; NaN counts as infinitely far."""
    got, want = got.double(), want.double()
    far = (got - want).abs() / (tolerance["absolute"] + tolerance["relative"] * want.abs())
    return torch.nan_to_num(far, nan=float("inf")).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--filter", default="", help="only candidates whose text contains this")
    options = parser.parse_args()
    driver, failed = Driver(), 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for problem in json.loads((options.folder / "cases.json").read_text()):
        print(f"\n{problem['problem']}")
        buffers = []
        for buffer in problem["buffers"]:
            data = torch.empty(buffer["length"], dtype=TYPES[buffer["type"]], device="cuda").uniform_(-1, 1)
            buffers.append(data)
        out = next(i for i, buffer in enumerate(problem["buffers"]) if buffer["role"] == "output")
        space = max(case["workspace"] for case in problem["cases"])
        workspace = torch.empty(max(space, 1), dtype=torch.uint8, device="cuda")
        want, times = None, []
        for case in problem["cases"]:
            if want is not None and options.filter not in case["candidate"]:
                continue
            try:
                module = Module(driver, options.folder / case["file"])
                addresses = [data.data_ptr() for data in buffers]
                launch, function = launcher(driver, module, case, addresses, workspace.data_ptr())

                def run():
                    launch(torch.cuda.current_stream().cuda_stream)

                buffers[out].fill_(float("nan"))
                run()
                torch.cuda.synchronize()
                if want is None:
                    want = buffers[out].clone()
                    module.unload()
                    continue
                far = worst(buffers[out], want, problem["tolerance"])
                ms = do_bench(run, warmup=25, rep=100, return_mode="median") if far <= 1 else float("inf")
                state = "" if far <= 1 else f"WRONG: {far:.3g} of what is allowed"
                failed += far > 1
                times.append((ms, case["candidate"], module.attribute(function, REGISTERS)))
                rate = problem["flops"] / ms / 1e9
                registers, local = module.attribute(function, REGISTERS), module.attribute(function, LOCAL_BYTES)
                print(f"{ms:10.4f} ms {rate:8.1f} TFLOP/s {registers:4} regs {local:3} local  {case['candidate']} {state}")
                module.unload()
            except RuntimeError as error:
                failed += 1
                print(f"FAILED {case['candidate']}: {error}")
                if "ILLEGAL" in str(error) or "LAUNCH" in str(error):
                    print("the context is lost: nothing more is run")
                    return 1
            sys.stdout.flush()
        if times:
            ms, candidate, _ = min(times)
            print(f"best: {ms:.4f} ms, {problem['flops'] / ms / 1e9:.1f} TFLOP/s: {candidate}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
