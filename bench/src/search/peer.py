"""Searches recorded spaces with the strategies of Kernel Tuner, in its simulation mode.

Reads {"budget", "seeds", "strategies", "spaces": [{"params": [name...], "points": [[values, ms or null]...]}]} on standard input; writes a line of
JSON for each search: [space, strategy, [ms or null of each evaluation, in order]], and one with the version first."""

import contextlib
import importlib.metadata
import io
import json
import os
import sys
import tempfile

import kernel_tuner


def cached(space, folder):
    """A cache file as Kernel Tuner writes it."""
    names = space["params"]
    values = [sorted({point[at] for point, _ in space["points"]}) for at in range(len(names))]
    entries = {}
    for point, ms in space["points"]:
        time = "InvalidConfig" if ms is None else ms
        took = {"time": time, "times": [time], "compile_time": 0.0, "verification_time": 0.0, "benchmark_time": 0.0}
        took.update({"strategy_time": 0.0, "framework_time": 0.0, "timestamp": "2026-01-01 00:00:00+00:00"})
        entries[",".join(str(value) for value in point)] = {**dict(zip(names, point)), **took}
    params = dict(zip(names, values))
    content = {
        "device_name": "recorded", "kernel_name": "recorded", "problem_size": 1, "tune_params_keys": names,
        "tune_params": params, "objective": "time", "cache": entries,
    }
    path = os.path.join(folder, "cache.json")
    with open(path, "w") as file:
        json.dump(content, file)
    return path, params


def search(space, path, params, strategy, seed, budget):
    names = space["params"]
    points = {tuple(point) for point, _ in space["points"]}

    def recorded(params):
        return tuple(params[name] for name in names) in points

    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "recorded", "", 1, [], dict(params), restrictions=recorded,
            cache=path, simulation_mode=True, strategy=strategy, strategy_options={"max_fevals": budget}, seed=seed,
            lang="C", quiet=True, verify=None, iterations=1,
        )
    seen, times = set(), []
    for result in results:
        point = tuple(result[name] for name in names)
        if point not in seen:
            seen.add(point)
            times.append(result["time"] if isinstance(result["time"], (int, float)) else None)
    return times[:budget]


def main():
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    # What it and its libraries print is no answer.
    os.dup2(2, 1)
    print(json.dumps(importlib.metadata.version("kernel_tuner")), file=out, flush=True)
    for at, space in enumerate(asked["spaces"]):
        with tempfile.TemporaryDirectory() as folder:
            path, params = cached(space, folder)
            for strategy in asked["strategies"]:
                for seed in range(asked["seeds"]):
                    times = search(space, path, params, strategy, seed, asked["budget"])
                    print(json.dumps([at, strategy, times]), file=out, flush=True)


main()
