"""A function around a kernel whose arguments a kernel spec can not say: it takes what a spec can, and calls the kernel with the rest.

Tuples are put together from their parts, functions that are constexprs are named, values that a spec has no words for are written down, and memory
that nobody compares is the workspace.
"""

import math

from bluefin_triton import Left

# The file that the function is in.
FILE = "k_around"
# Where parts of the workspace begin.
ALIGNMENT = 256


class Around:
    """The arguments of a launch, one by one, and how the kernel gets them."""

    def __init__(self, function, arguments):
        self.function = function
        self.arguments, self.given, self.uses, self.written = [], {}, {}, {}
        self.workspace = 0
        for one in arguments:
            self.given[one["name"]] = self.take(one)

    @property
    def needed(self):
        return self.workspace > 0 or any(text != name for name, text in self.given.items())

    def take(self, one):
        """Takes an argument, and returns how the kernel gets it."""
        if one["kind"] == "tuple":
            parts = "".join(self.take(part) + ", " for part in one["parts"])
            return (self.write(one["named"]) if "named" in one else "") + f"({parts})"
        if one["kind"] == "written":
            return self.write(one["text"])
        if one["kind"] == "infinite":
            return f"tl.full((), float({str(one['value'])!r}), tl.float32)"
        if one["kind"] == "function":
            name = f"_function_{len(self.uses)}"
            self.uses[name] = one["function"]
            return name
        if any(known["name"] == one["name"] for known in self.arguments):
            raise Left(f"argument {one['name']}: its name is that of a part of a tuple as well")
        self.arguments.append(one)
        return one["name"]

    def write(self, text):
        """The name of what is written so above the function."""
        return self.written.setdefault(text, f"_written_{len(self.written)}")

    def leave_out(self, name, buffer):
        """Has the memory of an argument be part of the workspace."""
        at = next(at for at, one in enumerate(self.arguments) if one["name"] == name)
        element = buffer["tensor"].dtype
        from triton.runtime.jit import type_canonicalisation_dict

        typed = type_canonicalisation_dict[str(element).split(".")[-1]]
        place = f"workspace + {self.workspace}" if self.workspace else "workspace"
        pointer = f"({place}).to(tl.pointer_type(tl.dtype({typed!r})))"
        if name not in self.given:
            raise Left(f"argument {name}: the length of a part of a tuple follows from the config")
        self.given[name] = pointer
        self.workspace += -(-(buffer["elements"] * buffer["size"]) // ALIGNMENT) * ALIGNMENT
        # There is one of it, and where there is none yet it stands here.
        if any(one["kind"] == "workspace" for one in self.arguments):
            del self.arguments[at]
        else:
            self.arguments[at] = {"name": "workspace", "kind": "workspace"}

    def text(self, place, places):
        """The file, where the kernel is `place` (file and name), and the functions are `places`."""
        options = [f"{name}={self.names(name)!r}" for name in ("do_not_specialize", "do_not_specialize_on_alignment") if self.names(name)]
        imported = [f"from {place[0]} import {place[1]} as _kernel"]
        imported += [f"from {file} import {own} as {name}" for name, (file, own) in places.items()]
        written = [f"{name} = {text}" for text, name in self.written.items()]
        collections = ["import collections"] if any("collections." in text for text in self.written) else []
        constexprs = {param.name for param in self.function.params if param.is_constexpr}
        head = ", ".join(one["name"] + (": tl.constexpr" if one["name"] in constexprs else "") for one in self.arguments)
        call = ", ".join(self.given[param.name] for param in self.function.params)
        return (
            "\n".join([*collections, "import triton", "import triton.language as tl", *imported, *written])
            + f"\n\n\n@triton.jit({', '.join(options)})\ndef {self.function.__name__}({head}):\n    _kernel({call})\n"
        )

    def names(self, option):
        """Arguments that Triton is not to specialise, by name."""
        own = [self.function.arg_names[one] if isinstance(one, int) else one for one in getattr(self.function, option, None) or []]
        return [one["name"] for one in self.arguments if one["name"] in own]


def numbers_of(arguments):
    """The whole numbers that a kernel gets."""
    numbers = {one["value"] for one in arguments if one["kind"] == "int"}
    return numbers | {one["value"]["int"] for one in arguments if one["kind"] == "constexpr" and "int" in one["value"]}


def sizes(arguments):
    """These and the sizes of its tensors."""
    tensors = [one for one in arguments if one["kind"] in ("tensor", "descriptor")]
    return numbers_of(arguments) | {size for one in tensors for size in one["shape"]}


def reduced(params, arguments):
    """Which tensors have a part for each block of something, as partial sums have, by name: the param that the block is. `params` are the
    sizes of blocks by name. Of a tensor with so many parts there is another with as many elements as all blocks have."""
    tensors = [one for one in arguments if one["kind"] in ("tensor", "descriptor")]
    numbers, every = numbers_of(arguments), sizes(arguments)
    found = {}
    for one in tensors:
        others = max((math.prod(other["shape"]) for other in tensors if other is not one), default=0)
        for parts in {*one["shape"]} - numbers - {0, 1}:
            rest = math.prod(one["shape"]) // parts
            for name, block in params.items():
                if any(size > parts and -(-size // block) == parts and size * rest <= others for size in every):
                    found[one["name"]] = name
    return found
