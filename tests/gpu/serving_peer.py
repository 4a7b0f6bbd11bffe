"""vLLM's kernel for mixtures of experts, loaded from its own file under stubs: the engine's own tuning loop, and rows of files in turns.

    python3 serving_peer.py PACKAGE --moe E,N,K,TOPK [--block-shape 128,128] loop --tokens M --seconds S
    python3 serving_peer.py PACKAGE --moe E,N,K,TOPK [--block-shape 128,128] judge FILE FILE... [--draws D] [--rounds R]

PACKAGE is the folder of the package vllm; N is the intermediate size of one rank. With a block shape weights and activations are FP8, else
bf16.

`loop` does what vLLM's benchmark_moe.py does for one batch size: every config of its space in its order, new inputs for each, an eager run,
a graph of ten layers (routing, sort, both products, what is between them), 5 replays to warm, then 20 that are timed. It stops after that
many seconds and says how far it came. Routing and sort are torch's here, as vLLM's are in its compiled operators.

`judge` times the rows of files, and the engine's default, as graphs of ten times both products, in turns, for several draws of the routing, and
prints a line of JSON for each batch size: means of the draws' medians in microseconds in the order of the files, the default's last, and the
first file's time over the last one's, draw by draw. Rows that are equal are one.
"""

import argparse
import importlib.util
import itertools
import json
import os
import random
import statistics
import sys
import time
import types

import torch
import triton
import triton.language as tl

DEVICE = "cuda"


class Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Stub(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


def engine(package):
    """The module with vLLM's kernel and its launcher."""
    names = [
        "envs", "_custom_ops", "logger", "platforms", "triton_utils", "triton_utils.allocation", "utils", "utils.math_utils",
        "utils.platform_utils", "utils.torch_utils", "model_executor", "model_executor.layers", "model_executor.layers.fused_moe",
        "model_executor.layers.fused_moe.modular_kernel", "model_executor.layers.fused_moe.activation",
        "model_executor.layers.fused_moe.config", "model_executor.layers.fused_moe.moe_align_block_size",
        "model_executor.layers.fused_moe.utils",
    ]
    modules = {"": Stub("vllm")} | {name: Stub(f"vllm.{name}") for name in names}
    for name, module in modules.items():
        module.__path__ = []
        sys.modules[module.__name__] = module
        parent, _, last = name.rpartition(".")
        if name:
            setattr(modules[parent], last, module)
    log = types.SimpleNamespace(**{name: lambda *_, **__: None for name in ("info", "warning", "debug", "info_once", "warning_once")})
    modules["logger"].init_logger = lambda _: log
    modules["envs"].VLLM_BATCH_INVARIANT = False
    modules["triton_utils"].tl, modules["triton_utils"].triton = tl, triton
    modules["utils.torch_utils"].direct_register_custom_op = lambda *_, **__: None
    modules["platforms"].current_platform = types.SimpleNamespace(
        is_rocm=lambda: False, is_cuda=lambda: True, is_xpu=lambda: False, is_cuda_alike=lambda: True, is_cpu=lambda: False
    )
    fused = "model_executor.layers.fused_moe"
    capability = torch.cuda.get_device_capability()
    swaps = lambda m, n: capability == (9, 0) and m < 64 and n >= 64
    modules[f"{fused}.utils"].enable_swap_ab = swaps
    modules[f"{fused}.utils"].resolve_moe_use_td = lambda *_, **__: False
    modules[f"{fused}.utils"].warn_if_moe_use_td_ineffective = lambda *_, **__: None
    path = os.path.join(package, fused.replace(".", "/"), "fused_moe.py")
    spec = importlib.util.spec_from_file_location(f"vllm.{fused}.fused_moe", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def space(block):
    """The engine's configs for NVIDIA's GPUs, in its order."""
    lists = {
        "BLOCK_SIZE_M": [16, 32, 64, 128, 256], "BLOCK_SIZE_N": [32, 64, 128, 256], "BLOCK_SIZE_K": [64, 128, 256],
        "GROUP_SIZE_M": [1, 16, 32, 64], "num_warps": [4, 8], "num_stages": [2, 3, 4, 5],
    }
    configs = [dict(zip(lists, values)) for values in itertools.product(*lists.values())]
    divides = lambda tile, of: tile % of == 0 or of % tile == 0
    return [one for one in configs if not block or divides(one["BLOCK_SIZE_N"], block[0]) and divides(one["BLOCK_SIZE_K"], block[1])]


def align(ids, size, experts):
    """Routes by expert, each group padded to whole blocks, as moe_align_block_size has them. Nothing waits for the device."""
    routes = ids.numel()
    length = routes + experts * (size - 1)
    if routes < experts:
        length = min(length, routes * size)
    flat = ids.flatten().long()
    counts = torch.zeros(experts, dtype=torch.long, device=DEVICE).scatter_add_(0, flat, torch.ones_like(flat))
    padded = (counts + size - 1) // size * size
    ends = padded.cumsum(0)
    order = flat.argsort(stable=True)
    before = counts.cumsum(0) - counts
    place = (ends - padded)[flat[order]] + torch.arange(routes, device=DEVICE) - before[flat[order]]
    routed = torch.full((length,), routes, dtype=torch.int32, device=DEVICE).scatter_(0, place, order.int())
    firsts = torch.arange(0, length, size, device=DEVICE)
    owners = torch.searchsorted(ends, firsts, right=True).clamp(max=experts - 1).int()
    return routed, owners, ends[-1:].int()


class Layer:
    """One layer's weights and the inputs of a batch."""

    def __init__(self, engine, sizes, block, tokens):
        self.engine, self.block, self.tokens = engine, block, tokens
        self.experts, self.inner, self.hidden, self.topk = sizes
        kind = torch.float8_e4m3fn if block else torch.bfloat16
        make = lambda *shape: torch.randn(*shape, dtype=torch.float16 if block else kind, device=DEVICE).to(kind)
        self.x = torch.randn(tokens, self.hidden, dtype=torch.bfloat16, device=DEVICE)
        self.w1 = make(self.experts, 2 * self.inner, self.hidden)
        self.w2 = make(self.experts, self.hidden, self.inner)
        self.scales = [None, None]
        if block:
            tiles = lambda w: (self.experts, -(-w.size(1) // block[0]), -(-w.size(2) // block[1]))
            self.scales = [torch.rand(tiles(w), dtype=torch.float32, device=DEVICE) * 0.01 for w in (self.w1, self.w2)]
        self.gating = torch.randn(tokens, self.experts, dtype=torch.float32, device=DEVICE)
        self.first = torch.empty(tokens, self.topk, 2 * self.inner, dtype=torch.bfloat16, device=DEVICE)
        self.second = torch.empty(tokens, self.topk, self.hidden, dtype=torch.bfloat16, device=DEVICE)

    def route(self):
        weights, ids = self.gating.softmax(-1).topk(self.topk)
        return weights / weights.sum(-1, keepdim=True), ids

    def sorted(self, ids, size):
        if self.tokens * self.topk * 4 <= self.experts:
            return None, ids.flatten().int(), torch.full((1,), ids.numel() * size, dtype=torch.int32, device=DEVICE)
        return align(ids, size, self.experts)

    def quantized(self, x):
        if not self.block:
            return x, None
        groups = x.float().unflatten(-1, (-1, self.block[1]))
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448.0
        return (groups / scale).to(torch.float8_e4m3fn).flatten(-2), scale.squeeze(-1)

    def product(self, at, a, scale, weights, order, config):
        b, c = ((self.w1, self.first), (self.w2, self.second))[at]
        self.engine.invoke_fused_moe_triton_kernel(
            a, b, c, scale, self.scales[at], weights, *order, at == 1, self.topk if at == 0 else 1, config, tl.bfloat16,
            use_fp8_w8a8=bool(self.block), use_int8_w8a8=False, use_int8_w8a16=False, use_int4_w4a16=False, per_channel_quant=False,
            block_shape=self.block,
        )

    def run(self, config):
        """The whole layer."""
        weights, ids = self.route()
        order = self.sorted(ids, config["BLOCK_SIZE_M"])
        self.product(0, *self.quantized(self.x), None, order, config)
        gate, up = self.first.view(-1, 2 * self.inner).chunk(2, -1)
        middle = torch.nn.functional.silu(gate) * up
        self.product(1, *self.quantized(middle), weights, order, config)
        return self.second.sum(1)

    def routing(self):
        """What both products read of one draw, as a function of the size of a block: it is the same memory for all configs."""
        weights, ids = self.route()
        inputs = [self.quantized(x) for x in (self.x, self.first.view(-1, 2 * self.inner)[:, : self.inner].contiguous())]
        orders = {}

        def of(size):
            if size not in orders:
                orders[size] = self.sorted(ids, size)
            return weights, orders[size], inputs

        return of

    def products(self, config, routing):
        """A function that launches both products."""
        weights, order, inputs = routing(config["BLOCK_SIZE_M"])

        def launch():
            self.product(0, *inputs[0], None, order, config)
            self.product(1, *inputs[1], weights, order, config)

        return launch


def graph_of(launch, times=10):
    """A graph of so many launches. What they read has to outlive it."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            launch()
    torch.cuda.synchronize()
    return graph


def timed(graph):
    """Microseconds of one of its ten launches."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 100


def loop(engine, sizes, block, tokens, seconds):
    configs = space(block)
    began = time.monotonic()
    best, done, failed = None, 0, 0
    for config in configs:
        if time.monotonic() - began > seconds:
            break
        done += 1
        try:
            layer = Layer(engine, sizes, block, tokens)
            gating = torch.randn(20, tokens, layer.experts, dtype=torch.float32, device=DEVICE)
            graph = graph_of(lambda: layer.run(config))
            for _ in range(5):
                graph.replay()
            torch.cuda.synchronize()
            times = []
            for at in range(20):
                layer.gating.copy_(gating[at])
                torch.cuda.synchronize()
                times.append(timed(graph))
            graph.reset()
            best = min(best or (float("inf"), None), (sum(times) / len(times), json.dumps(config)))
        except triton.runtime.errors.OutOfResources:
            failed += 1
        except RuntimeError as error:
            # Ends the engine's own loop; here the config alone.
            failed += 1
            print(f"{config}: {str(error).splitlines()[0]}", file=sys.stderr)
    spent = time.monotonic() - began
    whole = spent / max(done, 1) * len(configs)
    told = {"tokens": tokens, "configs": len(configs), "done": done, "failed": failed, "seconds": round(spent, 1)}
    print(json.dumps(told | {"all_would_take_s": round(whole), "best": best}), flush=True)


def judge(engine, sizes, block, files, rounds, draws):
    rows = [{int(key): row for key, row in json.load(open(file)).items() if key.isdigit()} for file in files]
    for tokens in sorted(set.intersection(*map(set, rows))):
        layer = Layer(engine, sizes, block, tokens)
        layer.run(rows[0][tokens])
        default = engine.get_default_config(
            tokens, layer.experts, layer.inner, layer.hidden, layer.topk, "fp8_w8a8" if block else None, block
        )
        drop = lambda row: {key: value for key, value in row.items() if key != "SPLIT_K"}
        configs = [drop(file[tokens]) for file in rows] + [drop(default)]
        # Rows that are equal are one graph.
        different = [config for at, config in enumerate(configs) if config not in configs[:at]]
        # How many blocks a draw fills differs by some percent, as the engine's loop has another one in each of its rounds.
        by_draw = []
        for _ in range(draws):
            layer.gating.normal_()
            routing = layer.routing()
            graphs = [graph_of(layer.products(config, routing)) for config in different]
            times = [[] for _ in graphs]
            for graph in graphs:
                timed(graph)
            for _ in range(rounds):
                order = list(range(len(graphs)))
                random.shuffle(order)
                for at in order:
                    times[at].append(timed(graphs[at]))
            by_draw.append([statistics.median(one) for one in times])
        means = [statistics.mean(one) for one in zip(*by_draw)]
        of = lambda config: different.index(config)
        told = {"tokens": tokens, "us": [round(means[of(config)], 2) for config in configs]}
        # Of the first file's row over the last file's, draw by draw: how far one draw may be off.
        ratios = [one[of(configs[0])] / one[of(configs[-2])] for one in by_draw]
        print(json.dumps(told | {"ratios": [round(ratio, 4) for ratio in ratios]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("package")
    parser.add_argument("--moe", type=numbers, required=True)
    parser.add_argument("--block-shape", type=numbers)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("loop")
    verb.add_argument("--tokens", type=int, default=1)
    verb.add_argument("--seconds", type=float, default=120)
    verb = verbs.add_parser("judge")
    verb.add_argument("files", nargs="+")
    verb.add_argument("--rounds", type=int, default=10)
    verb.add_argument("--draws", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    module = engine(args.package)
    if args.verb == "loop":
        loop(module, args.moe, args.block_shape, args.tokens, args.seconds)
    else:
        judge(module, args.moe, args.block_shape, args.files, args.rounds, args.draws)


if __name__ == "__main__":
    main()
