#!/usr/bin/env python3
"""What the config files that vLLM ships for a GPU are worth on the GPU of this machine, and what tuning them again gives.

    tests/gpu/shipped.py [--bluefin target/release/bluefin] [--only TEXT] [--out DIR] PACKAGE

PACKAGE is the folder of the package vllm, installed or unpacked. For each of the layers below that has a file for this GPU: `verify` times
its rows in turns with the engine's defaults, `serving tune` tunes the layer anew with them among its candidates, and `verify` times the new
rows in turns with the default and the shipped ones. Prints a line of a table for each, and keeps what was printed and written in DIR. Triton has to be
in the Python that BLUEFIN_PYTHON names.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import time

# Model, experts, intermediate size of a rank, hidden size, experts a token, dtype, block shape.
LAYERS = [
    ("Mixtral 8x7B, 2 ranks", 8, 7168, 4096, 2, "bf16", None),
    ("Mixtral 8x7B, 4 ranks", 8, 3584, 4096, 2, "bf16", None),
    ("Mixtral 8x7B, 4 ranks", 8, 3584, 4096, 2, "fp8_w8a8", None),
    ("Mixtral 8x22B, 4 ranks", 8, 4096, 6144, 2, "bf16", None),
    ("Mixtral 8x22B, 8 ranks", 8, 2048, 6144, 2, "fp8_w8a8", None),
    ("Jamba, 8 ranks", 16, 1792, 4096, 2, "bf16", None),
    ("Phi-3.5-MoE, 2 ranks", 16, 3200, 4096, 2, "fp8_w8a8", None),
    ("Qwen2-57B-A14B, 2 ranks", 64, 1280, 3584, 8, "bf16", None),
    ("Qwen2-57B-A14B, 4 ranks", 64, 640, 3584, 8, "fp8_w8a8", None),
    ("Qwen3-30B-A3B, 2 ranks", 128, 384, 2048, 8, "bf16", None),
    ("Qwen3-Next-80B-A3B, 4 ranks", 512, 128, 2048, 10, "bf16", None),
    ("DeepSeek-V3, 16 ranks", 256, 128, 7168, 8, "fp8_w8a8", "128,128"),
]


def file_name(experts, size, gpu, dtype, block):
    kind = "" if dtype == "bf16" else f",dtype={dtype}"
    shape = f",block_shape=[{block}]" if block else ""
    return f"E={experts},N={size},device_name={gpu}{kind}{shape}.json"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


class Bench:
    def __init__(self, given):
        self.given, self.out = given, given.out

    def run(self, log, *arguments):
        """What it printed; the exit status of `verify` is 1 where a row loses."""
        with open(self.out / f"{log}.log", "w") as said:
            done = subprocess.run([self.given.bluefin, *arguments], stdout=subprocess.PIPE, stderr=said, text=True)
        if done.returncode not in (0, 1) or not done.stdout.strip():
            sys.exit(f"{self.out / log}.log: exit status {done.returncode}")
        (self.out / f"{log}.json").write_text(done.stdout)
        return json.loads(done.stdout)

    def verify(self, log, file, hidden, topk, *more):
        told = self.run(log, "verify", str(file), "--hidden", str(hidden), "--topk", str(topk), "--installed", str(self.given.package),
                        "--state", str(self.out / f"{log}.db"), "--json", *more)
        return told[0]["rows"]

    def layer(self, shipped, experts, size, hidden, topk, dtype, block):
        name = shipped.name.removesuffix(".json").replace(",", "-").replace("=", "")
        before = self.verify(f"{name}-shipped", shipped, hidden, topk)
        began = time.monotonic()
        kind = ["--dtype", dtype, *(["--block-shape", block] if block else [])]
        self.run(f"{name}-tune", "serving", "tune", "--engine", "vllm", "--installed", str(self.given.package), "--shipped", str(shipped.parent),
                 "--moe", f"{experts},{size},{hidden},{topk}", *kind, "--state", str(self.out / f"{name}.db"), "-o", str(self.out / "tuned"), "--json")
        seconds = time.monotonic() - began
        after = self.verify(f"{name}-tuned", self.out / "tuned" / shipped.name, hidden, topk, "--known", str(shipped.parent))
        return before, seconds, after


def count(rows, *verdicts):
    return sum(row["verdict"] in verdicts for row in rows)


def ratios(rows, of, over):
    """`of` over `over`, of rows that have both."""
    pairs = [(row[of], row[over]) for row in rows if row[of] and row[over]]
    return [one["median_ms"] / other["median_ms"] for one, other in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bluefin", default="target/release/bluefin")
    parser.add_argument("--only", default="", help="layers whose name has this text")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("shipped"), help="a folder for states, logs and files")
    parser.add_argument("package", type=pathlib.Path, help="the folder of the package vllm")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], check=True, capture_output=True, text=True).stdout
    gpu = re.sub(r"\s", "_", listed.splitlines()[0].strip())
    configs = given.package / "model_executor/layers/fused_moe/configs"
    print("| layer | rows | shipped: faster, tied, default, slower, failing | gain over the default, worst row | tuned in | "
          "tuned: faster, tied, default, slower | gain over the default, mean | over the shipped row: mean, most |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for model, experts, size, hidden, topk, dtype, block in LAYERS:
        shipped = configs / file_name(experts, size, gpu, dtype, block)
        label = f"{model}, {dtype}{' in blocks' if block else ''} (E={experts}, N={size})"
        if given.only not in label:
            continue
        if not shipped.is_file():
            print(f"| {label} | no file for {gpu} | | | | | | |", flush=True)
            continue
        before, seconds, after = Bench(given).layer(shipped, experts, size, hidden, topk, dtype, block)
        kinds = lambda rows, names: ", ".join(str(count(rows, name)) for name in names)
        told, won, over = ratios(before, "default", "time"), ratios(after, "default", "time"), ratios(after, "known", "time")
        print(f"| {label} | {len(before)} | {kinds(before, ['faster', 'tied', 'default', 'slower', 'fails'])} | {mean(told):.2f}x, {min(told):.2f}x | "
              f"{seconds:.0f} s | {kinds(after, ['faster', 'tied', 'default', 'slower'])} | {mean(won):.2f}x | {mean(over):.2f}x, {max(over):.2f}x |",
              flush=True)


main()
