"""The source of a JIT function with all that it uses, as files that import nothing but Triton and each other.

Each module that has some of it becomes a file, with the names that are used there alone. What a file needs of another is imported at its
end: Triton looks names up when it compiles.
"""

import ast
import contextlib
import enum
import hashlib
import inspect
import math
import os
import re
import sys
import textwrap
import types

import bluefin_around
from bluefin_triton import Left

ALLOWED = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"


class File:
    """What of a module is needed: names with the objects that they stand for, and the text of each."""

    def __init__(self, name):
        self.name = name
        self.heads, self.bodies, self.ends = {}, [], []
        self.objects = {}


class HostFunction:
    """A function that Python itself runs while a kernel is compiled: a plain one, or `tl.constexpr` of one."""

    def __init__(self, fn, decorator):
        self.fn, self.__name__, self.decorator = fn, fn.__name__, decorator


class Sources:
    def __init__(self, function):
        self.files, self.places, self.host = {}, {}, {}
        self.function = function
        self.entry = self.add(function)[0].name + ".py"
        self.around = {}

    def texts(self):
        return {**{f"{name}.py": text(file) for name, file in self.files.items()}, **self.around}

    def put_around(self, around):
        """Puts a function around the one that it is about."""
        places = {name: self.add(function) for name, function in around.uses.items()}
        file, name = self.add(self.function)
        places = {alias: (file.name, own) for alias, (file, own) in places.items()}
        self.entry = f"{bluefin_around.FILE}.py"
        self.around = {self.entry: around.text((file.name, name), places)}

    def digest(self):
        return hashlib.sha256(repr(sorted(self.texts().items())).encode()).hexdigest()

    def add(self, function):
        """The file that has a JIT or constexpr function, and its name there."""
        known = self.places.get(id(function))
        if known is not None:
            return known[:2]
        name = function.__name__
        scope = captured(function.fn)
        used = {one: self.stood_for(scope[one], function) for one in names(source(function)) if one in scope and one != name}
        if scope.get(name) is function:
            used[name] = function
        file = self.file(function.fn.__module__, {**used, name: function})
        # The object is kept, so that its id stays its own.
        self.places[id(function)] = (file, name, function)
        file.objects[name] = function
        file.bodies.append(source(function))
        for one, value in used.items():
            if value is not function:
                self.bind(file, one, value)
        return file, name

    def stood_for(self, value, user=None):
        """What a name stands for that a function uses, with one object for each plain function. Kernels can call none but `tl.constexpr` of one."""
        import triton.language as tl

        is_constexpr = isinstance(value, tl.constexpr)
        plain = value.value if is_constexpr else value
        is_called = is_constexpr or isinstance(user, HostFunction) or type(user).__name__ == "ConstexprFunction"
        if not is_called or not isinstance(plain, types.FunctionType) or (plain.__module__ or "").startswith("triton."):
            return value
        decorator = "@tl.constexpr\n" if is_constexpr else ""
        return self.host.setdefault((plain, is_constexpr), HostFunction(plain, decorator))

    def file(self, module, needed):
        """A file of the module in which these names stand for nothing else yet."""
        stem = "k_" + re.sub(r"\W", "_", module or "kernels")
        count = 1
        while True:
            name = stem if count == 1 else f"{stem}_{count}"
            file = self.files.setdefault(name, File(name))
            if all(one not in file.objects or same(file.objects[one], value) for one, value in needed.items()):
                return file
            count += 1

    def bind(self, file, name, value):
        """Has `name` stand for `value` in the file."""
        if isinstance(value, types.ModuleType) and not is_shared(value):
            # Each function may use other parts of it.
            file.objects[name] = value
            file.heads[name] = f"import types\n{name} = types.ModuleType({name!r})"
            self.fill_module(file, name, value)
            return
        if name in file.objects:
            return
        file.objects[name] = value
        place, own = self.place(value)
        if place is not None:
            if place is not file or own != name:
                line = f"{name} = {own}" if place is file else f"from {place.name} import {own} as {name}"
                file.ends.append(line)
            return
        file.heads[name] = head(name, value)

    def place(self, value):
        """Where a function of Triton's kind is, whatever decorates it; of anything else nothing."""
        from triton.runtime.jit import JITFunction

        one = value
        while not isinstance(one, JITFunction) and type(one).__name__ in ("Autotuner", "Heuristics"):
            one = one.fn
        if isinstance(one, (JITFunction, HostFunction)) or type(one).__name__ == "ConstexprFunction":
            # Triton's own come with it.
            if (one.fn.__module__ or "").startswith("triton."):
                return None, None
            return self.add(one)
        return None, None

    def fill_module(self, file, path, module):
        """Gives a module of the program's, at this path in the file, what of it the file's functions use."""
        for attribute in sorted({two for text in file.bodies for one, two in attributes(text) if one == path}):
            if not hasattr(module, attribute):
                continue
            value, whole = self.stood_for(getattr(module, attribute)), f"{path}.{attribute}"
            place, own = self.place(value)
            if place is not None:
                plain = whole.replace(".", "_")
                file.ends.append(f"from {place.name} import {own} as _{plain}\n{whole} = _{plain}")
            elif isinstance(value, types.ModuleType) and not is_shared(value):
                file.ends.append(f"{whole} = types.ModuleType({attribute!r})")
                self.fill_module(file, whole, value)
            else:
                file.ends.append(head(whole, value))


def is_shared(module):
    """Whether a module is there wherever Triton is."""
    return module.__name__.split(".")[0] in ("triton", "math", "numpy")


def text(file):
    collections = ["import collections"] if any("collections." in head for head in [*file.heads.values(), *file.ends]) else []
    heads = "\n".join(dict.fromkeys([*collections, "import triton", "import triton.language as tl", *file.heads.values()]))
    ends = "\n".join(dict.fromkeys(file.ends))
    parts = [heads, *file.bodies, ends]
    return "\n\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def same(one, other):
    if one is other:
        return True
    simple = (bool, int, float, str, tuple, type(None))
    if isinstance(one, simple) and isinstance(other, simple):
        return type(one) is type(other) and one == other
    return type(one) is type(other) and type(one).__name__ in ("constexpr", "dtype") and repr(one) == repr(other)


def captured(function):
    """What a function's names stand for: its module's, and what it closes over."""
    return {**function.__globals__, **inspect.getclosurevars(function).nonlocals}


def source(function):
    """The text of a function, with the decorator that it needs alone."""
    if isinstance(function, HostFunction) or type(function).__name__ == "ConstexprFunction":
        code = function.fn.__code__
        if code.co_name == "<lambda>":
            # Its source is the line that it stands in.
            raise Left(f"uses a lambda ({code.co_filename}:{code.co_firstlineno}), expected a function that `def` names")
        plain = textwrap.dedent(inspect.getsource(function.fn))
        return getattr(function, "decorator", "@triton.constexpr_function\n") + plain[plain.index("def "):]
    options = []
    for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
        value = getattr(function, name, None)
        if value:
            options.append(f"{name}={list(value)!r}")
    if getattr(function, "noinline", False):
        options.append("noinline=True")
    own = getattr(function, "_unsafe_src", None) or function.src
    return f"@triton.jit({', '.join(options)})\n" + own.rstrip()


def names(text):
    """All names that a function's text has from outside, those of its annotations and defaults among them."""
    own = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    read = [node for part in own.body for node in ast.walk(part) if isinstance(node, ast.Name)]
    local = {node.id for node in read if not isinstance(node.ctx, ast.Load)} | {one.arg for one in ast.walk(own.args) if isinstance(one, ast.arg)}
    head = {node.id for part in (own.args, own.returns) if part is not None for node in ast.walk(part) if isinstance(node, ast.Name)}
    return sorted({node.id for node in read} - local | head)


def attributes(text):
    tree = ast.parse(text)
    return {(ast.unparse(node.value), node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def head(name, value):
    """A line that gives a name its value."""
    import triton.language as tl

    plain = name.replace(".", "_")
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {plain}" + ("" if plain == name else f"\n{name} = {plain}")
    module = getattr(value, "__module__", None) or ""
    if callable(value) and module.startswith("triton.") and not isinstance(value, (tl.dtype, tl.constexpr)):
        imported = f"from {module} import {value.__name__} as {plain}"
        return imported if plain == name else f"{imported}\n{name} = {plain}"
    if module == "torch" and getattr(value, "__name__", "") in ("finfo", "iinfo"):
        # A type, as Triton takes no function there that is not its own.
        made = f"lambda kind, of: types.SimpleNamespace(**{limits(value)}[getattr(of, 'value', of)])"
        return f"import types\n{name} = type({value.__name__!r}, (), {{'__new__': {made}}})"
    said = literal(name, value)
    # Where the program runs, Triton takes plain globals as well; where kernels are compiled it does not.
    allowed = os.environ.get(ALLOWED, "").lower() in ("1", "true", "yes", "on", "y")
    return f"{name} = tl.constexpr({said})" if allowed and isinstance(value, (bool, int, float, str)) else f"{name} = {said}"


def limits(of):
    """The numbers of torch's `finfo` or `iinfo` for each type that has them, by the name that `literal` gives it."""
    written = {}
    for dtype in {one for one in vars(sys.modules["torch"]).values() if type(one).__name__ == "dtype"}:
        # A type may have no numbers, or not all.
        with contextlib.suppress(TypeError):
            found = of(dtype)
            numbers = written.setdefault(str(dtype), {})
            for number in ("bits", "eps", "max", "min", "smallest_normal", "tiny"):
                with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError):
                    numbers[number] = getattr(found, number)
    return literal(of.__name__, dict(sorted(written.items())))


def is_named_tuple(kind):
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def literal(name, value):
    """What is written for a value, where `collections`, `triton` and `tl` are imported."""
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        return f"tl.constexpr({literal(name, value.value)})"
    if isinstance(value, tl.dtype):
        return f"tl.dtype({value.name!r})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({float.__repr__(value)!r})"
    if isinstance(value, (bool, int, float, str)) and isinstance(value, enum.Enum):
        return literal(name, value.value)
    if value is None:
        return "None"
    # Classes of a program's own, as NumPy's, are written in their own way.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind.__repr__(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        # All that a kernel can do with it is to compare it: there is no torch where kernels are compiled.
        return repr(str(value))
    if is_named_tuple(value):
        return f"collections.namedtuple({value.__name__!r}, {[*value._fields]!r})"
    if is_named_tuple(type(value)):
        return f"{literal(name, type(value))}({', '.join(literal(name, one) for one in value)})"
    if isinstance(value, (tuple, list)):
        inside = ", ".join(literal(name, one) for one in value)
        return f"({inside},)" if isinstance(value, tuple) and value else f"[{inside}]" if isinstance(value, list) else "()"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(name, key)}: {literal(name, one)}" for key, one in value.items()) + "}"
    raise Left(f"uses {name}, a {type(value).__module__}.{type(value).__qualname__}, expected a JIT function, a number, a text or a type")
