"""Stands in for what a kernel's file imports and is not here: modules that its host code needs, torch above all.

A kernel is compiled without its host code, which still runs as far as importing the file takes: it reads attributes, calls, decorates,
subclasses and annotates. All of that gives another stand-in. What asks which GPU there is gets the one that is compiled for. Where
something is stood in for, a statement of a file that fails is left out: programs launch their kernels while they are imported.
"""

import __future__
import abc
import ast
import importlib.abc
import importlib.machinery
import os
import sys
import types

SOURCES = os.path.abspath("src") + os.sep
# The package of sources that are in no folder, for their relative imports.
PACKAGE = "bluefin_src"

# Where each module was asked for first: file and line of the sources.
wanted = {}
# Names of what was touched since `forget`.
touched = []
# Statements that were left out: file, line and error.
left_out = []
target = None


def forget():
    touched.clear()


def root_of(name):
    return name.removeprefix(PACKAGE + ".").split(".")[0]


def place_of(name):
    """`torch, which is not installed here: matmul.py line 3 asks for it`."""
    name = name.removeprefix(PACKAGE + ".")
    parts = name.split(".")
    known = next((n for n in (".".join(parts[:i]) for i in range(len(parts), 0, -1)) if n in wanted), parts[0])
    file, line = wanted.get(known, ("", 0))
    where = f": {file} line {line} asks for it" if file else ""
    return f"{name}, of {known}, which is not installed here and not among the includes{where}"


def asker():
    """File and line of the innermost code of the sources; None where somebody else imports, or only asks whether it could."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        path = os.path.abspath(name)
        if path.startswith(SOURCES):
            return path[len(SOURCES):], frame.f_lineno
        own = name == __file__ or path == os.path.abspath(__file__) or name.startswith("<frozen importlib")
        if name.endswith(os.path.join("importlib", "util.py")) or not (own or name.endswith(os.path.join("importlib", "__init__.py"))):
            return None
        frame = frame.f_back
    return None


class Meta(abc.ABCMeta):
    """Of classes below a stand-in: what they do not have is one."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{cls.__name__}.{name}")


class Base(metaclass=Meta):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{type(self).__name__}.{name}")


class Stub:
    """A stand-in for a value of a module that is not here."""

    def __init__(self, name):
        self.__dict__["_bluefin_name"] = name

    def __repr__(self):
        return place_of(self._bluefin_name)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return value_of(f"{self._bluefin_name}.{name}")

    def __setattr__(self, name, value):
        self.__dict__[name] = value

    def __call__(self, *args, **kwargs):
        touched.append(self._bluefin_name)
        # A decorator leaves what it decorates as it is.
        if len(args) == 1 and not kwargs and (isinstance(args[0], (types.FunctionType, type, staticmethod, classmethod)) or hasattr(args[0], "fn")):
            return args[0]
        return Stub(f"{self._bluefin_name}()")

    def __getitem__(self, key):
        return self

    def __mro_entries__(self, bases):
        return (Base,)

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, other):
        return False

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __bool__(self):
        return True

    def __contains__(self, item):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __hash__(self):
        return id(self)

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other

    # A version is taken for a new one.
    def __lt__(self, other):
        return False

    __le__ = __lt__

    def __gt__(self, other):
        return True

    __ge__ = __gt__


def same(self, *others):
    return self


for operation in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"):
    setattr(Stub, f"__{operation}__", same)
    setattr(Stub, f"__r{operation}__", same)
for operation in ("neg", "pos", "abs", "invert"):
    setattr(Stub, f"__{operation}__", same)


class Properties:
    """What a GPU says of itself, as far as it shapes code."""

    def __init__(self):
        nvidia = target.backend == "cuda"
        self.name = f"sm_{target.arch}" if nvidia else str(target.arch)
        self.gcnArchName = str(target.arch)
        self.major, self.minor = capability()
        self.warp_size = target.warp_size
        self.multi_processor_count = 132 if nvidia else 104
        self.total_memory = 64 << 30
        self.shared_memory_per_block = 48 << 10 if nvidia else 64 << 10
        self.shared_memory_per_block_optin = 227 << 10 if nvidia else 64 << 10
        self.shared_memory_per_multiprocessor = 228 << 10 if nvidia else 64 << 10
        self.L2_cache_size = 50 << 20 if nvidia else 8 << 20
        self.max_threads_per_multi_processor = 2048
        self.regs_per_multiprocessor = 65536

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"torch.cuda.get_device_properties().{name}")


def capability():
    if target.backend == "cuda":
        return divmod(int(target.arch), 10)
    digits = "".join(c for c in str(target.arch) if c in "0123456789abcdef").removeprefix("f")
    return int(digits[:-2] or 9), int(digits[-2], 16) if len(digits) > 2 else 0


def always(value):
    return lambda *args, **kwargs: value() if callable(value) else value


# What is known of the modules that are asked most, by name.
KNOWN = {
    "torch.__version__": lambda: "2.9.0",
    "torch.version.cuda": lambda: "12.8" if target.backend == "cuda" else None,
    "torch.version.hip": lambda: "6.4.0" if target.backend == "hip" else None,
    "torch.cuda.is_available": lambda: always(True),
    "torch.cuda.is_bf16_supported": lambda: always(True),
    "torch.cuda.device_count": lambda: always(1),
    "torch.cuda.current_device": lambda: always(0),
    "torch.cuda.get_device_capability": lambda: always(capability),
    "torch.cuda.get_device_name": lambda: always(lambda: Properties().name),
    "torch.cuda.get_device_properties": lambda: always(Properties),
    "torch.xpu.is_available": lambda: always(False),
    "torch.mps.is_available": lambda: always(False),
    "torch.backends.mps.is_available": lambda: always(False),
    "torch.npu.is_available": lambda: always(False),
    "torch.is_grad_enabled": lambda: always(False),
    "torch.distributed.is_available": lambda: always(False),
    "torch.compiler.is_compiling": lambda: always(False),
}


def value_of(name):
    touched.append(name)
    known = KNOWN.get(name)
    return Stub(name) if known is None or target is None else known()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last one: of what nobody else finds, for the sources alone."""

    def find_spec(self, name, path, of=None):
        root = root_of(name)
        if root == "triton" or root in sys.stdlib_module_names:
            return None
        place = asker()
        if place is None:
            return None
        wanted.setdefault(name.removeprefix(PACKAGE + "."), place)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        name = spec.name

        def attribute(attribute):
            full = f"{name}.{attribute}"
            if attribute.startswith("__") and full not in KNOWN:
                raise AttributeError(attribute)
            return value_of(full)

        module.__getattr__ = attribute
        return module

    def exec_module(self, module):
        pass


class Loader(importlib.machinery.SourceFileLoader):
    """Runs a file of the sources statement by statement."""

    def exec_module(self, module):
        text = self.get_data(self.path).decode()
        tree = ast.parse(text, self.path)
        flags = 0
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                for name in statement.names:
                    flags |= getattr(__future__, name.name).compiler_flag
            code = compile(ast.Module([statement], []), self.path, "exec", flags, True)
            try:
                exec(code, module.__dict__)
            except (Exception, SystemExit) as error:
                if not wanted:
                    raise
                file = os.path.abspath(self.path).removeprefix(SOURCES)
                left_out.append((file, statement.lineno, f"{type(error).__name__}: {error}"[:200]))


class Sources(importlib.abc.MetaPathFinder):
    """The first finder: what lies among the sources is loaded as that is."""

    def find_spec(self, name, path, of=None):
        if path is not None and not any(os.path.abspath(part).startswith(SOURCES.rstrip(os.sep)) for part in path):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path if path is not None else [SOURCES.rstrip(os.sep)])
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(name, spec.loader.path)
            return spec
        return None


class Driver:
    """Stands in for the driver of the GPU that is compiled for."""

    def get_current_target(self):
        return target

    def get_current_device(self):
        return 0

    def get_device_capability(self, *args):
        return capability()

    @property
    def utils(self):
        return self

    def get_device_properties(self, *args):
        known = Properties()
        return {
            "max_shared_mem": known.shared_memory_per_block_optin,
            "max_num_regs": known.regs_per_multiprocessor,
            "multiprocessor_count": known.multi_processor_count,
            "warpSize": known.warp_size,
            "sm_clock_rate": 1_500_000,
            "mem_clock_rate": 1_500_000,
            "mem_bus_width": 5120,
        }

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"triton.runtime.driver.active.{name}")


def install():
    package = types.ModuleType(PACKAGE)
    package.__path__ = [SOURCES.rstrip(os.sep)]
    sys.modules[PACKAGE] = package
    sys.meta_path.insert(0, Sources())
    sys.meta_path.append(Finder())


def compile_for(new):
    """From here on `new` is the GPU that there is; what was imported for another one is forgotten. Whether anything was."""
    global target
    if target == new:
        return False
    target = new
    from triton.runtime import driver

    driver.set_active(Driver())
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if is_stand_in(module) or path is not None and os.path.abspath(path).startswith(SOURCES) and not name.startswith("bluefin_check"):
            del sys.modules[name]
    wanted.clear()
    left_out.clear()
    return True


def is_stand_in(value):
    """Whether a value, or a module, stands in for one that is not here."""
    return isinstance(value, Stub) or isinstance(getattr(getattr(value, "__spec__", None), "loader", None), Finder)


def missing():
    """The modules that are stood in for, a line each."""
    return "".join(f"\n{file} line {line} asks for {module}, which is not installed here and not among the includes"
                   for module, (file, line) in sorted(wanted.items()))


def omissions():
    """The statements that were left out, a line each: what a kernel lacks may be what they would have made."""
    return "".join(f"\n{file} line {line} was left out: {error}" for file, line, error in left_out[:8])


def blame(fn):
    """What a function uses that is not here, a line each."""
    names = {name.split("()")[0] for name in touched}
    seen, open_functions = set(), [fn]
    while open_functions:
        at = open_functions.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        code = getattr(getattr(at, "fn", None), "__code__", None)
        if code is None:
            continue
        space = at.fn.__globals__
        for name in code.co_names:
            value = space.get(name)
            if isinstance(value, Stub):
                names.add(value._bluefin_name)
            elif hasattr(value, "fn"):
                open_functions.append(value)
    return "".join(f"\n{place_of(name)}" for name in sorted(names)) + omissions()
