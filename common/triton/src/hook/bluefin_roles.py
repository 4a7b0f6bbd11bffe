"""Which arguments of a compiled Triton kernel are read and which are written, by its TTIR."""

import re

_RESULT = re.compile(r"^(%[\w$.-]+)(?::(\d+))?(?:, )?.*? = ")
# What is done with an address where nobody can tell.
_BOTH = ("load", "store")
# Where something was, which may stand between two names.
_PLACE = re.compile(r""" loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*\)""")


def of(compiled, arguments):
    """What is done with each tensor among `arguments`, by name: a set of "load" and "store". One that is not there may be both."""
    text = getattr(compiled, "asm", {}).get("ttir")
    if text is None:
        return {}
    names = [one["name"] for one in arguments if one["kind"] in ("tensor", "descriptor")]
    touched = pointers(text)
    if touched is None or len(touched) != len(names):
        return {}
    return dict(zip(names, touched))


def takes_addresses(compiled):
    """Whether the kernel makes pointers of numbers that it reads: memory that no argument names."""
    return "tt.int_to_ptr" in getattr(compiled, "asm", {}).get("ttir", "")


def pointers(text):
    """For each pointer argument of the one function in `text`, in their order, what is done with it. Nothing where that can not be told."""
    lines = [line.strip() for line in text.splitlines()]
    head = next((line for line in lines if line.startswith("tt.func public")), None)
    if head is None or any(re.search(r"\b(tt\.call|cf\.switch|scf\.execute_region)", line) for line in lines):
        return None
    given = re.findall(r"(%[\w$.-]+): (!tt\.(?:ptr|tensordesc))?", head.split(") attributes")[0])
    flows = Flows()
    flows.read(lines[lines.index(head) + 1:])
    return [flows.done(name) for name, pointer in given if pointer]


class Flows:
    """Which values are made of which, and which are loaded from or stored to."""

    def __init__(self):
        self.to, self.uses = {}, {}
        # Loops and branches around a line: the results, and what the next turn gets.
        self.regions = []
        # What blocks are given, by their labels: known once all is read.
        self.blocks, self.jumps = {}, []
        # Of a `while` within another one: the results, and how deep it is with what its first half gives the second.
        self.whiles, self.conditions = [], []

    def flow(self, source, to):
        self.to.setdefault(source, set()).add(to)

    def use(self, name, how):
        self.uses.setdefault(name, set()).add(how)

    def read(self, lines):
        for line in lines:
            line = _PLACE.sub("", line)
            self.line(line)
            opened, closed = line.count("{"), line.count("}")
            # An attribute opens and closes; `} else {` goes on in the same one.
            if opened > closed and not re.search(r"\bscf\.(for|if|while)\b", line) and not line.startswith("} "):
                self.regions.append((None, []))
            if closed > opened and self.regions:
                self.regions.pop()
        for label, values in self.jumps:
            for value, name in zip(values, self.blocks.get(label, [])):
                self.flow(value, name)

    def line(self, line):
        label = re.match(r"(\^\w+)\((.*)\):", line)
        if label:
            names = re.findall(r"(%[\w$.-]+):", label.group(2))
            if self.conditions and self.conditions[-1][0] == len(self.regions):
                # The second half of a `while`, and what its first half gives it.
                for value, name in zip(self.conditions.pop()[1], names):
                    self.flow(value, name)
                return
            self.blocks[label.group(1)] = names
            return
        if line.startswith("cf."):
            self.jumps += [(to, re.findall(r"%[\w$.-]+(?:#\d+)?", given)) for to, given in re.findall(r"(\^\w+)\(([^)]*)\)", line)]
            return
        found = _RESULT.match(line)
        body = line[found.end():] if found else line
        result = found.group(1) if found else None
        many = bool(found and found.group(2))
        operation = re.match(r'"?([\w.]+)', body)
        operation = operation.group(1) if operation else ""
        exact = re.findall(r"%[\w$.-]+(?:#\d+)?", body)
        if operation == "scf.for":
            self.loop(body, result, many)
        elif operation == "scf.while":
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", body.split(" : ")[0])
            for name, start in pairs:
                self.flow(start, name)
            self.whiles.append(self.results(result, many))
            # What the loop yields goes to its first half alone.
            self.regions.append((None, [name for name, _ in pairs]))
        elif operation == "scf.condition":
            made = self.whiles.pop() if self.whiles else None
            for at, value in enumerate(exact[1:]):
                if made is not None:
                    self.flow(value, made(at))
            self.conditions.append((len(self.regions), exact[1:]))
        elif operation == "scf.if":
            self.regions.append((self.results(result, many), []))
        elif operation == "scf.yield":
            self.hand_on(exact)
        elif operation in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.experimental_descriptor_load"):
            self.use(exact[0], "load")
        elif operation in ("tt.store", "tt.descriptor_store", "tt.descriptor_scatter", "tt.experimental_descriptor_store"):
            self.use(exact[0], "store")
        elif operation in ("tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce", "tt.experimental_descriptor_reduce"):
            for how in _BOTH:
                self.use(exact[0], how)
        elif operation in ("tt.elementwise_inline_asm", "tt.extern_elementwise", "tt.ptr_to_int", "tt.print"):
            # Whatever is done with an address there.
            for name in exact:
                for how in _BOTH:
                    self.use(name, how)
        elif result is not None:
            for name in exact:
                self.flow(name, result)

    @staticmethod
    def results(result, many):
        if result is None:
            return None
        return (lambda at: f"{result}#{at}") if many else (lambda at: result)

    def loop(self, body, result, many):
        made = self.results(result, many)
        carried = []
        inside = re.search(r"iter_args\((.*?)\) ->", body)
        if inside:
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)", inside.group(1))
            for at, (name, start) in enumerate(pairs):
                self.flow(start, name)
                self.flow(start, made(at))
                carried.append(name)
        self.regions.append((made, carried))

    def hand_on(self, values):
        made, carried = self.regions[-1] if self.regions else (None, [])
        for at, value in enumerate(values):
            if made is not None:
                self.flow(value, made(at))
            if at < len(carried):
                self.flow(value, carried[at])

    def done(self, name):
        seen, todo, done = set(), [name], set()
        while todo:
            one = todo.pop()
            if one in seen:
                continue
            seen.add(one)
            done |= self.uses.get(one, set())
            todo.extend(self.to.get(one, ()))
        return done
