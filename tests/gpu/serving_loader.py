"""Reads config files with vLLM's own loader, whose imports are stubbed, and tries which row it takes for each number of tokens.

    python3 serving_loader.py PACKAGE FILE...

PACKAGE is the folder of the package vllm. Ends with 1 if the loader does not find a file by the name that it builds, or takes another row
than that of the nearest batch size.
"""

import ast
import functools
import json
import os
import re
import sys
import types

NAMES = {"get_config_file_name", "get_moe_configs", "get_default_config", "should_moe_wna16_use_cuda", "try_get_optimal_moe_config"}


class Anything:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def loader(package, device, folder):
    """vLLM's functions, for a GPU of that name and files in that folder."""
    path = os.path.join(package, "model_executor/layers/fused_moe/fused_moe.py")
    with open(path) as file:
        tree = ast.parse(file.read())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in NAMES]
    for function in functions:
        function.returns = None
        for argument in function.args.args:
            argument.annotation = None
    module = types.ModuleType("vllm.model_executor.layers.fused_moe")
    module.get_config = lambda: None
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules[module.__name__] = module
    space = {
        "envs": types.SimpleNamespace(VLLM_BATCH_INVARIANT=False, VLLM_TUNED_CONFIG_FOLDER=folder),
        "functools": functools, "json": json, "os": os, "logger": Anything(), "current_platform": Anything(),
        "get_device_name_as_file_name": lambda: device, "__file__": path,
    }
    exec(compile(ast.Module(body=functions, type_ignores=[]), path, "exec"), space)
    return space


def main(package, files):
    wrong = 0
    for path in files:
        name = os.path.basename(path)
        parts = re.fullmatch(r"E=(\d+),N=(\d+),device_name=(.+?)(?:,dtype=(\w+))?(?:,block_shape=\[(\d+),(\d+)\])?\.json", name)
        if parts is None:
            print(f"{path}: no name of vLLM's")
            wrong += 1
            continue
        experts, size, device, dtype, block_n, block_k = parts.groups()
        experts, size = int(experts), int(size)
        block = [int(block_n), int(block_k)] if block_n else None
        vllm = loader(package, device, os.path.dirname(path))
        with open(path) as file:
            rows = json.load(file)
        rows.pop("triton_version", None)
        rows = {int(key): row for key, row in rows.items()}
        found = vllm["get_moe_configs"](experts, size, dtype, *(block or [None, None]))
        others = 0
        for tokens in range(1, 4097):
            row = vllm["try_get_optimal_moe_config"]((experts, 2 * size, 64), (experts, 64, size), 2, dtype, tokens, block)
            others += row != rows[min(rows, key=lambda key: abs(key - tokens))]
        print(f"{name}: {'found' if found == rows else 'NOT FOUND'}, {others} of 4096 batch sizes take another row")
        wrong += found != rows or others
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
