#!/usr/bin/env python3
"""Compares how bluefin decodes with LLVM's disassembler.

    isa/compare.py LIBRARY [CODE_OBJECT...]

LIBRARY is that of instructions.py; target/debug/examples/disassemble is bluefin's. Without code objects every row of instructions.tsv is tried,
with each field of its encoding at random, for every target that has it. What differs in kind is counted: a text that differs in its mnemonic
or its operands, words that only one of both takes for an instruction.
"""

import collections
import os
import random
import re
import struct
import subprocess
import sys

import instructions

ROOT = os.path.join(instructions.HERE, "..", "..", "..")
# EF_AMDGPU_MACH.
MACHINES = {0x30: "gfx908", 0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950", 0x36: "gfx1030", 0x41: "gfx1100", 0x43: "gfx1150", 0x4A: "gfx1151",
            0x48: "gfx1200", 0x4E: "gfx1201"}


def ours(asked):
    lines = "".join(f"{target} {lanes} {' '.join(f'{word:x}' for word in words)}\n" for target, lanes, words in asked)
    program = max((os.path.join(ROOT, "target", profile, "examples", "disassemble") for profile in ("debug", "release")), key=lambda path: os.path.exists(path) and os.path.getmtime(path))
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout
    return [line.split("\t", 1) for line in answer.splitlines()]


def plain(text):
    """Mnemonic and operands, without modifiers, whose names differ among versions of LLVM."""
    text = re.sub(r"/\*.*?\*/", "", text)
    return re.sub(r"\s+", " ", text).strip()


def random_rows(per_row):
    generator = random.Random(1)
    encodings = instructions.encodings()
    asked = []
    with open(os.path.join(instructions.HERE, "instructions.tsv")) as file:
        for line in file:
            if line.startswith("#"):
                continue
            family, _, operands, modifiers, forms, opcodes = line.rstrip("\n").split("\t")
            if family == "vopdy":
                continue
            for part in opcodes.split(" "):
                opcode, targets = part.split(":")
                for target in ("gfx" + name for name in targets.split(",")):
                    encoding = next(found for found in encodings[instructions.TARGETS[target]] if found[0] == family)
                    for _ in range(per_row):
                        values = {"op": int(opcode, 16)}
                        for field, (_, width) in encoding[3].items():
                            if field != "op" and uses(field, operands, forms):
                                values[field] = plausible(generator, field, width, modifiers)
                        words = instructions.words(encoding, values) + [generator.getrandbits(32) for _ in range(2)]
                        asked.append((target, 64 if instructions.TARGETS[target] == "9" else 32, words))
    return asked


def uses(field, operands, forms):
    """Whether an instruction has a field: others hold nothing."""
    names = re.split(r"[ :?]+", operands)
    also = {"saddr": ("sve",), "vaddr": ("offen", "idxen"), "offset": ("ioffset", "soffset", "soe", "imm"), "simm16": ("simm16",)}
    if field in instructions.MODIFIERS or field in ("opy", "srcy0", "vsrcy1", "vdsty") or field in names:
        return True
    if field in ("offset", "offset0", "offset1"):
        return bool(set(forms) & set("12"))
    return any(field in fields for name, fields in also.items() if name in names)


def plausible(generator, field, width, modifiers):
    if field in instructions.MODIFIERS:
        fixed = re.search(rf"\b{field}=(\w+)", modifiers)
        if fixed:
            return int(fixed.group(1), 16)
        mask = re.search(rf"\b{field}:(\w+)", modifiers)
        return generator.getrandbits(width) & int(mask.group(1), 16) if mask and generator.random() < 0.5 else 0
    if field in ("srsrc", "sbase"):
        return 2 * generator.randrange(12)
    if field in ("sdst", "ssrc0", "ssrc1", "sdata", "saddr", "soffset", "rsrc"):
        return 4 * generator.randrange(20)
    if field in ("src0", "src1", "src2", "srcx0", "srcy0"):
        return generator.choice((256 + 2 * generator.randrange(100), 256 + 2 * generator.randrange(60), 4 * generator.randrange(20),
                                 generator.choice((128, 129, 193, 240, 242, 248, 255, 253))))
    if width == 8:
        return 2 * generator.randrange(100)
    return generator.getrandbits(width) if generator.random() < 0.5 else 0


def object_words(path):
    data = open(path, "rb").read()
    if data[:4] != b"\x7fELF":
        return None, []
    flags = struct.unpack_from("<I", data, 48)[0]
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = []
    for at in range(count):
        kind, attributes, _, place, length = struct.unpack_from("<IQQQQ", data, offset + at * size + 4)
        if kind == 1 and attributes & 4:
            sections.append(struct.unpack_from(f"<{length // 4}I", data, place))
    return MACHINES.get(flags & 0xff), sections


def wave_size(path):
    notes = subprocess.run(["llvm-readelf-19", "--notes", path], capture_output=True, text=True).stdout
    found = re.search(r"wavefront_size: (\d+)", notes)
    return int(found.group(1)) if found else None


def objects(paths):
    asked = []
    for path in paths:
        target, sections = object_words(path)
        lanes = wave_size(path) or (64 if instructions.TARGETS.get(target) == "9" else 32)
        for section in sections if target else []:
            asked.append((target, lanes, section))
    return asked


def main():
    library = instructions.load(sys.argv[1])
    made = {}

    def disassembler(target, lanes):
        if (target, lanes) not in made:
            generation = instructions.TARGETS[target]
            features = "" if generation == "9" else ("+real-true16," if generation in ("11", "12") else "") + f"+wavefrontsize{lanes}"
            made[target, lanes] = instructions.Disassembler(library, target, features)
        return made[target, lanes]

    kinds = collections.Counter()
    examples = collections.defaultdict(list)
    if len(sys.argv) > 2:
        asked = []
        for target, lanes, words in objects(sys.argv[2:]):
            disassemble, at = disassembler(target, lanes), 0
            while at < len(words):
                found = disassemble(list(words[at : at + 4]) + [0, 0])
                asked.append((target, lanes, list(words[at : at + 4]), found))
                at += found[1] if found else 1
    else:
        rows = random_rows(20)
        asks = [lambda at: disassembler(rows[at][0], rows[at][1])(rows[at][2])]
        answers = dict(instructions.guarded(asks[0], range(len(rows))))
        asked = [(*row, answers[at]) for at, row in enumerate(rows)]
    for (target, _, words, theirs), (length, text) in zip(asked, ours([row[:3] for row in asked])):
        name = text.split(" ")[0]
        if theirs is None and text.startswith("!"):
            kind = "neither"
        elif theirs is None:
            kind, name = "ours alone", name
        elif text.startswith("!"):
            kind, name = "LLVM's alone", theirs[0].split(" ")[0]
        elif int(length) != theirs[1]:
            kind = "length"
        elif plain(text) == plain(theirs[0]):
            kind = "same"
        elif instructions.split(plain(text)) == instructions.split(plain(theirs[0])):
            kind = "modifiers"
        else:
            kind = "differs"
        kinds[kind] += 1
        if len(examples[kind, name]) < 1:
            examples[kind, name].append((target, " ".join(f"{word:08X}" for word in words), text, theirs and theirs[0]))
    print(dict(kinds))
    for (kind, _), found in sorted(examples.items()):
        if kind not in ("same", "neither"):
            for target, words, text, theirs in found:
                print(f"{kind}\t{target}\t{words}\t{text}\t{theirs}")


if __name__ == "__main__":
    main()
