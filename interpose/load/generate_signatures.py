"""Tables by which a statically linked CUDA runtime is found in a stripped file (see signatures.h).

  generate_signatures.py describe LABEL libcudart_static.a > signatures/LABEL.txt
  generate_signatures.py tables EXPORTS.txt OUTPUT.c (LABEL.txt | LABEL=libcudart_static.a)…

`describe` writes what is known of one release of the runtime as text: where in its code each
function that we answer lies, and a hash of bytes of it. `tables` makes the C tables of several.

The library is one object file, whose .text a linker moves as a whole. It fills in the fields that
relocations name, and rewrites some instructions around them, so only bytes away from those are
hashed. Relocation types and what linkers make of them: System V ABI, AMD64 supplement, 4.4 and
B.2; of thread-local ones: Drepper, "ELF Handling For Thread-Local Storage", 4.4.6 and 5.5.
"""

import bisect
import re
import struct
import sys

import exports_list

WINDOW = 32  # Bytes of an anchor; kWindow in signatures.cc.
STEP = 16  # Anchors lie at multiples of this; kStep there.
LONGEST = 240  # Bytes hashed of one function.
CUDA_FUNCTION = re.compile(r"(__)?cuda[A-Z]\w*")

# What a linker may change around a relocation of each type: bytes before its field, bytes from it on.
TOUCHED = {1: (0, 8), 2: (0, 4), 4: (1, 4), 9: (3, 4), 10: (0, 4), 11: (0, 4), 19: (4, 12), 20: (3, 10),
           21: (0, 4), 22: (3, 4), 23: (0, 4), 24: (0, 8), 41: (2, 4), 42: (3, 4)}


def hash_of(data):
    """The hash of some bytes; Hash in signatures.cc."""
    result = len(data)
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at:at + 8], "little")
        result = ((result ^ word) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        result ^= result >> 29
    return result


def members(archive):
    """The files in a static library."""
    if archive[:8] != b"!<arch>\n":
        sys.exit("this is not a static library")
    at = 8
    while at + 60 <= len(archive):
        size = int(archive[at + 48:at + 58])
        name = archive[at:at + 16].strip()
        if name not in (b"/", b"//", b"/SYM64/"):
            yield archive[at + 60:at + 60 + size]
        at += 60 + size + size % 2


class Code:
    """The section .text of a relocatable ELF file, its functions and what a linker changes in it."""

    def __init__(self, data):
        offset, = struct.unpack_from("<Q", data, 40)
        count, names = struct.unpack_from("<HH", data, 60)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]

        def text(table, at):
            start = sections[table][4] + at
            return data[start:data.index(b"\0", start)].decode()

        self.number = next(i for i, s in enumerate(sections) if text(names, s[0]) == ".text")
        section = sections[self.number]
        self.bytes = data[section[4]:section[4] + section[5]]
        self.touched = bytearray(len(self.bytes))
        self.functions = []  # (offset, size, name)
        self.starts = {len(self.bytes)}  # Of anything with a name, and the end.
        for kind in sections:
            if kind[1] == 2:  # SHT_SYMTAB
                for at in range(kind[4], kind[4] + kind[5], 24):
                    name, info, _, where, value, size = struct.unpack_from("<IBBHQQ", data, at)
                    if where == self.number and info & 15 not in (3, 4):
                        self.starts.add(value)
                        if info & 15 == 2:
                            self.functions.append((value, size, text(kind[6], name)))
            if kind[1] == 4 and kind[7] == self.number:  # SHT_RELA
                for at in range(kind[4], kind[4] + kind[5], 24):
                    field, info, _ = struct.unpack_from("<QQq", data, at)
                    if info & 0xFFFFFFFF == 0:
                        continue
                    before, behind = TOUCHED[info & 0xFFFFFFFF]
                    for byte in range(max(0, field - before), min(field + behind, len(self.bytes))):
                        self.touched[byte] = 1
        self.starts = sorted(self.starts)

    def run(self, begin, end):
        """The longest piece of [begin, end) that no linker touches: (where, length)."""
        best = (begin, 0)
        start = begin
        for at in range(begin, end + 1):
            if at == end or self.touched[at]:
                if at - start > best[1]:
                    best = (start, at - start)
                start = at + 1
        return best[0], min(best[1], LONGEST)

    def anchor(self):
        """Where a piece of code lies that is nowhere else in it and that no linker touches."""
        windows = [(hash_of(self.bytes[at:at + WINDOW]), at)
                   for at in range(0, len(self.bytes) - WINDOW, STEP)]
        known = [value for value, _ in windows]
        for begin, size, _ in sorted(self.functions):
            if begin % STEP == 0 and size >= WINDOW and not any(self.touched[begin:begin + WINDOW]):
                value = hash_of(self.bytes[begin:begin + WINDOW])
                if known.count(value) == 1:
                    return begin, value
        sys.exit("no part of the code tells where it is")


def describe(path):
    """The lines of a description."""
    with open(path, "rb") as file:
        objects = [Code(member) for member in members(file.read())]
    code = max(objects, key=lambda one: len(one.bytes))
    lines = ["anchor {:x} {:016x}".format(*code.anchor())]
    for begin, size, name in sorted(code.functions):
        if not CUDA_FUNCTION.fullmatch(name):
            continue
        room = code.starts[bisect.bisect_right(code.starts, begin)] - begin
        where, length = code.run(begin, begin + size)
        # Half of the hash does: all functions must match at once.
        value = hash_of(code.bytes[where:where + length]) & 0xFFFFFFFF
        lines.append(f"{name} {begin:x} {size:x} {room:x} {where - begin:x} {length:x} {value:08x}")
    return lines


def tables(exports, output, sources):
    """Writes the C tables of several releases, each once."""
    index = {export.name: number for number, export in enumerate(exports_list.read(exports))}
    code, releases, seen = [], [], set()
    for source in sources:
        if "=" in source:
            label, path = source.split("=", 1)
            lines = describe(path)
        else:
            with open(source, encoding="ascii") as file:
                lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        if tuple(lines) in seen:
            continue
        seen.add(tuple(lines))
        _, anchor, value = lines[0].split()
        rows = [line.split() for line in lines[1:]]
        rows = [row for row in rows if row[0] in index]
        number = len(releases)
        code.append(f"static const struct signature rows_{number}[] = {{")
        code += [f"  {{{index[name]}, 0x{length}, 0x{begin}, 0x{size}, 0x{room}, 0x{run}, 0x{value_}u}},"
                 for name, begin, size, room, run, length, value_ in rows]
        code.append("};")
        releases.append(f"  {{0x{anchor}, {len(rows)}, 0x{value}u, rows_{number}}},")
    head = ["#include <stddef.h>", "#include <stdint.h>", "", "// As in signatures.h.",
            "struct signature { uint16_t export_index, run_length; uint32_t offset, size, room, run, hash; };",
            "struct release { uint32_t anchor, count; uint64_t anchor_hash; const struct signature* rows; };"]
    tail = ["extern const struct release cuspan_cudart_releases[];", "extern const size_t cuspan_cudart_releases_count;",
            "const struct release cuspan_cudart_releases[] = {", *releases, "};",
            f"const size_t cuspan_cudart_releases_count = {len(releases)};"]
    with open(output, "w", encoding="ascii") as file:
        file.write("\n".join(head + code + tail) + "\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "describe":
        print(f"# The functions of {sys.argv[2]}'s libcudart_static.a; made by generate_signatures.py: a place"
              " that\n# is found by its hash, then name, offset, size, room, hashed piece, its length, hash (hexadecimal).")
        print("\n".join(describe(sys.argv[3])))
    elif len(sys.argv) > 4 and sys.argv[1] == "tables":
        tables(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
