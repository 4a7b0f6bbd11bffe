#!/usr/bin/env python3
"""Makes instructions.tsv: asks LLVM's disassembler what each opcode of each encoding is.

    isa/instructions.py LIBRARY > isa/instructions.tsv

LIBRARY is a shared library of LLVM 22 or later with its AMDGPU target, such as a Rust toolchain's lib/libLLVM.so.22.1. It is called by its C
interface. Every field of an encoding gets a register of its own, so that the operands that are printed say which field they come from;
each bit of a modifier that changes what is printed is one that the instruction has.
"""

import ctypes
import itertools
import mmap
import os
import pickle
import re
import sys

TARGETS = {
    "gfx908": "9", "gfx90a": "9", "gfx942": "9", "gfx950": "9", "gfx1030": "10", "gfx1100": "11", "gfx1150": "11", "gfx1151": "11",
    "gfx1200": "12", "gfx1201": "12",
}
HERE = os.path.dirname(os.path.abspath(__file__))
# What an operand's field holds while an instruction is asked about.
VECTOR = {"vdst": 8, "src0": 24, "vsrc1": 56, "src1": 56, "src2": 88, "addr": 16, "data0": 40, "data1": 72, "vaddr": 16, "data": 40,
          "vdata": 40, "vdstx": 8, "vdsty": 5, "srcx0": 24, "vsrcx1": 56, "srcy0": 88, "vsrcy1": 104}
SCALAR = {"sdst": 20, "ssrc0": 24, "ssrc1": 28, "src0": 32, "src1": 36, "src2": 40, "vdst": 48, "sbase": 24, "sdata": 64, "soffset": 44,
          "saddr": 24, "srsrc": 12}
SOURCES = ("src0", "src1", "src2")
MODIFIERS = ("abs", "neg", "opsel", "clamp", "omod", "neghi", "opselhi", "opselhi2", "cbsz", "abid", "blgp", "acc", "acccd", "dacc", "gds",
             "tfe", "format", "lds", "glc", "slc", "dlc", "sc1", "nv", "scope", "th")
BAD = ("/*", "<unknown>", "Invalid")
# Encodings of instructions on images, and what their fields hold while they are asked about.
IMAGES = ("mimg", "vimage", "vsample")
IMAGE = {"vdata": 40, "vaddr": 16, "srsrc": 6, "ssamp": 11, "rsrc": 24, "samp": 44, "vaddr0": 16, "dmask": 1}
IMAGE_MODIFIERS = ("unorm", "r128", "a16", "d16", "da", "tfe", "lwe", "glc", "slc", "dlc", "sc1", "scope", "th")


# It crashes at some words that are no instruction: those that it was asked about last, and those that it is not asked about again.
LAST = mmap.mmap(-1, 4096)
CRASHES = set()


def guarded(ask, opcodes):
    """What `ask` says of each opcode, by a child process that is begun again where it crashes."""
    answers, opcodes = [], list(opcodes)
    while opcodes:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "wb") as out:
                for opcode in opcodes:
                    pickle.dump((opcode, ask(opcode)), out)
                    out.flush()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as read:
            while True:
                try:
                    answer = pickle.load(read)
                except (EOFError, pickle.UnpicklingError):
                    break
                answers.append(answer)
                opcodes.remove(answer[0])
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            sys.exit(1)
        if os.WIFSIGNALED(status):
            name, count = LAST[0] >> 3, LAST[0] & 7
            CRASHES.add((LAST[1 : 1 + name], LAST[1 + name : 1 + name + 4 * count]))
    return answers


class Disassembler:
    def __init__(self, library, name, features=""):
        self.library = library
        self.name = (name[3:] + features[-2:]).encode()
        self.handle = library.LLVMCreateDisasmCPUFeatures(b"amdgcn-amd-amdhsa", name.encode(), features.encode(), None, 0, None, None)
        library.LLVMSetDisasmOptions(self.handle, 2)
        self.buffer = ctypes.create_string_buffer(4096)

    def __call__(self, words):
        data = b"".join(word.to_bytes(4, "little") for word in words)
        if (self.name, data) in CRASHES:
            return None
        LAST[: len(self.name) + 1 + len(data)] = bytes([len(self.name) << 3 | len(data) // 4]) + self.name + data
        size = self.library.LLVMDisasmInstruction(self.handle, data, len(data), 0, self.buffer, 4096)
        text = self.buffer.value.decode(errors="replace").strip().replace("\t", " ")
        return (text, size // 4) if size and not any(bad in text for bad in BAD) else None


def load(path):
    library = ctypes.CDLL(path)
    for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
        getattr(library, "LLVMInitializeAMDGPU" + part)()
    library.LLVMCreateDisasmCPUFeatures.restype = ctypes.c_void_p
    library.LLVMCreateDisasmCPUFeatures.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    library.LLVMDisasmInstruction.restype = ctypes.c_size_t
    library.LLVMDisasmInstruction.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p,
                                              ctypes.c_size_t]
    library.LLVMSetDisasmOptions.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    return library


def encodings():
    all_of = {}
    with open(os.path.join(HERE, "encodings.tsv")) as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, generations, dwords, match, mask, fields = line.rstrip("\n").split("\t")
            places = {}
            for field in fields.split():
                field, place = field.split(":")
                places[field] = tuple(map(int, place.split("+")))
            for generation in generations.split():
                all_of.setdefault(generation, []).append((name, int(dwords), int(match, 16), places, int(mask, 16)))
    return all_of


def words(encoding, values):
    _, dwords, match, places, _ = encoding
    whole = match
    if "opm" in places:
        values = {**values, "opm": values["op"] >> places["op"][1]}
    for field, value in values.items():
        low, width = places[field]
        whole |= (value & ((1 << width) - 1)) << low
    return [whole >> (32 * at) & 0xffffffff for at in range(dwords)]


def split(text):
    """The mnemonic, the operands and what follows them."""
    mnemonic, _, rest = text.partition(" ")
    depth, parts, part = 0, [], ""
    for letter in rest:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    parts.append(part.strip())
    operands = []
    for part in parts:
        first = part.split(" ")[0]
        if first and not re.match(r"[a-z0-9_]+:", first):
            operands.append(first)
    return mnemonic, operands


def register(token):
    """Kind, first, dwords and whether it is a half."""
    found = re.fullmatch(r"([vsa]|ttmp)(?:(\d+)|\[(\d+):(\d+)\])(\.[lh])?", token)
    if not found:
        return None
    kind, one, first, last, half = found.groups()
    return (kind, int(one), 1, bool(half)) if one else (kind, int(first), int(last) - int(first) + 1, False)


def probes(encoding):
    """What the fields of an encoding may hold, most of them something: a register of vectors or a scalar one, or nothing."""
    name, _, _, places, _ = encoding
    choices = []
    for field in places:
        if field in ("srcx0", "srcy0"):
            kinds = [256 + VECTOR[field]]
        elif field in SOURCES:
            kinds = [256 + VECTOR[field], SCALAR[field], 0]
        elif field == "sbase":
            kinds = [SCALAR[field] // 2, 0]
        elif field == "srsrc":
            kinds = [SCALAR[field] // 4, 0]
        elif field == "rsrc":
            kinds = [SCALAR["srsrc"], 0]
        elif field == "vdst" and name in ("vop3", "vop1"):
            kinds = [VECTOR[field], SCALAR[field], 0]
        elif field in VECTOR:
            kinds = [VECTOR[field], 0]
        elif field in SCALAR:
            kinds = [SCALAR[field], 0]
        else:
            continue
        choices.append([(field, kind, cost) for cost, kind in enumerate(kinds)])
    cost = {0: 0, 1: 1, 2: 9}
    zero = {1: 9}
    weigh = lambda choice: sum((cost if len(dict(choice_of[field])) == 3 else zero).get(at, 0) for field, _, at in choice)
    choice_of = {options[0][0]: [(option[1], 0) for option in options] for options in choices}
    for choice in sorted(itertools.product(*choices), key=weigh):
        yield {field: value for field, value, _ in choice}


def ways(encoding, generation):
    """What an encoding's other fields may have to hold."""
    name = encoding[0]
    if name == "smem":
        if generation == "9":
            return [{"imm": 1, "ioffset": 0x7c, "soffset": 0}, {}]
        null = 125 if generation == "10" else 124
        return [{"ioffset": 0x7c, "soffset": null}]
    if name in ("flat", "global", "scratch"):
        off = 0x7f if generation == "9" else 125 if generation == "10" else 124
        if name == "scratch" and generation != "10":
            return [{"saddr": off, "sve": 1}, {"saddr": off, "sve": 0}, {"saddr": off}]
        return [{"saddr": off}, {"saddr": 0}] if name == "flat" else [{"saddr": off}]
    if name in ("mubuf", "mtbuf"):
        return [{"offen": 1}, {}, {"offen": 1, "format": 1}]
    if name == "vop3":
        # Comparisons of RDNA that write EXEC say so.
        return [{}, {"vdst": 126}]
    if name == "ds":
        return [{}, {"gds": 1}]
    if name == "vop3p":
        return [{}, {"opselhi": 3, "opselhi2": 1}]
    if name == "sopk":
        return [{"simm16": 0x1234}, {"simm16": 0xf801}]
    return [{}]


def asked(disassemble, encoding, generation, opcode):
    """The first values that are an instruction, and its text."""
    places = encoding[3]
    for way in ways(encoding, generation):
        for values in probes(encoding):
            values = {**values, **{key: value for key, value in way.items() if key in places}, "op": opcode}
            if encoding[0] == "vopdx":
                values["opy"] = 8
            found = disassemble(words(encoding, values) + [0, 0])
            if found and "?" not in operands_of(found, values, encoding, generation):
                return values, found
    return None


def operands_of(found, values, encoding, generation):
    text = found[0].split(" :: ")[0] if encoding[0] == "vopdx" else found[0]
    return "".join(operand(token, values, encoding, None)[0] for token in split(text)[1])


def operand(token, values, encoding, wide32):
    """A printed operand as the field it is from and its dwords."""
    parts = register(token)
    if parts is None:
        return "=" + token
    kind, first, count, half = parts
    width = "h" if half else str(count)
    narrow = register(wide32) if wide32 else None
    if narrow and narrow[2] != count:
        width = "m" if narrow[2] * 2 == count else f"{narrow[2]}/{count}"
    for field, value in values.items():
        if not value:
            continue
        if field in ("sbase",):
            value *= 2
        elif field == "srsrc":
            value *= 4
        elif field in ("ssrc0", "ssrc1", "sdst", "sdata", "soffset", "saddr", "rsrc"):
            pass
        elif field in SOURCES or field in ("srcx0", "srcy0"):
            if (value >= 256) != (kind != "s"):
                continue
            value &= 255
        elif field == "vdst" and kind == "s":
            pass
        elif field not in VECTOR or kind == "s":
            continue
        if field in encoding[3] and value == first:
            return f"{field}:{width}" + ("a" if kind == "a" else "s" if field == "vdst" and kind == "s" else "")
    return "?" + token


def modifiers(disassemble, encoding, values, text):
    """The bits of modifiers that an instruction has, as a letter and a mask."""
    found = [f"{field}={values[field]:x}" for field in ("opselhi", "opselhi2", "gds") if field in values]
    for field in MODIFIERS:
        if field not in encoding[3] or field in values:
            continue
        mask = 0
        for bit in range(encoding[3][field][1]):
            changed = disassemble(words(encoding, {**values, field: 1 << bit}) + [0, 0])
            if changed and changed[0] != text:
                mask |= 1 << bit
        if mask:
            found.append(f"{field}:{mask:x}")
    return " ".join(found)


def shifted(disassemble, encoding, values, text):
    """Which longer forms there are: DPP, DPP of eight, SDWA, a literal, two offsets, an offset that is a pattern."""
    name, places, found = encoding[0], encoding[3], ""
    selections = 0x00060600 if name == "vop1" else 0x06060600
    trailers = {"d": (250, 0xff00e400 | 24), "8": (233, 0xfac68800 | 24), "s": (249, selections | 24)}
    if name in ("vop1", "vop2", "vopc", "vop3", "vop3b", "vop3p") and "src0" in places:
        for letter, (code, trailer) in trailers.items():
            changed = disassemble(words(encoding, {**values, "src0": code}) + [trailer, 0])
            if changed and changed[1] == encoding[1] + 1 and ("dpp" in changed[0] or "sdwa" in changed[0] or "quad_perm" in changed[0]):
                found += letter
    if name == "ds":
        changed = disassemble(words(encoding, {**values, "offset0": 3, "offset1": 5}) + [0, 0])
        if changed and "offset0:3" in changed[0]:
            found += "2"
        elif changed and changed[0] != text:
            found += "1"
    if name in ("flat", "global", "scratch", "mubuf", "mtbuf"):
        changed = disassemble(words(encoding, {**values, "offset": 8}) + [0, 0])
        if changed and changed[0] != text:
            found += "1"
    return found


def row(disassemble, narrow, encoding, generation, opcode, before):
    """One instruction of a target; those of the encodings before, whose bits are among this one's, are theirs."""
    first = words(encoding, {"op": opcode})[0]
    if any(first & other[4] == other[2] for other in before if (other[2], other[4]) != (encoding[2], encoding[4])):
        return None
    found = asked(disassemble, encoding, generation, opcode)
    if not found:
        return None
    values, (text, size) = found
    if encoding[0] == "vopdx":
        text = text.split(" :: ")[0]
    mnemonic, tokens = split(text)
    name = encoding[0]
    # Encodings with the same bits: the one that shows all its fields.
    other = narrow(words(encoding, values) + [0, 0]) if narrow else None
    narrow_tokens = split(other[0].split(" :: ")[0])[1] if other else []
    if len(narrow_tokens) != len(tokens):
        narrow_tokens = [None] * len(tokens)
    operands = []
    for token, of_narrow in zip(tokens, narrow_tokens):
        if size > encoding[1] and token == "0x0":
            operands.append("literal")
        elif name == "sopk" and "simm16" in operands and size > encoding[1]:
            operands.append("literal")
        elif name in ("sopp", "sopk") and register(token) is None and token not in ("vcc", "exec", "null"):
            operands.append("simm16")
        elif token.startswith("sendmsg("):
            operands.append("message")
        elif name == "sopc" and token == hex(SCALAR["ssrc1"]):
            operands.append("ssrc1:0")
        elif name == "smem" and token == "0x7c":
            operands.append("offset")
        elif name in ("global", "scratch") and token == "off":
            operands.append("saddr")
        elif name in ("mubuf", "mtbuf") and register(token) and register(token)[:2] == ("v", VECTOR["vaddr"]):
            operands.append("vaddr")
        else:
            operands.append(operand(token, values, encoding, of_narrow))
    if name == "vop3b" and not any(part.startswith("sdst") for part in operands):
        return None
    if name == "mai" and not (mnemonic.startswith(("v_mfma", "v_smfma", "v_accvgpr"))):
        return None
    if name == "vop3p" and mnemonic.startswith(("v_mfma", "v_smfma", "v_accvgpr")):
        return None
    if name in ("flat", "global", "scratch") and "_atomic_" in mnemonic and not operands[0].startswith("vdst"):
        # Whether the old value is returned, the encoding says.
        flag = {"th": 1} if generation == "12" else {"glc": 1}
        returning = disassemble(words(encoding, {**values, "vdst": VECTOR["vdst"], **flag}) + [0, 0])
        first = split(returning[0])[1][0] if returning else ""
        if register(first) and register(first)[1] == VECTOR["vdst"]:
            operands.insert(0, f"vdst?:{register(first)[2]}")
    bits = modifiers(disassemble, encoding, values, text if encoding[0] != "vopdx" else found[1][0])
    flags = shifted(disassemble, encoding, values, found[1][0])
    return name, mnemonic, " ".join(operands), bits, flags


def image_row(disassemble, encoding, opcode):
    """An instruction on images. How many registers its data has, the mask of components says, unless it is a number; for addresses, a
    digit for each dimension says it, of 32 bits and of 16. "b" is one of ray tracing, whose addresses are not alike."""
    name, _, _, places, _ = encoding
    base = {**{field: value for field, value in IMAGE.items() if field in places}, "op": opcode}

    def ask(**values):
        known = {field: value for field, value in values.items() if field in places}
        found = disassemble(words(encoding, {**base, **known}) + [0, 0, 0])
        if not found:
            return None
        mnemonic, _, rest = found[0].partition(" ")
        tokens = re.findall(r"(?<![vs])\[(?:[^\[\]]|\[\d+:\d+\])*\]|[vs]\d+|[vs]\[\d+:\d+\]", rest.split(" dmask:")[0])
        return found[0], mnemonic, tokens

    def count(token):
        return sum(register(part)[2] for part in re.findall(r"v\d+|v\[\d+:\d+\]", token))

    # Those of ray tracing have fixed modifiers.
    fixed = {"dmask": 15, "r128": 1, "unorm": 1}
    first = ask()
    if not first:
        base.update({field: 0 for field in ("ssamp", "samp") if field in places})
        first = ask() or ask(**fixed)
    if not first:
        return None
    if "cmpswap" in first[1]:
        base["dmask"] = 3
        first = ask()
    text, mnemonic, tokens = first
    wide = ask(dmask=15 if base["dmask"] == 3 else 3)
    rays = "bvh" in mnemonic
    if rays:
        base.update({field: value for field, value in fixed.items() if field in places})
    data = str(count(tokens[0])) if rays or wide and count(wide[2][0]) == count(tokens[0]) else "n"
    operands = [f"vdata:{data}", "vaddr"]
    for token in tokens[2:]:
        _, at, dwords, _ = register(token)
        field = {24: "rsrc" if "rsrc" in places else "srsrc", 44: "samp" if "samp" in places else "ssamp"}[at]
        operands.append(f"{field}:{dwords}")
    bits = [f"{field}={value:x}" for field, value in fixed.items() if field in places] if rays else ["dmask:f"] + (["dim:7"] if "dim" in places else [])
    for field in IMAGE_MODIFIERS:
        if field not in places:
            continue
        changed = [(1 << bit, ask(**{field: 1 << bit})) for bit in range(places[field][1])]
        mask = sum(bit for bit, found in changed if found and found[0] != text)
        bits += [f"{field}:{mask:x}"] if mask else []
    forms = ""
    for letter, wanted in (("a", 0), ("A", 1)):
        # Images with several samples have neither samplers nor levels.
        dimensions = range(6) if len(tokens) > 3 or "_mip" in mnemonic else range(8)
        found = [ask(dim=dim, a16=wanted) if dim in dimensions else None for dim in range(8)]
        forms += letter + "".join(f"{count(answer[2][1]):x}" if answer else "0" for answer in found)
    return name, mnemonic.strip(), " ".join(operands), " ".join(bits), ("b" if rays else "") + forms


def vopd_second(disassemble, encoding, opcode):
    for values in probes(encoding):
        found = disassemble(words(encoding, {**values, "op": 8, "opy": opcode}) + [0, 0])
        if found:
            break
    else:
        return None
    mnemonic, tokens = split(found[0].split(" :: ")[1])
    operands = []
    for token in tokens:
        if token == "0x0":
            operands.append("literal")
        elif register(token) and register(token)[1] in (10, 11):
            operands.append("vdsty:1")
        else:
            operands.append(operand(token, values, encoding, None))
    return "vopdy", mnemonic, " ".join(operands), "", ""


def main():
    library = load(sys.argv[1])
    all_encodings = encodings()
    rows = {}
    for target, generation in TARGETS.items():
        halves = "+real-true16," if generation in ("11", "12") else ""
        wide = Disassembler(library, target, "" if generation == "9" else halves + "+wavefrontsize64")
        narrow = None if generation == "9" else Disassembler(library, target, halves + "+wavefrontsize32")
        for at, encoding in enumerate(all_encodings[generation]):
            disassemble = narrow if encoding[0] == "vopdx" else wide
            asks = [("op", lambda opcode: image_row(disassemble, encoding, opcode))] if encoding[0] in IMAGES else [("op", lambda opcode: row(disassemble, narrow, encoding, generation, opcode, all_encodings[generation][:at]))]
            if encoding[0] == "vopdx":
                asks.append(("opy", lambda opcode: vopd_second(narrow, encoding, opcode)))
            for field, ask in asks:
                bits = encoding[3][field][1] + (encoding[3].get("opm", (0, 0))[1] if field == "op" else 0)
                for opcode, made in guarded(ask, range(1 << bits)):
                    if made:
                        rows.setdefault(made, {}).setdefault(opcode, []).append(target)
    print("# Made by instructions.py. A row: encoding, mnemonic, operands (field and dwords), bits of modifiers, longer forms, opcodes by target.")
    for made, opcodes in sorted(rows.items()):
        places = " ".join(f"{opcode:x}:{','.join(name[3:] for name in names)}" for opcode, names in sorted(opcodes.items()))
        print("\t".join((*made, places)))


if __name__ == "__main__":
    main()
