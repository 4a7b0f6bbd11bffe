"""Compiles Triton kernels for a compile worker, with Triton alone: no torch, no GPU.

A request is a line of JSON on standard input, its answer a line on what was standard output when this program started. Whatever a
kernel's file prints goes to standard error. Sources lie in the folder `src`, all from one bundle: another bundle gets another process.

Request: {"target": [backend, arch, lanes], "source": file, "defines": {name: text}, "shared": bytes,
          "constants": {name: {"int": 1} or {"float": "0.5"}, {"bool": true}, {"text": ""}, {"tuple": [...]}, {"dtype": "fp16"}, "none"},
          "launches": [{"function": name, "arguments": [{"type": "*fp16", "unit": bool, "divisible": bool, "near": bool}]}],
          "checks": [number of a type of elements that are checked]}
Answer:  {"kernels": [{"file": name, "entry": symbol, "threads": n, "shared": bytes, "scratch": [bytes for each block],
          "arguments": [index, or {"tensor": index, "map": how the hardware reads it, or none where "flags" are taken}]}]}
     or  {"error": text}; before either a byte of zero on standard error, behind all that was said there
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import shutil
import sys
import traceback

import stubs

# Launch options that a spec may set. The others are paths, or say what is compiled for.
OPTIONS = {
    "num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint",
    "enable_fp_fusion", "allow_flush_denorm", "wgp_cu_mode", "maxnreg", "sched4reg", "min_shared_mem",
}


class Refused(Exception):
    """The request can not be met, for the reason that it says."""


def load(name):
    """The module of a file in `src`, run once."""
    stubs.forget()
    try:
        parts = name.removesuffix(".py").split("/")
        if len(parts) > 1 and all(part.isidentifier() for part in parts):
            return importlib.import_module(".".join(parts))
        path = os.path.join("src", name)
        spec = importlib.util.spec_from_file_location("bluefin_kernels", path, loader=stubs.Loader("bluefin_kernels", path))
        module = importlib.util.module_from_spec(spec)
        # What lies beside it can be imported relatively.
        module.__package__ = stubs.PACKAGE
        sys.modules["bluefin_kernels"] = module
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise Refused(f"{name} does not import:\n{said(error)}{stubs.missing()}") from None


def mark(byte):
    """Sets a mark on standard error: what native code says of a kernel stands between a 1 and a 2, that of a request before a 0."""
    # A kernel's file may have closed them, or put others in their place.
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            file.flush()
    with contextlib.suppress(OSError):
        os.write(2, byte)


def said(error):
    """The end of a traceback, without this program's own frames."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    own = [line for line in lines if not any(name in line for name in ("server.py", "stubs.py", "importlib"))]
    return "".join(own)[-8000:].strip()


def function(module, source, name):
    """The kernel of that name, below whatever decorates it."""
    from triton.runtime.jit import JITFunction

    found = getattr(module, name, None)
    while not (found is None or stubs.is_stand_in(found) or isinstance(found, JITFunction)):
        found = getattr(found, "fn", None)
    if not isinstance(found, JITFunction):
        kernels = sorted(n for n, v in vars(module).items() if not stubs.is_stand_in(v) and hasattr(v, "fn"))
        raise Refused(f"{source}: no function {name} with @triton.jit, found {', '.join(kernels) or 'none'}{stubs.missing()}{stubs.omissions()}")
    return found


@contextlib.contextmanager
def named(fn, kernel):
    """The symbol of the first kernel of a name is the name; others have a number behind it."""
    if kernel > 1:
        # Over the method of this name, or what it is in other versions.
        before = fn.__dict__.get("repr")
        fn.repr = lambda _: f"{fn.__name__}__{kernel}"
    try:
        yield
    finally:
        if kernel > 1 and before is None:
            del fn.repr
        elif kernel > 1:
            fn.repr = before


def number(text):
    try:
        return int(text)
    except ValueError:
        return text


def constant(given):
    """A value with its kind."""
    if given == "none":
        return None
    (kind, value), = given.items()
    if kind == "float":
        return float(value)
    if kind == "tuple":
        return tuple(constant(part) for part in value)
    if kind == "dtype":
        import triton.language as tl

        # Triton has names for its types, and modules have others for the same.
        for found in (found for found in vars(tl).values() if isinstance(found, tl.dtype)):
            if value == found.name or value == getattr(found, "__name__", None):
                return found
        found = getattr(tl, value, None)
        if isinstance(found, tl.dtype):
            return found
        names = sorted({found.name for found in vars(tl).values() if isinstance(found, tl.dtype)})
        raise Refused(f"dtype {value}: not a type of this Triton, expected one of {', '.join(names)}")
    return value


def tensor_map(found):
    """What Triton says of a descriptor, as CUDA wants it."""
    # The device counts types in another order than the host.
    element = {8: 10, 9: 8, 10: 9}.get(found["elem_type"], found["elem_type"])
    block = [*found["block_size"]]
    return {
        "element": element,
        "size": found["elem_size"],
        "swizzle": found["swizzle"],
        "padded": bool(found["fp4_padded"]),
        "block": block + [0] * (5 - len(block)),
    }


def options_of(backend_class):
    # Before 3.4 the module of a backend is none of sys.modules.
    names = backend_class.parse_options.__globals__
    classes = [c for c in names.values() if dataclasses.is_dataclass(c) and c.__module__ == backend_class.__module__]
    return {field.name: field.type for c in classes for field in dataclasses.fields(c)}


def version_of(triton):
    """Major and minor version; the newest where it says something else."""
    found = re.match(r"(\d+)\.(\d+)", triton.__version__)
    return tuple(map(int, found.groups())) if found else (sys.maxsize, 0)


def assembler(arch):
    """The bundled assembler for newer GPUs makes code that many drivers refuse: the other one has its place where it knows the GPU."""
    import triton

    older = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "ptxas")
    os.environ.pop("TRITON_PTXAS_BLACKWELL_PATH", None)
    if arch in ("100", "120") and os.path.exists(older):
        os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = older


def linker(triton):
    """Tells Triton before 3.5 of a linker where neither it nor ROCm has one: AMD code is linked by any lld."""
    bundled = os.path.join(os.path.dirname(triton.__file__), "backends", "amd", "llvm", "bin", "ld.lld")
    if any(map(os.path.exists, (bundled, "/opt/rocm/llvm/bin/ld.lld"))):
        return
    names = ["ld.lld", *(f"ld.lld-{version}" for version in range(30, 16, -1))]
    found = next(filter(None, map(shutil.which, names)), None)
    if found:
        os.environ["TRITON_HIP_LLD_PATH"] = found


def silence():
    """Kernels print nothing: what they print with on AMD's GPUs is a service of the host, and takes time."""
    import triton.language
    from triton.compiler.code_generator import CodeGenerator

    @triton.language.core.builtin
    def device_print(prefix, *args, hex=False, _semantic=None, _builder=None, _generator=None):
        return None

    triton.language.core.device_print = triton.language.device_print = device_print
    CodeGenerator.builtin_namespace["print"] = device_print


class Compiler:
    def __init__(self):
        import triton
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        self.compile, self.source_of, self.target_of = triton.compile, ASTSource, GPUTarget
        self.options = {"hip": options_of(backends["amd"].compiler), "cuda": options_of(backends["nvidia"].compiler)}
        self.modules = {}
        silence()
        self.nowhere = open(os.devnull, "w", encoding="utf-8")
        self.version = triton.__version__
        # Numbers behind sizes and strides of a descriptor that the hardware does not know: its padding, and its rounding.
        self.flags = (version_of(triton) >= (3, 5)) + (version_of(triton) >= (3, 7))
        # Addresses that a kernel takes behind its arguments.
        self.scratch = 1 + (version_of(triton) >= (3, 5))

    def module(self, name):
        if name not in self.modules:
            self.modules[name] = load(name)
        return self.modules[name]

    def answer(self, request):
        backend, arch, lanes = request["target"]
        target = self.target_of(backend, int(arch) if backend == "cuda" else arch, lanes)
        assembler(arch)
        if stubs.compile_for(target):
            self.modules.clear()
        module = self.module(request["source"])
        defines = {name: number(text) for name, text in request["defines"].items()}
        defines.update((name, constant(given)) for name, given in request.get("constants", {}).items())
        functions = [function(module, request["source"], launch["function"]) for launch in request["launches"]]
        options = self.chosen(backend, defines, functions)
        kernels, done = [], {}
        for launch, fn in zip(request["launches"], functions):
            key = json.dumps(launch)
            if key not in done:
                # As Triton's JIT has it: a function has a kernel for each set of types and numbers that are compiled in.
                before = sum(name == fn.__name__ for name, _ in done.values())
                with named(fn, before + 1):
                    kernel = self.kernel(target, fn, launch["arguments"], defines, options, f"kernel{len(kernels)}")
                if any(kernel["entry"] == other["entry"] for _, other in done.values()):
                    raise Refused(f"{fn.__name__}: two of its launches are of kernels called {kernel['entry']}, expected one kernel of a name")
                done[key] = (fn.__name__, kernel)
            kernels.append(done[key][1])
        limit = request["shared"]
        for kernel in kernels:
            if kernel["shared"] > limit:
                raise Refused(f"{kernel['entry']}: needs {kernel['shared']} bytes of shared memory, {arch} has {limit}")
        if request["checks"]:
            kernels += self.checks(target, request["checks"])
        return {"kernels": kernels}

    def chosen(self, backend, defines, functions):
        """The launch options among the defines, also those that are constexprs of a function: a launch gives them to both. What is neither one is refused."""
        constexprs = {p.name for fn in functions for p in fn.params if p.is_constexpr}
        options = {}
        for name, value in defines.items():
            if name not in OPTIONS or not any(name in known for known in self.options.values()):
                if name in constexprs:
                    continue
                names = ", ".join(fn.__name__ for fn in functions)
                raise Refused(f"{name}: neither a tl.constexpr of {names} nor a launch option of Triton {self.version}")
            # None is what an option has that is not given.
            if name in self.options[backend] and value is not None:
                options[name] = bool(value) if self.options[backend][name] is bool else value
        return options

    def kernel(self, target, fn, arguments, defines, options, file):
        """Compiles a function and writes its code object into `file`."""
        signature, constexprs, attrs, kept = {}, {}, {}, []
        given = iter(enumerate(arguments))
        for index, param in enumerate(fn.params):
            if param.is_constexpr:
                signature[param.name] = "constexpr"
                if param.name in defines:
                    constexprs[param.name] = defines[param.name]
                elif param.has_default:
                    constexprs[param.name] = param.default
                else:
                    raise Refused(f"{fn.__name__}: the tl.constexpr {param.name} has no value: no param, no define, no default")
                continue
            at, argument = next(given, (None, None))
            if argument is None:
                expected = sum(not p.is_constexpr for p in fn.params)
                raise Refused(f"{fn.__name__}: found {len(arguments)} arguments, expected {expected}: {param.name} has none")
            free = not param.do_not_specialize
            if argument["type"] == "none":
                signature[param.name] = "constexpr"
                constexprs[param.name] = None
                continue
            if argument["unit"] and free:
                signature[param.name] = "constexpr"
                constexprs[param.name] = 1
                continue
            signature[param.name] = argument["type"]
            kept.append(at)
            known = []
            if argument["divisible"] and free and not param.do_not_specialize_on_alignment:
                known.append(["tt.divisibility", 16])
            if argument["near"] and target.backend == "hip":
                known.append(["tt.pointer_range", 32])
            if known:
                attrs[(index,)] = known
        if next(given, None) is not None:
            raise Refused(f"{fn.__name__}: found {len(arguments)} arguments, expected {sum(not p.is_constexpr for p in fn.params)}")
        stubs.forget()
        try:
            source = self.source_of(fn, signature, constexprs, attrs)
            mark(b"\1\n")
            # What is printed while it is compiled (`tl.static_print`) is Python's, and says nothing of an error.
            with contextlib.redirect_stdout(self.nowhere), contextlib.redirect_stderr(self.nowhere):
                compiled = self.compile(source, target=target, options=options)
            mark(b"\2\n")
        except (MemoryError, OSError):
            # Perhaps the machine's doing: this process ends over it, and says why.
            raise
        except Exception as error:
            raise Refused(said(error) + stubs.blame(fn)) from None
        metadata = compiled.metadata
        if metadata.num_ctas != 1:
            raise Refused(f"{fn.__name__}: found num_ctas {metadata.num_ctas}, expected 1: clusters are not launched")
        with open(file, "wb") as out:
            out.write(compiled.kernel)
        return {
            "file": file,
            "entry": metadata.name,
            "threads": metadata.num_warps * target.warp_size,
            "shared": metadata.shared,
            "arguments": self.taken(kept, signature, metadata, target),
            "scratch": [getattr(metadata, name, 0) or 0 for name in ("global_scratch_size", "profile_scratch_size")[:self.scratch]],
        }

    def taken(self, kept, signature, metadata, target):
        """The arguments of a kernel: those of a launch, by index, and what it takes for tensor descriptors."""
        types = [named for named in signature.values() if named != "constexpr"]
        maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
        taken = []
        for at, named in zip(kept, types):
            if not named.startswith("tensordesc"):
                taken.append(at)
                continue
            found = next(maps, None)
            if found is None:
                taken.append({"tensor": at, "flags": self.flags})
            elif target.backend == "cuda" and not found.get("is_im2col"):
                taken.append({"tensor": at, "map": tensor_map(found)})
            else:
                raise Refused("found a tensor descriptor that is none of tiles of CUDA's, expected no other")
        return taken

    def checks(self, target, types):
        """The entries by which an eval worker checks elements of these types on the device."""
        module = self.module("bluefin_check.py")
        pointer, i32, i64, f64 = "*i8", "i32", "i64", "fp64"
        report = "*i64"
        entries = {
            "bluefin_fill": ["*i32", i64, i32, i32, i64],
            "bluefin_copy": [pointer, pointer, i64, i64],
            "bluefin_same": [pointer, pointer, i64, report, i64],
            "bluefin_close": [pointer, pointer, i64, i32, f64, f64, report, i64],
            "bluefin_random": [pointer, i64, i32, i64, i64],
            "bluefin_range": [pointer, i64, i32, i64, f64, f64, i64],
        }
        options = {"num_warps": 256 // target.warp_size}
        kernels = []
        defines = {"TYPES": sum(1 << number for number in types)}
        for name, signature in entries.items():
            arguments = [{"type": t, "unit": False, "divisible": False, "near": False} for t in signature]
            fn = function(module, "bluefin_check.py", name)
            kernels.append(self.kernel(target, fn, arguments, defines, options, name))
        return kernels


def main():
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(answer):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()

    import triton

    if version_of(triton) < (3, 3):
        sys.exit(f"found Triton {triton.__version__}, expected 3.3 or later")
    if version_of(triton) < (3, 5):
        linker(triton)
    compiler = Compiler()
    # By which Triton's cache knows its compiler: a digest of all of its files, most of a second. Here that cache is empty for each kernel.
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        if hasattr(sys.modules.get(name), "triton_key"):
            sys.modules[name].triton_key = lambda: "bluefin"
    send({"triton": compiler.version, "python": "%d.%d" % sys.version_info[:2],
          "folders": [sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(triton.__file__))]})
    sys.path.insert(0, "src")
    stubs.install()
    for line in sys.stdin:
        try:
            answer = compiler.answer(json.loads(line))
        except Refused as error:
            answer = {"error": str(error)}
        mark(b"\0")
        send(answer)
        # What Triton keeps of it is of no more use.
        shutil.rmtree("cache", ignore_errors=True)


main()
