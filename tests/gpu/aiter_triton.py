"""Kernel specs of aiter's Triton products, whose candidates are the rows of its JSON files: `bluefin check` compiles and executes each.

    python3 aiter_triton.py AITER OUT
    bluefin check --kernel OUT/gemm_a16w16-gfx942/spec.toml --target gfx942 --budget all

AITER is the folder of the package aiter, or of its repository, as of 0.1.7. Written is a folder for each family and GPU, with aiter's own sources and a file
of a plain product, which is the reference. Rows that are equal but for their sizes are one. Rows with NUM_KSPLIT above 1 write parts, which are added up
here: aiter's kernels that add them are no part of a row.
"""

import argparse
import json
import re
import shutil
from pathlib import Path

GPUS = {"MI300X": "gfx942", "MI350X": "gfx950"}
KEYS = {
    "BLOCK_SIZE_M": None, "BLOCK_SIZE_N": None, "BLOCK_SIZE_K": None, "GROUP_SIZE_M": None, "NUM_KSPLIT": 1, "cache_modifier": None,
    "num_warps": 4, "num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 16, "kpack": 1,
}
# What a cache modifier is called in a spec, and what it is.
WORDS = {None: ("none", "{ none = true }"), "": ("empty", '""'), ".cg": ("cg", '".cg"'), ".ca": ("ca", '".ca"')}
SOURCES = ["utils/_triton/pid_preprocessing.py", "utils/_triton/arch_info.py", "utils/_triton/kernel_repr.py", "utils/core.py"]
SIZES = '{ i32 = "M" }, { i32 = "N" }, { i32 = "K" }'
STRIDES = '{{ i32 = "K" }}, {{ i32 = 1 }}, {{ i32 = 1 }}, {{ i32 = "K" }}, {{ i32 = "{of_parts}" }}, {{ i32 = "N" }}, {{ i32 = 1 }}'
BLOCKS = "BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, GROUP_SIZE_M, NUM_KSPLIT, SPLITK_BLOCK_SIZE, EVEN_K"
GRID_MN = "ceil_div(M, BLOCK_SIZE_M) * ceil_div(N, BLOCK_SIZE_N)"

HEAD = '''import triton
import triton.language as tl
from aiter.ops.triton._triton_kernels.{file} import {entry}

whole = {entry}.fn


@triton.jit
def add_parts(parts, c, M, N, NUM_KSPLIT: tl.constexpr):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    sums = tl.zeros((256,), dtype=tl.float32)
    for part in tl.static_range(NUM_KSPLIT):
        sums += tl.load(parts.to(tl.pointer_type(tl.float32)) + part * M * N + at, mask=at < M * N, other=0.0)
    tl.store(c + at, sums.to(c.type.element_ty), mask=at < M * N)
'''

PLAIN = '''

@triton.jit
def plain({buffers}, c, M, N, K):
    m = tl.program_id(0)
    n = tl.program_id(1) * 64 + tl.arange(0, 64)
    sums = tl.zeros((64,), dtype=tl.float32)
    for k in range(K):
        {product}
    tl.store(c + m * N + n, sums.to(c.type.element_ty), mask=n < N)
'''

PARTS = '''

@triton.jit
def parts({buffers}, M, N, K, {strides}, {params}):
    c = c.to(tl.pointer_type(tl.float32))
    whole({arguments})
'''

# A number of four bits: sign, two bits of exponent, one of mantissa.
E2M1 = '''

@triton.jit
def e2m1(bits):
    exponent = (bits >> 1) & 3
    half = 0.5 * (bits & 1).to(tl.float32)
    value = tl.where(exponent == 0, half, tl.where(exponent == 1, 1.0, tl.where(exponent == 2, 2.0, 4.0)) * (1.0 + half))
    return tl.where((bits & 8) != 0, -value, value)
'''

FAMILIES = [
    {
        "name": "GEMM-A16W16", "file": "gemm_a16w16", "entry": "_gemm_a16_w16_kernel", "sizes": (40, 272, 1024), "functions": "",
        "inputs": [("a", "BF16", "M * K", ""), ("w", "BF16", "N * K", "")],
        "product": "sums += tl.load(a + m * K + k).to(tl.float32) * tl.load(w + n * K + k, mask=n < N, other=0.0).to(tl.float32)",
        "buffers": '"a", "w", "none", "{c}"', "scales": "", "split": "ceil_div(K, NUM_KSPLIT)",
        "even": "K % {split} == 0 && {split} % BLOCK_SIZE_K == 0", "constants": {"activation": '""', "use_activation": "false", "ADD_BIAS": "false", "SKIP_REDUCE": "false"},
        "strides": "am, ak, bk, bn, ck, cm, cn", "has_grid": True, "tolerance": 0.3,
        "arguments": f'a, w, None, c, M, N, K, am, ak, bk, bn, ck, cm, cn, {BLOCKS}, GRID_MN, cache_modifier, "", False, False, False',
    },
    {
        "name": "GEMM-A8W8_BLOCKSCALE", "file": "gemm_a8w8_blockscale", "entry": "_gemm_a8w8_blockscale_kernel", "sizes": (40, 128, 7168), "functions": "",
        "inputs": [("a", "FP8", "M * K", ""), ("w", "FP8", "N * K", ""), ("sa", "FP32", "M * (K / 128)", "low = 0.5\nhigh = 1.0\n"),
                   ("sw", "FP32", "(N / 128) * (K / 128)", "low = 0.5\nhigh = 1.0\n")],
        "product": "x = tl.load(a + m * K + k).to(tl.float32) * tl.load(sa + m * (K // 128) + k // 128)\n"
                   "        y = tl.load(w + n * K + k, mask=n < N, other=0.0).to(tl.float32)\n"
                   "        sums += x * y * tl.load(sw + (n // 128) * (K // 128) + k // 128, mask=n < N, other=0.0)",
        "buffers": '"a", "w", "{c}", "sa", "sw"', "scales": ', { i32 = "K / 128" }, { i32 = 1 }, { i32 = 1 }, { i32 = "K / 128" }', "split": "ceil_div(K, NUM_KSPLIT)",
        "even": "K % BLOCK_SIZE_K == 0", "constants": {"GROUP_K": "128", "GROUP_N": "128"},
        "strides": "am, ak, bk, bn, ck, cm, cn, sam, sak, sbk, sbn", "has_grid": True, "tolerance": 2.0,
        "arguments": f"a, w, c, sa, sw, M, N, K, am, ak, bk, bn, ck, cm, cn, sam, sak, sbk, sbn, 128, 128, {BLOCKS}, GRID_MN, cache_modifier",
    },
    {
        # K is counted in bytes, two numbers each.
        "name": "GEMM-AFP4WFP4", "file": "gemm_afp4wfp4", "entry": "_gemm_afp4_wfp4_kernel", "sizes": (40, 320, 2048), "functions": E2M1,
        "inputs": [("a", "UINT8", "M * K", ""), ("w", "UINT8", "N * K", ""), ("sa", "UINT8", "M * (K / 16)", "low = 124\nhigh = 128\n"),
                   ("sw", "UINT8", "N * (K / 16)", "low = 124\nhigh = 128\n")],
        "product": "x = tl.load(a + m * K + k).to(tl.int32)\n"
                   "        y = tl.load(w + n * K + k, mask=n < N, other=0).to(tl.int32)\n"
                   "        scale = tl.load(sa + m * (K // 16) + k // 16).to(tl.int32) + tl.load(sw + n * (K // 16) + k // 16, mask=n < N, other=0).to(tl.int32) - 254\n"
                   "        sums += (e2m1(x & 15) * e2m1(y & 15) + e2m1(x >> 4) * e2m1(y >> 4)) * tl.exp2(scale.to(tl.float32))",
        "buffers": '"a", "w", "{c}", "sa", "sw"', "scales": ', { i32 = "K / 16" }, { i32 = 1 }, { i32 = "K / 16" }, { i32 = 1 }',
        "split": "max(2 * ceil_div(K, NUM_KSPLIT), BLOCK_SIZE_K)",
        "even": "K % (BLOCK_SIZE_K / 2) == 0 && {split} % BLOCK_SIZE_K == 0 && K % ({split} / 2) == 0", "constants": {},
        "strides": "am, ak, bk, bn, ck, cm, cn, sam, sak, sbn, sbk", "has_grid": False, "tolerance": 8.0,
        "arguments": f"a, w, c, sa, sw, M, N, K, am, ak, bk, bn, ck, cm, cn, sam, sak, sbn, sbk, {BLOCKS}, cache_modifier",
    },
]


def rows(configs, gpu, family):
    """How many rows a family's files have for a GPU, and those that differ, as points of a spec by whether they split K."""
    count, points = 0, {False: [], True: []}
    for path in sorted(configs.glob(f"{gpu}-{family}*.json")):
        if not re.fullmatch(rf"{gpu}-{family}(-N=\d+-K=\d+)?\.json", path.name):
            continue
        for row in json.loads(path.read_text()).values():
            count += 1
            unknown = set(row) - set(KEYS)
            if unknown:
                raise SystemExit(f"{path}: found {', '.join(sorted(unknown))}, expected {', '.join(KEYS)}")
            row = KEYS | {key: value for key, value in row.items() if value is not None or key == "cache_modifier"}
            of_split = points[row["NUM_KSPLIT"] > 1]
            if row not in of_split:
                of_split.append(row)
    return count, points


def solver(family, points, is_split):
    """The solver of these points."""
    if not points:
        return ""
    word = lambda key, value: f'"{WORDS[value][0]}"' if key == "cache_modifier" else str(value)
    lines = "\n".join("  { " + ", ".join(f"{key} = {word(key, row[key])}" for key in KEYS) + " }," for row in points)
    words = dict.fromkeys(row["cache_modifier"] for row in points)
    split = family["split"]
    defines = [f'SPLITK_BLOCK_SIZE = "{split}"', f'EVEN_K = "if {family["even"].replace("{split}", split)} {{ 1 }} else {{ 0 }}"']
    defines += [f'GRID_MN = "{GRID_MN}"'] if family["has_grid"] else []
    text = f'\n[[solver]]\nname = "{"Split" if is_split else "Whole"}"\nalgorithm = "Direct"\n'
    text += 'workspace = "4 * NUM_KSPLIT * M * N"\n' if is_split else ""
    text += f"defines = {{ {', '.join(defines)} }}\npoints = [\n{lines}\n]\n  [solver.words.cache_modifier]\n"
    text += "".join(f"  {WORDS[word][0]} = {WORDS[word][1]}\n" for word in words)
    constants = {} if is_split else family["constants"]
    text += "".join(["  [solver.constants]\n"] * bool(constants)) + "".join(f"  {name} = {value}\n" for name, value in constants.items())
    c, of_parts = ("workspace", "M * N") if is_split else ("c", "0")
    arguments = f'{family["buffers"].replace("{c}", c)}, {SIZES}, {STRIDES.format(of_parts=of_parts)}{family["scales"]}'
    text += f'  [[solver.launch]]\n  entry = "{"parts" if is_split else family["entry"]}"\n  arguments = [{arguments}]\n  grid = ["NUM_KSPLIT * {GRID_MN}"]\n'
    if is_split:
        text += '  [[solver.launch]]\n  entry = "add_parts"\n  arguments = ["workspace", "c", { i32 = "M" }, { i32 = "N" }]\n  grid = ["ceil_div(M * N, 256)"]\n'
    return text


def layer(family):
    """The source that launches aiter's kernel, with a plain product beside it."""
    buffers = ", ".join(name for name, *_ in family["inputs"])
    params = f"{BLOCKS}, cache_modifier" + (", GRID_MN" if family["has_grid"] else "")
    params = ", ".join(f"{name}: tl.constexpr" for name in params.split(", "))
    text = HEAD.format(file=family["file"], entry=family["entry"]) + family["functions"]
    text += PLAIN.format(buffers=buffers, product=family["product"])
    # In the order of the launch.
    buffers = family["buffers"].replace('"', "").replace("none", "bias").replace("{c}", "c")
    return text + PARTS.format(buffers=buffers, strides=family["strides"], params=params, arguments=family["arguments"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("aiter", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    triton = next((place for place in (args.aiter / "ops/triton", args.aiter / "aiter/ops/triton") if place.is_dir()), None)
    if triton is None:
        raise SystemExit(f"{args.aiter}: found no ops/triton, expected the package aiter")
    for family in FAMILIES:
        for gpu, arch in GPUS.items():
            count, points = rows(triton / "configs/gemm", gpu, family["name"])
            if not count:
                continue
            folder = args.out / f"{family['file']}-{arch}"
            sources = [f"_triton_kernels/{family['file']}.py", *SOURCES]
            names = [f"aiter/ops/triton/{source}" for source in sources]
            packages = dict.fromkeys(str(parent / "__init__.py") for name in names for parent in Path(name).parents if parent != Path("."))
            for name in [*names, *packages]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
            for name in packages:
                (folder / name).write_text("")
            for source, name in zip(sources, names):
                shutil.copy(triton / source, folder / name)
            (folder / "layer.py").write_text(layer(family))
            m, n, k = family["sizes"]
            text = f'name = "aiter-{family["file"].replace("_", "-")}"\nproblem = "kernel"\ntoolchain = "triton"\ntargets = ["{arch}"]\nsource = "layer.py"\n'
            text += f'includes = {json.dumps([*packages, *names])}\nreference = "Plain"\n\n[sizes]\nM = {m}\nN = {n}\nK = {k}\n'
            for name, of_type, length, more in family["inputs"]:
                text += f'\n[[buffer]]\nname = "{name}"\ntype = "{of_type}"\nlength = "{length}"\nrole = "input"\n{more}'
            text += '\n[[buffer]]\nname = "c"\ntype = "BF16"\nlength = "M * N"\nrole = "output"\n'
            text += f'\n[tolerance.BF16]\nabsolute = {family["tolerance"]}\nrelative = 0.03\n'
            inputs = ", ".join(f'"{name}"' for name, *_ in family["inputs"])
            text += f'\n[[solver]]\nname = "Plain"\nalgorithm = "Direct"\ncandidate = false\n  [[solver.launch]]\n  entry = "plain"\n  arguments = [{inputs}, "c", {SIZES}]\n'
            text += '  grid = ["M", "ceil_div(N, 64)"]\n' + solver(family, points[False], False) + solver(family, points[True], True)
            (folder / "spec.toml").write_text(text)
            print(f"{folder / 'spec.toml'}: {count} rows, {sum(map(len, points.values()))} of them different")


if __name__ == "__main__":
    main()
