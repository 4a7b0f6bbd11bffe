"""Stands in for the tuners of aiter, of all families that its CI tunes: takes their arguments, writes files of their form, and
fails in the ways in which they fail. What it finds follows from the shape alone, so that equal runs find equal rows.

STAND_IN_GPU        the GPU that it says it ran on: gfx942-304
STAND_IN_FAULTS     FAULT:COLUMN=VALUE,... for shapes with that value, FAULT for all; with @once behind it, for a shape once, @twice.
                    hang, kill, exit, unsupported, inf, wrong, zero, gpu, half, column, duplicate; of an operator with a new row:
                    slower, mismatch, fault, reap; of one with a row of a file that a variable names also stuck and babble, and
                    bare-mismatch and the like of one without; torch: no operator at all. Kernel 999 of such a file is not built,
                    and neither are 997 and 998 together
STAND_IN_STATE      a folder in which faults are remembered
STAND_IN_SECONDS    how long a shape takes
STAND_IN_BETTER     factor of all times
STAND_IN_NOISE      by how much, as a share, times of operators differ from process to process, in turns
STAND_IN_LOG        bytes that an operator logs between its row of a table and the keys
STAND_IN_BUILD      how long it takes to build what is not in AITER_JIT_DIR; without it nothing is built
"""

import argparse
import csv
import hashlib
import os
import signal
import sys
import time

GEMM = ["M", "N", "K"]
MOE = [
    "token", "model_dim", "inter_dim", "expert", "topk", "act_type", "dtype", "q_dtype_a", "q_dtype_w", "q_type", "use_g1u1",
    "doweight_stage1",
]
FOUND = ["kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio"]
# Shape, results, bytes of an element of A, B and C.
FAMILIES = {
    "gemm_a8w8_tune.py": (GEMM + ["q_dtype_w"], FOUND, (1, 1, 2)),
    "gemm_a8w8_bpreshuffle_tune.py": (GEMM + ["q_dtype_w"], ["libtype"] + FOUND, (1, 1, 2)),
    "gemm_a8w8_blockscale_tune.py": (GEMM, ["libtype"] + FOUND, (1, 1, 2)),
    "gemm_a4w4_blockscale_tune.py": (GEMM, FOUND, (0.5, 0.5, 2)),
    "batched_gemm_a8w8_tune.py": (["B"] + GEMM, FOUND, (1, 1, 2)),
    "batched_gemm_bf16_tune.py": (["B"] + GEMM, FOUND, (2, 2, 2)),
    "gemm_tuner.py": (
        GEMM + ["bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"],
        ["libtype", "solidx", "splitK", "us", "kernelName", "err_ratio", "tflops", "bw"],
        (2, 2, 2),
    ),
    "gemm_moe_tune.py": (
        MOE,
        ["block_m", "ksplit", "us1", "kernelName1", "err1", "us2", "kernelName2", "err2", "us", "run_1stage", "xbf16", "flat", "tflops", "bw"],
        None,
    ),
}
# What other families have: of the grouped products of experts, and of what has no sizes of a GEMM.
GROUPED = [
    "max_m", "tile_m", "tile_n", "tile_k", "tile_m2", "tile_n2", "tile_k2", "m_warp", "n_warp", "m_warp2", "n_warp2", "num_buffers",
    "num_buffer_stage2", "split_k1", "split_k2", "grouped_persistent_m", "persistent_workers", "wave_specialized_tdm",
    "tdm_as_in_prologue", "cluster_n", "waves_per_tensor_tdm", "next_stage_prefetch", "kernelName1", "kernelName2", "us", "tflops", "bw",
]
FAMILIES["opus_bmm_mxscale_tune.py"] = (["b", "m", "n", "k"], ["libtype"] + FOUND, None)
FAMILIES["chunk_gdn_h_opt_tune.py"] = (
    [
        "dtype", "K", "V", "BT", "H", "Hg", "is_varlen", "use_h0", "store_fs", "snapshot_bf16", "state_bf16", "T_flat", "N",
        "total_chunks", "max_seq_chunks",
    ],
    ["BV", "us"],
    None,
)
KERNELS = 12


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", "--untune_file", required=True)
    parser.add_argument("-o", "--tune_file", required=True)
    parser.add_argument("-o2", "--profile_file", default="")
    parser.add_argument("--mp", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--timeout", type=int, default=1800)
    parser.add_argument("--errRatio", type=float, default=0.05)
    parser.add_argument("--libtype", default="all")
    parser.add_argument("-k", "--splitK", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--update_improved", action="store_true")
    parser.add_argument("--run_config", nargs="?", const=True, default=False)
    parser.add_argument("--preshuffle", action="store_true")
    parser.add_argument("--grouped-gemm", action="store_true")
    args = parser.parse_args()
    if args.update_improved and not args.compare:
        parser.error("--update_improved requires --compare")
    return args


def read(path):
    """Header and rows, without white space and blank lines."""
    with open(path, newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    rows = [row for row in rows if any(row)]
    return rows[0], [dict(zip(rows[0], row)) for row in rows[1:]]


def write(path, columns, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows([row[column] for column in columns] for row in rows)


def mark(fault, shape, time):
    """Whether it happens to a shape for that time now."""
    name = "-".join([fault] + [shape[key] for key in sorted(shape)] + [str(time)]).replace("/", "_")
    try:
        os.close(os.open(os.path.join(os.environ["STAND_IN_STATE"], name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def faults_of(shape, bare=False):
    """The faults that are to happen to a shape, or to its operator without a row."""
    found = []
    for text in filter(None, os.environ.get("STAND_IN_FAULTS", "").split(",")):
        fault, _, where = text.strip().partition(":")
        if fault.startswith("bare-") != bare:
            continue
        fault = fault.removeprefix("bare-")
        where, _, times = where.partition("@")
        column, _, value = where.partition("=")
        if where and shape.get(column) != value:
            continue
        if times and not any(mark(text.split(":")[0].strip(), shape, time) for time in range(2 if times == "twice" else 1)):
            continue
        found.append(fault)
    return found


def number(*parts):
    """A number from 0 to 1 that follows from the parts."""
    digest = hashlib.sha256(":".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def tried(name, shape, results, sizes, faults, gpu, args):
    """A row of each kernel."""
    rows = []
    values = [shape[column] for column in sorted(shape)]
    for kernel in range(KERNELS):
        chance = lambda what: number(name, kernel, what, *values)
        us = round((5 + 400 * chance("us")) * float(os.environ.get("STAND_IN_BETTER", "1")), 4)
        error = round(0.04 * chance("error"), 4) if chance("exact") > 0.5 else 0.0
        fate = 1 if {"unsupported", "inf", "wrong", "zero"} & set(faults) else chance("fate")
        if fate < 0.1 or "unsupported" in faults:
            us, error = -1, 1.0
        elif fate < 0.15 or "inf" in faults:
            us, error = float("inf"), 1.0
        elif fate < 0.25 or "wrong" in faults:
            error = 1.0
        elif "zero" in faults:
            us = 0
        row = {**shape, "gfx": gpu[0], "cu_num": gpu[1], "us": us, "tflops": 0, "bw": 0}
        row.update(libtype=["ck", "asm"][kernel % 2], kernelId=kernel, solidx=kernel, splitK=int(args.splitK and 3 * chance("split")))
        row.update(kernelName=f"stand_in_kernel_{kernel}", errRatio=error, err_ratio=error)
        row.update(block_m=32, ksplit=0, us1=us, kernelName1=f"stand_in_gate_{kernel}", err1=f"{error:.1%}", us2=0.0)
        # What a kernel is to be called with: never what a row stands for that says nothing.
        row.update(kernelName2="Null", err2="0.0%", run_1stage=1, xbf16=1, flat=2)
        if us > 0 and us != float("inf"):
            if sizes:
                batch, (m, n, k) = int(shape.get("B", 1)), (int(shape[column]) for column in GEMM)
                row["tflops"] = round(2 * batch * m * n * k / us / 1e6, 2)
                row["bw"] = round(batch * (m * k * sizes[0] + n * k * sizes[1] + m * n * sizes[2]) / us / 1e3, 2)
            elif "token" in shape and "err1" in results:
                token, width, inner, topk = (int(shape[column]) for column in ["token", "model_dim", "inter_dim", "topk"])
                row["tflops"] = round(2 * token * width * inner * topk * (2 + int(shape["use_g1u1"])) / us / 1e6, 2)
        row.update({column: 1 for column in results if column not in row})
        rows.append(row)
    return rows


def build(name):
    """What aiter builds for a family where it is not there yet. Who builds is noted."""
    seconds = os.environ.get("STAND_IN_BUILD")
    folder = os.environ.get("AITER_JIT_DIR", "aiter/jit")
    module = os.path.join(folder, "module_" + name.replace(".py", ".so"))
    if seconds is None or os.path.exists(module):
        return
    with open(os.path.join(os.environ["STAND_IN_STATE"], "builds"), "a") as file:
        file.write(f"{name} in {os.path.abspath(folder)}\n")
    time.sleep(float(seconds))
    os.makedirs(os.path.join(folder, "build"), exist_ok=True)
    with open(module, "w") as file:
        file.write(f"kernels of {name}\n")


def found(rows, shape):
    """The first of rows that is of a shape."""
    return next((row for row in rows if all(row.get(column, "") == cell for column, cell in shape.items() if cell)), None)


def run_config(name, shape_columns, gpu, args):
    """Measures the operator: with the rows of a file, which it is built with, or with what it has."""
    if os.environ.get("STAND_IN_FAULTS") == "torch":
        print("ModuleNotFoundError: No module named 'torch'", file=sys.stderr)
        return 1
    tuned = isinstance(args.run_config, str)
    build(name.replace("_tune", "_tuned" if tuned else ""))
    noise = 1.0
    if "STAND_IN_NOISE" in os.environ:
        with open(os.path.join(os.environ["STAND_IN_STATE"], "turns"), "a") as file:
            noise += float(os.environ["STAND_IN_NOISE"]) * (file.tell() % 3 - 1) / 2
            file.write(".")
    named = next((path for variable, path in os.environ.items() if variable.startswith("AITER_CONFIG_")), None)
    rows = read(named)[1] if named else []
    if named and os.environ.get("AITER_REBUILD") == "2":
        with open(os.path.join(os.environ["STAND_IN_STATE"], "rebuilt"), "a") as file:
            file.write(f"{len(rows)} rows\n")
    kernels = {row.get("kernelId") for row in rows}
    if "999" in kernels or {"997", "998"} <= kernels:
        print("RuntimeError: build module_gemm_a8w8 failed", file=sys.stderr)
        return 1
    print(f"=== Running production operator benchmark ({'tuned' if tuned else 'default'}) ===", flush=True)
    _, shapes = read(args.run_config if tuned else args.untune_file)
    lines = [f"============= Benchmark ({'tuned' if tuned else 'default'}) Benchmark Results ============="]
    lines += [f"{'Shape':<40} | {'E2E(us)':>10} | {'Status':>8}", "-" * 64]
    for row in shapes:
        shape = {column: row.get(column, "") for column in shape_columns}
        own = found(rows, shape) or (found(rows, {**shape, "M": str(-(-int(shape["M"]) // 16) * 16)}) if "M" in shape else None)
        faults = faults_of(shape, bare=not (tuned or own))
        if "stuck" in faults:
            time.sleep(3600)
        if "babble" in faults:
            print("Shape | nonsense\nkeys: \x00\nreason: none", flush=True)
            return 0
        if "fault" in faults:
            print("Memory access fault by GPU node-1", flush=True)
            os.kill(os.getpid(), signal.SIGABRT)
        if "reap" in faults:
            os.kill(os.getpid(), signal.SIGKILL)
        us, status, reason = 450.0, "OK", None
        if tuned:
            us = 500.0 if "slower" in faults else float(row["us"]) + 10
        if own:
            us = 500.0 if "slower" in faults else float(own["us"])
        us *= noise
        if "mismatch" in faults:
            us, status, reason = 20.0, "MISMATCH", "err_ratio=0.5(>--errRatio=0.05)"
        text = "(" + ", ".join(shape[column] for column in shape_columns) + ")"
        lines += [f"{text:<40} | {us:>10.2f} | {status:>8}"]
        log = int(os.environ.get("STAND_IN_LOG", "0"))
        lines += ["[aiter] a | b | c", "x" * log] if log else []
        keys = {"gfx": gpu[0], "cu_num": gpu[1], **shape}
        lines += ["keys: " + ", ".join(f"{key}={value}" for key, value in keys.items())]
        lines += [f"reason: {reason}"] if reason else []
    print("\n".join(lines), flush=True)
    return 0


def main():
    args = arguments()
    name = os.path.basename(sys.argv[0])
    shape_columns, results, sizes = FAMILIES[name]
    gpu = os.environ["STAND_IN_GPU"].split("-")
    if args.grouped_gemm:
        shape_columns, results = shape_columns + ["gate_mode"], GROUPED
    if args.run_config:
        return run_config(name, shape_columns, gpu, args)
    build(name)
    _, shapes = read(args.untune_file)
    whose = ["gfx"] if name.startswith("opus") else ["gfx", "cu_num"]
    columns = whose + shape_columns + results
    tuned = read(args.tune_file)[1] if os.path.exists(args.tune_file) else []
    profile = []
    failed = False
    for shape in shapes:
        defaults = {"bpreshuffle": "False"}
        shape = {column: shape.get(column, defaults.get(column)) for column in shape_columns}
        faults = faults_of(shape)
        print("tuning", shape, flush=True)
        time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
        if "kill" in faults:
            print("Memory access fault by GPU node-1", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in faults:
            time.sleep(3600)
        there = gpu if "gpu" not in faults else ["gfx950", "256"]
        rows = tried(name + str(args.preshuffle), shape, results, sizes, faults, there, args)
        profile += rows
        if args.profile_file:
            write(args.profile_file, columns, profile)
        errors = [column for column in ["errRatio", "err_ratio"] if column in results]
        good = [row for row in rows if row["us"] not in (-1, float("inf")) and all(row[e] <= args.errRatio for e in errors)]
        if "err1" in results:
            good = [row for row in good if float(row["err1"].rstrip("%")) <= 10]
        if good:
            best = min(good, key=lambda row: row["us"])
            tuned += [best] * (2 if "duplicate" in faults else 1)
            if "column" in faults:
                columns = columns + ["mood"]
                for row in tuned:
                    row["mood"] = "good"
            write(args.tune_file, columns, tuned)
        else:
            failed = True
        if "half" in faults:
            with open(args.tune_file, "r+") as file:
                file.truncate(os.path.getsize(args.tune_file) - 12)
            return 1
        if "exit" in faults:
            print("RuntimeError: something else", file=sys.stderr)
            return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
