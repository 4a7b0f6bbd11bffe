#!/usr/bin/env python3
"""Runs every candidate of a folder once on the NVIDIA GPU of this machine: alone, then under compute-sanitizer's tools.

    python3 tests/gpu/check_kernels.py FOLDER [--filter TEXT] [--tools memcheck,racecheck] [--limit SECONDS]

FOLDER is what `cargo run --example emit_kernels -- FOLDER sm_90-132 shapes` writes. A candidate fails if it did not compile,
the driver refuses it, its output is not the reference's, it does not end in time (its process is killed, and the others go
on), or a tool has something to say. Needs the driver and CUDA's compute-sanitizer, nothing else. Prints what failed and a
summary; exits 1 if anything failed, 2 on wrong usage.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from libcuda import Driver, Module, launcher

# BF16 is the upper half of FP32.
FORMATS = {"FP16": "e", "FP32": "f", "BF16": "H"}
TOOLS = {
    # Reads and writes beyond an allocation meet the padding, not the next one.
    "memcheck": ["--padding", "4096"],
    "racecheck": [],
    "initcheck": [],
    "synccheck": [],
}
REFERENCE, ALONE = "reference", "alone"
# Candidates of one process: what one of them does to its process costs the others little, starting one is shared.
BATCH = 8
# Until a process says which candidate it begins with: Python, the driver and the tool start, inputs are made.
START_SECONDS = 120


class Case:
    """A candidate on a problem."""

    def __init__(self, problem, index, number):
        self.problem, self.index, self.number = problem, index, number
        self.candidate = problem["cases"][index]["candidate"]

    def __str__(self):
        return f"{self.problem['problem']}: {self.candidate}"


def cases_of(folder):
    """All candidates; the first one of each problem is its reference."""
    cases = []
    for problem in json.loads((folder / "cases.json").read_text()):
        for index in range(len(problem["cases"])):
            cases.append(Case(problem, index, len(cases)))
    return cases


# ---- A process that runs candidates. It says "@begin NUMBER", then "@end NUMBER WHAT", WHAT being empty if all is well.


def packed(buffer, seed):
    """Uniform in [-1, 1], the same in every process."""
    values = random.Random(seed)
    numbers = [values.uniform(-1, 1) for _ in range(buffer["length"])]
    if buffer["type"] == "BF16":
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{FORMATS[buffer['type']]}", *numbers)


def unpacked(data, element):
    """The numbers of an array of that type."""
    if element == "BF16":
        return (struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2))
    return (number for (number,) in struct.iter_unpack("<" + FORMATS[element], data))


def far(got, want, element, tolerance):
    """How far the worst element is from the reference, in units of what is allowed; NaN counts as infinitely far."""
    worst = 0.0
    for got, want in zip(unpacked(got, element), unpacked(want, element)):
        off = abs(got - want) / (tolerance["absolute"] + tolerance["relative"] * abs(want))
        worst = math.inf if math.isnan(off) else max(worst, off)
    return worst


class Bench:
    """A problem's inputs on the device. What the reference made is in a file, for all processes."""

    def __init__(self, driver, folder, problem, wanted, tool):
        self.driver, self.folder, self.problem, self.wanted, self.tool = driver, folder, problem, wanted, tool
        self.out = next(i for i, buffer in enumerate(problem["buffers"]) if buffer["role"] == "output")
        self.element = problem["buffers"][self.out]["type"]
        self.buffers = []
        for index, buffer in enumerate(problem["buffers"]):
            self.buffers.append(0)
            if index != self.out:
                data = packed(buffer, index)
                self.buffers[index] = driver.allocate(len(data))
                driver.write(self.buffers[index], data)

    def run(self, case):
        """What is wrong with the candidate; empty if nothing is."""
        of = self.problem["cases"][case.index]
        size = struct.calcsize(FORMATS[self.element]) * self.problem["buffers"][self.out]["length"]
        space = max(of["workspace"], 1)
        module = Module(self.driver, self.folder / of["file"])
        out, workspace = self.driver.allocate(size), self.driver.allocate(space)
        # Its bytes make NaNs, of either type. What is filled counts as written, which is for initcheck to find out; but
        # that one does not see the maps that are written to the workspace by tensormap.cp_fenceproxy.
        if self.tool != "initcheck":
            self.driver.fill(out, 0xFF, size)
        if self.tool != "initcheck" or "TensorCopy" in case.candidate:
            self.driver.fill(workspace, 0xFF, space)
        buffers = [*self.buffers[: self.out], out, *self.buffers[self.out + 1 :]]
        run, _ = launcher(self.driver, module, of, buffers, workspace)
        run()
        self.driver("cuCtxSynchronize")
        got = self.driver.read(out, size)
        for address in (out, workspace):
            self.driver.free(address)
        module.unload()
        if self.tool == REFERENCE:
            self.wanted.write_bytes(got)
        off = far(got, self.wanted.read_bytes(), self.element, self.problem["tolerance"])
        return f"wrong: {off:.3g} of what is allowed" if off > 1 else ""


def serve(folder, tool, wanted, numbers):
    """Runs candidates until one takes the process's context with it."""
    cases, driver, benches = cases_of(folder), Driver(), {}
    for number in numbers:
        case = cases[number]
        key = case.number - case.index
        if key not in benches:
            benches[key] = Bench(driver, folder, case.problem, wanted / str(key), tool)
        print(f"@begin {number}", flush=True)
        try:
            said = benches[key].run(case)
        except RuntimeError as error:
            said = " ".join(str(error).split())
        print(f"@end {number} {said}", flush=True)
        try:
            driver("cuCtxSynchronize")
        except RuntimeError:
            return 1
    return 0


# ---- The process that starts them.


class Ran:
    """What came of a batch: what was said of each candidate that ended, which one did not, what the tool said."""

    def __init__(self):
        self.said, self.begun, self.late, self.code, self.lines = {}, None, False, None, []

    def complaint(self):
        """What the tool found; empty if nothing."""
        found = [line.lstrip("= ").strip() for line in self.lines if line.startswith("=========")]
        summaries = [int(n) for line in found for n in re.findall(r"SUMMARY: (\d+)", line)]
        if summaries and not any(summaries) and self.code == 0:
            return ""
        words = [line for line in found if re.search("error|hazard|invalid|uninit|barrier|divergent", line, re.IGNORECASE)]
        return "; ".join(words[:3]) or f"the tool ended with {self.code} and no summary: {' '.join(self.lines[-3:])}"


class Checker:
    def __init__(self, options, wanted):
        self.options, self.wanted, self.failed = options, wanted, []

    def command(self, tool, numbers):
        own = [sys.executable, os.path.abspath(__file__), str(self.options.folder), "--serve", tool]
        own += ["--wanted", str(self.wanted), "--numbers", ",".join(map(str, numbers))]
        if tool in TOOLS:
            return [self.options.sanitizer, "--tool", tool, *TOOLS[tool], "--error-exitcode", "99", *own]
        return own

    def batch(self, tool, cases):
        """Runs candidates in one process, until it ends or one of them takes too long."""
        limit = self.options.limit if tool not in TOOLS else self.options.tool_limit
        ran, lines = Ran(), queue.Queue()
        child = subprocess.Popen(self.command(tool, [case.number for case in cases]), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)

        def listen():
            for line in child.stdout:
                lines.put(line.rstrip("\n"))
            lines.put(None)

        threading.Thread(target=listen, daemon=True).start()
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                line = lines.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                ran.late = True
                break
            if line is None:
                break
            word, *rest = line.split(" ", 2)
            if word == "@begin":
                ran.begun = int(rest[0])
                end = time.monotonic() + limit
            elif word == "@end":
                ran.said[int(rest[0])], ran.begun = rest[1] if len(rest) > 1 else "", None
                end = time.monotonic() + limit
            else:
                ran.lines.append(line)
        if ran.late:
            os.killpg(child.pid, signal.SIGKILL)
        ran.code = child.wait()
        return ran

    def fail(self, tool, case, why):
        self.failed.append((tool, case, why))
        print(f"FAILED {tool}: {case}: {why}", flush=True)

    def settle(self, tool, cases):
        """Runs a batch, again without each one that ends its process; returns the ones that took too long."""
        slow = []
        while cases:
            ran = self.batch(tool, cases)
            culprit = next((case for case in cases if case.number == ran.begun), None)
            ended = [case for case in cases if case.number in ran.said]
            wrong = [case for case in ended if ran.said[case.number]]
            whole = len(ended) == len(cases) and not ran.late
            if culprit is None and not ended:
                words = "did not start in time" if ran.late else f"ended with {ran.code}"
                for case in cases:
                    self.fail(tool, case, f"its process {words}: {' '.join(ran.lines[-3:])}")
                return slow
            if tool not in TOOLS or (whole and not ran.complaint()):
                for case in wrong:
                    self.fail(tool, case, ran.said[case.number])
                if culprit is not None and ran.late:
                    slow.append(culprit)
                elif culprit is not None:
                    self.fail(tool, culprit, f"its process ended with {ran.code}: {' '.join(ran.lines[-3:])}")
                cases = [case for case in cases if case is not culprit and case not in ended]
            elif len(cases) == 1:
                if ran.late:
                    slow.append(cases[0])
                else:
                    said = ran.said.get(cases[0].number, "")
                    self.fail(tool, cases[0], "; ".join(filter(None, [said, ran.complaint()])))
                return slow
            elif culprit is not None and ran.late:
                # What the tool would have said of the others went with the process.
                slow.append(culprit)
                cases = [case for case in cases if case is not culprit]
            else:
                # The tool names no candidates: each gets a process of its own.
                for case in cases:
                    slow += self.settle(tool, [case])
                return slow
        return slow

    def refused(self, cases):
        """What did not compile is nothing to run, but a failure."""
        for problem in {id(case.problem): case.problem for case in cases}.values():
            for refused in problem.get("refused", []):
                name = f"{problem['problem']}: {refused['candidate']}"
                if self.options.filter in name:
                    self.fail("compile", name, refused["detail"].strip()[:300])

    def check(self, tool, cases):
        """Runs candidates, several processes at a time; the late ones again with nothing beside them."""
        begun, before = time.monotonic(), len(self.failed)
        jobs = 1 if tool == REFERENCE else self.options.jobs
        batches = [cases[at : at + BATCH] for at in range(0, len(cases), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            slow = [case for late in pool.map(lambda batch: self.settle(tool, batch), batches) for case in late]
        limit = self.options.limit if tool not in TOOLS else self.options.tool_limit
        for case in slow:
            if self.settle(tool, [case]):
                self.fail(tool, case, f"hangs: not done after {limit:g} s, twice")
        failed = len(self.failed) - before
        print(f"{tool}: {len(cases)} candidates, {failed} failed, {time.monotonic() - begun:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--filter", default="", help="only candidates whose text contains this")
    parser.add_argument("--tools", default=",".join(TOOLS), help="of compute-sanitizer; '' for none (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=10, help="seconds for a candidate alone (default: %(default)s)")
    parser.add_argument("--tool-limit", type=float, default=60, help="and under a tool (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=6, help="processes at a time (default: %(default)s)")
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="the program (default: %(default)s)")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--wanted", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.folder, options.serve, options.wanted, map(int, options.numbers.split(",")))

    tools = [tool for tool in options.tools.split(",") if tool]
    for tool in tools:
        if tool not in TOOLS:
            parser.error(f"--tools: found {tool!r}, expected {', '.join(TOOLS)}")
    if tools and shutil.which(options.sanitizer) is None:
        parser.error(f"--sanitizer: no program {options.sanitizer!r}; --tools '' runs without one")
    try:
        cases = cases_of(options.folder)
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"{options.folder}: {error}")
    with tempfile.TemporaryDirectory(prefix="bluefin-check-") as wanted:
        checker = Checker(options, pathlib.Path(wanted))
        checker.check(REFERENCE, [case for case in cases if case.index == 0])
        if checker.failed:
            print("there is nothing to compare with")
            return 1
        checker.refused(cases)
        for tool in [ALONE, *tools]:
            # What failed once is not run again.
            bad = {case.number for _, case, _ in checker.failed if isinstance(case, Case)}
            left = [case for case in cases if options.filter in str(case) and case.number not in bad]
            checker.check(tool, left)
    print(f"{len(checker.failed)} failures" if checker.failed else "all is well")
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
