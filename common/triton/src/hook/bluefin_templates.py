"""Matrix products and convolutions of `torch.compile`: Inductor times what libraries have for one and the configs of its templates, each of
which it writes into a file of its own, and keeps the times. A capture joins such files to one kernel with a list of configs, and compiles
one of these; what was found is given back as times.

Inductor asks for times twice, in `lookup`: for those that it has, to compile nothing if all are there, then for all.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import math
import os
import sys
import threading

import triton
from bluefin_capture import Taken, has_events, write_text
from bluefin_triton import Left, between_events

# Options of AMD's backend, which a template has as constants too.
OPTIONS = ("matrix_instr_nonkdim", "waves_per_eu", "kpack")
# Launches of the config that a capture runs, and of each choice that is timed.
LAUNCHES = 3
TIMED = 30
# What does not run is told to take so many times as long as what does.
FAILED = 1e6


def install(selection, around):
    """Wraps `AlgorithmSelectorCache.lookup` of the module `torch._inductor.select_algorithm`."""
    cache = selection.AlgorithmSelectorCache
    original = cache.lookup
    choosing = (Giving if hasattr(around, "gives") else Capturing)(around)
    # It times behind the back of `lookup`.
    pipelined = getattr(selection, "use_pipelined_autotuning", bool)

    @functools.wraps(original)
    def lookup(self, choices, op, inputs, benchmark=None, hint_override=None):
        hint = {} if hint_override is None else {"hint_override": hint_override}
        asked = Asked(self, list(choices), op, inputs if hint_override is None else f"{inputs}_{hint_override}", benchmark)

        def go_on():
            return original(self, choices, op, inputs, benchmark, **hint)

        return choosing.times(asked, go_on) if asked.templates and not pipelined() else go_on()

    cache.lookup = lookup


class Asked:
    """A question for times."""

    def __init__(self, cache, choices, op, inputs, benchmark):
        import torch

        self.cache, self.choices, self.benchmark = cache, choices, benchmark
        # What Inductor keeps times by.
        self.place = (op, inputs, torch.get_float32_matmul_precision())
        self.templates = [one for one in choices if is_template(one)]
        self.others = [one for one in choices if not is_template(one)]

    def key(self):
        """The place, and what is chosen from there, which may differ."""
        return self.place, *map(described, self.choices)

    def time(self, choices):
        """Milliseconds of each; infinite where one does not run. Each alone, since Inductor gives up at the first that does not compile where
        it did not compile all before."""
        timings = {}
        for choice in choices:
            try:
                timings.update(self.benchmark([choice]))
            except Exception:
                timings[choice] = math.inf
        return timings


def is_template(choice):
    request = getattr(choice, "bmreq", None)
    return hasattr(request, "module_path") and hasattr(request, "num_warps")


def described(choice):
    """A choice by what can be said of it on any device: files are named after what is in them, the number of the device included."""
    return f"{choice.bmreq.kernel_name} {choice.description}" if is_template(choice) else choice.hash_key()


class Capturing:
    def __init__(self, capture):
        self.capture = capture
        self.lock = threading.RLock()
        # By key: families until they were timed, then times; nothing where Inductor is left to itself.
        self.families, self.timed = {}, {}
        # Those that Inductor kept, as of a tuned cache: the program goes on with what wins by them.
        self.kept = {}

    def times(self, asked, go_on):
        key = asked.key()
        with self.lock:
            if key not in self.timed and key not in self.families:
                self.families[key] = self.joined(asked)
            families = self.families.get(key)
            if key not in self.timed and families is None:
                return go_on()
            if asked.benchmark is None:
                kept = go_on()
                if len(kept) == len(asked.choices):
                    self.kept[key] = {described(choice): time for choice, time in kept.items()}
                # So that it compiles nothing before it asks for times.
                return dict.fromkeys(asked.choices, 1.0)
            if key not in self.timed:
                self.timed[key] = self.take(asked, families)
                # With them go the graphs that they are of.
                del self.families[key]
        times = self.kept.get(key) or self.timed[key]
        return {choice: times.get(described(choice), math.inf) for choice in asked.choices}

    def joined(self, asked):
        """The templates as kernels; nothing where one can not be taken."""
        try:
            return families_of(self.capture.autotuner, asked)
        except Exception as error:
            self.leave(asked, error)
            return None

    def leave(self, asked, error):
        request = asked.templates[0].bmreq
        self.capture.leave_at(request.kernel_name, f"{request.module_path}:1", error)

    def take(self, asked, families):
        """Writes the families down. Returns the times of what is no template, and of the first config of each that runs."""
        with timed_without_waiting():
            timings = self.take_timed(asked, families)
        if not any(map(math.isfinite, timings.values())):
            timings = asked.time(asked.choices)
        return {described(choice): time for choice, time in timings.items()}

    def take_timed(self, asked, families):
        timings = asked.time([*asked.others, *[family.choices[0] for family in families]])
        for family in families:
            tried = iter(family.choices[1:])
            while not math.isfinite(timings[family.runs]):
                another = next(tried, None)
                if another is None:
                    break
                timings.update(asked.time([another]))
                family.runs = another
            try:
                if not math.isfinite(timings[family.runs]):
                    raise Left("none of its configs runs")
                family.note_others({one: timings[one] for one in asked.others}, timings[family.runs])
                name, events = family.write(self.capture)
                self.capture.took(name, {"calls": 1, "events": events})
            except Exception as error:
                self.leave(asked, error)
        return timings


class Family:
    """Templates whose files differ in constants alone: one kernel, with these as params."""

    configs_least = 1
    cache_results = False
    user_defined_pre_hook = False
    reset_to_zero = restore_value = keys = ()
    # Why there is nothing beside its configs.
    not_widened = "Inductor takes no config of a template but those of its list"

    def __init__(self, autotuner, asked, members):
        self.key, self.cache = asked.place, asked.cache
        self.choices = [one.choice for one in members]
        self.runs = self.choices[0]
        names = [name for name in members[0].constants if any(one.constants[name] != members[0].constants[name] for one in members)]
        names = [name for name in names if name not in OPTIONS]
        self.configs = [one.config(autotuner, names) for one in members]
        self.fn = members[0].function(names)
        self.base_fn = self.fn.fn
        request = members[0].choice.bmreq
        if getattr(request, "workspace_size", None) or getattr(request, "workspace_arg", None):
            raise Left("it has memory of its own beside its arguments")
        if getattr(request, "num_consumer_groups", 0) or getattr(request, "num_buffers_warp_spec", 0):
            raise Left("its warps have parts of their own")
        self.metas = [*listed(request.input_tensor_meta), *listed(request.output_tensor_meta)]
        self.sizes = list(request.extra_args)[:-3]
        self.arg_names = self.fn.arg_names
        if len(self.metas) + len(self.sizes) + len(names) != len(self.arg_names):
            raise Left("its arguments are others than Inductor says")
        self.reads, self.grids = self.deciding(names, [tuple(one.choice.bmreq.extra_args)[-3:] for one in members])

    def deciding(self, names, grids):
        """The params that the grid depends on, and the grid by their values."""
        def by(chosen):
            found = {}
            for config, grid in zip(self.configs, grids):
                if found.setdefault(tuple(config.kwargs[name] for name in chosen), grid) != grid:
                    return None
            return found

        for name in names:
            fewer = [one for one in names if one != name]
            if by(fewer) is not None:
                names = fewer
        if by(names) is None:
            raise Left("its grid is no matter of its config alone")
        return names, by(names)

    def grid(self, meta):
        return self.grids[tuple(meta[name] for name in self.reads)]

    def note_others(self, times, own):
        """Keeps how long other choices take, beside the config that runs."""
        self.others = {one.hash_key(): time / own if math.isfinite(time) else FAILED for one, time in times.items()}

    def cache_place(self):
        """Where Inductor looks for times, and how it names what it has them of, in the order of the configs."""
        op, inputs, precision = self.key
        template = {
            "op": op,
            "inputs": inputs,
            "precision": precision,
            "hashes": [one.hash_key() for one in self.choices],
            "described": [described(one) for one in self.choices],
            "others": self.others,
        }
        if not hasattr(self.cache, "get_local_cache_path"):
            return {"why": "this PyTorch keeps no times of templates", "template": template}
        folder, file = os.path.split(str(self.cache.get_local_cache_path()))
        template.update(folder=os.path.basename(folder), file=file, system=self.cache.system)
        return {"template": template}

    def write(self, capture):
        """Launches the config that runs, with tensors as Inductor times it with, and writes the kernel down. Returns its name there, and
        events around the launches."""
        with real_tensors(), device_of(self.metas[-1]):
            return self.launch_and_write(capture)

    def launch_and_write(self, capture):
        args = [*[meta.to_tensor() for meta in self.metas], *self.sizes]
        config = self.configs[self.choices.index(self.runs)]
        taken = Taken(capture, self, self.key, args, {"grid": self.grid}, self.configs)
        with capture.inside:
            launch = lambda: self.fn[self.grid](*args, **config.all_kwargs())
            launched, events = launch(), []
            for _ in range(LAUNCHES if has_events() else 0):
                events.append(between_events(launch)[0])
        return taken.write(launched, config), events


class Template:
    """The file of a choice."""

    def __init__(self, choice):
        self.choice = choice
        with open(choice.bmreq.module_path) as file:
            self.tree = ast.parse(file.read())
        functions = [one for one in self.tree.body if isinstance(one, ast.FunctionDef)]
        if len(functions) != 1:
            raise Left(f"its template has {len(functions)} functions")
        self.own = functions[0]
        # Inductor's wrapper of it has its config, and what it knows of the device.
        self.own.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        self.constants = {line.target.id: ast.literal_eval(line.value) for line in self.own.body if is_constant(line)}

    def rest(self):
        """All but the values of constants: the same for a family."""
        lines = [line for line in self.own.body if not is_constant(line)]
        return (*self.constants, ast.dump(self.own.args), *map(ast.dump, lines))

    def config(self, autotuner, names):
        request = self.choice.bmreq
        params = {name: self.constants[name] for name in names}
        # Elsewhere they have values too, which nothing reads.
        if triton.runtime.driver.active.get_current_target().backend == "hip":
            options = {name: getattr(request, name, 0) for name in OPTIONS}
            params.update({name: value for name, value in options.items() if value})
        return autotuner.Config(params, num_warps=request.num_warps, num_stages=request.num_stages)

    def function(self, names):
        """The JIT function that has these constants as arguments, in a file beside Inductor's."""
        self.own.body = [line for line in self.own.body if not (is_constant(line) and line.target.id in (*names, *OPTIONS))]
        constexpr = ast.parse("tl.constexpr", mode="eval").body
        self.own.args.args += [ast.arg(name, annotation=constexpr) for name in names]
        text = ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"
        name = f"bluefin_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        path = os.path.join(os.path.dirname(self.choice.bmreq.module_path), f"{name}.py")
        write_text(path, text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, self.own.name)


def is_constant(line):
    """Whether it is `NAME: tl.constexpr = VALUE`, where the value can be said."""
    if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name) or ast.unparse(line.annotation) != "tl.constexpr":
        return False
    try:
        return isinstance(ast.literal_eval(line.value), (bool, int, str))
    except (TypeError, ValueError):
        return False


def families_of(autotuner, asked):
    found = {}
    for choice in asked.templates:
        template = Template(choice)
        found.setdefault(template.rest(), []).append(template)
    return [Family(autotuner, asked, members) for members in found.values()]


@contextlib.contextmanager
def timed_without_waiting():
    """Has Inductor time by the GPU alone. By its own way a launch of microseconds takes as long as this process takes to launch it, so that a
    library's would seem no faster than a slow config's."""
    inductor = sys.modules.get("torch._inductor.config")
    # Other processes would time in another way than this one.
    if not has_events() or getattr(inductor, "autotune_in_subproc", False):
        yield
        return
    try:
        from torch._inductor.runtime.benchmarking import benchmarker
    except ImportError:
        yield
        return

    own = benchmarker.benchmark_gpu

    def benchmark_gpu(launch, *args, **kwargs):
        import torch

        try:
            return shortest_of(launch)
        except torch.cuda.OutOfMemoryError:
            return own(launch, *args, **kwargs)

    before = benchmarker.__dict__.get("benchmark_gpu")
    benchmarker.benchmark_gpu = benchmark_gpu
    try:
        yield
    finally:
        if before is None:
            del benchmarker.benchmark_gpu
        else:
            benchmarker.benchmark_gpu = before


def shortest_of(launch):
    """Milliseconds of the shortest of some launches that find their inputs in no cache, without what events take themselves."""
    import torch

    launch()
    torch.cuda.synchronize()
    caches = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0) or 64 << 20
    other = torch.empty(2 * caches, dtype=torch.uint8, device="cuda")
    taken, nothing = [], []

    def cold():
        other.zero_()

    for _ in range(TIMED):
        taken.append(between_events(launch, before=cold)[0])
        nothing.append(between_events(lambda: None, before=cold)[0])
    torch.cuda.synchronize()
    own, empty = (min(start.elapsed_time(end) for start, end in around) for around in (taken, nothing))
    return max(own - empty, empty / 10)


@contextlib.contextmanager
def real_tensors():
    """Tensors as the program has them, whose random numbers stay its own: what is compiled meanwhile is traced with others."""
    from torch._dynamo.utils import preserve_rng_state
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), preserve_rng_state():
        yield


def device_of(meta):
    """Has launches go to the device of a tensor."""
    import torch

    return torch.cuda.device(meta.device) if torch.cuda.is_available() else contextlib.nullcontext()


def listed(one):
    return list(one) if isinstance(one, (list, tuple)) else [one]


class Giving:
    def __init__(self, apply):
        self.apply = apply
        # Several kernels may be for one place: choices are made among them.
        self.times_of, self.names = {}, {}
        for row in [row for rows in apply.rows.values() for row in rows if row.get("template")]:
            found = row["template"]
            place = (found["op"], found["inputs"], found["precision"])
            times = self.times_of.setdefault(place, {})
            # A config that lost in one kernel may have won in another.
            times.update({name: min(time, times.get(name, time)) for name, time in found["times"].items()})
            self.names[place] = row["name"]

    def times(self, asked, go_on):
        if not self.apply.gives:
            return go_on()
        told, times = f"{asked.place[0]} {asked.place[1]}", self.times_of.get(asked.place)
        if times is None:
            reason = "it was not tuned"
        elif not self.apply.is_for_this_gpu():
            reason = f"what was found is for {self.apply.target['arch']}"
        elif any(described(choice) not in times for choice in asked.choices):
            reason = "it has choices without a time: new ones, or those of a template of which no config ran"
        else:
            self.apply.given[told] = {"from": self.names[asked.place], "exact": True}
            return {choice: times[described(choice)] for choice in asked.choices}
        self.apply.left[told] = reason
        return go_on()
