#!/usr/bin/env python3
"""Makes ops.gen.h from ops.table: one struct an op, its number, its name, and the dispatch.

Usage: generate_ops.py ops.table ops.gen.h
Nothing that is generated contains logic longer than a call; the layout of a
field belongs to protocol/api/codec.h. A row that is wrong is named and the build stops.
"""
import hashlib
import re
import sys

SCALARS = {
    "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t",
    "i32": "std::int32_t", "f32": "float", "bool": "bool", "str": "std::string",
    "bytes": "Bytes", "key": "Key128", "dim3": "Dim3",
}
CLASSES = ("control", "posted", "call", "push", "chunk")


def fail(line_number, message):
    sys.exit(f"ops.table:{line_number}: {message}")


def cpp_type(name, line_number):
    if name in SCALARS:
        return SCALARS[name]
    match = re.fullmatch(r"list<(\w+)>", name)
    if match:
        if match.group(1) == "bool":
            fail(line_number, "list<bool> has no elements to decode into; take list<u8>")
        return f"std::vector<{cpp_type(match.group(1), line_number)}>"
    if re.fullmatch(r"[A-Z]\w+", name):
        return name
    fail(line_number, f"unknown type '{name}'")


def parse_fields(words, line_number):
    fields = []
    for word in words:
        name, colon, kind = word.partition(":")
        if not colon or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            fail(line_number, f"a field is written name:type, not '{word}'")
        if name in (known for known, _ in fields):
            fail(line_number, f"two fields are called '{name}'")
        fields.append((name, cpp_type(kind, line_number)))
    return fields


def parse(text):
    rows, numbers, names = [], {}, {}
    for line_number, line in enumerate(text.splitlines(), 1):
        code = line.split("#", 1)[0].split()
        if not code:
            continue
        if len(code) < 3 or not re.fullmatch("[0-9]+", code[0]):
            fail(line_number, "a row is NUMBER NAME CLASS field:type …")
        number, name, kind = int(code[0]), code[1], code[2]
        if not 0 < number < 65536:
            fail(line_number, f"number {number} does not fit 16 bits")
        if number in numbers:
            fail(line_number, f"number {number} is taken by {numbers[number]}")
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", name) or name in names:
            fail(line_number, f"'{name}' is no new CamelCase name")
        if kind not in CLASSES:
            fail(line_number, f"class '{kind}' is none of {', '.join(CLASSES)}")
        words = code[3:]
        reply = None
        if "->" in words:
            arrow = words.index("->")
            reply = parse_fields(words[arrow + 1:], line_number)
            words = words[:arrow]
        if (reply is not None) != (kind == "call"):
            fail(line_number, "a call has fields behind an arrow, and nothing else has")
        numbers[number] = name
        names[name] = number
        rows.append((number, name, kind, parse_fields(words, line_number), reply))
    return rows


def struct_body(fields, indent):
    pad = " " * indent
    lines = [f"{pad}{cpp} {name}{{}};" for name, cpp in fields]
    visits = "".join(f" visit(self.{name});" for name, _ in fields)
    unused = "" if fields else "[[maybe_unused]] "
    lines.append(f"{pad}template <typename Self, typename Visitor>")
    lines.append(f"{pad}static void VisitFields({unused}Self& self, {unused}Visitor&& visit) {{{visits} }}")
    return lines


def generate(rows, table_hash):
    out = [
        "// Generated from protocol/api/ops.table by generate_ops.py; not to be edited.",
        "#pragma once",
        "",
        '#include "protocol/api/types.h"',
        "",
        "namespace cuspan {",
        "",
        "// Of the table's rows: two sides that speak differently notice it in the handshake.",
        f"inline constexpr std::uint64_t kOpTableHash = 0x{table_hash:016x};",
        "",
        "enum class Op : std::uint16_t {",
    ]
    out += [f"  k{name} = {number}," for number, name, *_ in rows]
    out += ["};", ""]
    for number, name, kind, fields, reply in rows:
        out.append(f"struct {name} {{")
        out.append(f"  static constexpr Op kOp = Op::k{name};")
        out.append(f"  static constexpr OpClass kClass = OpClass::k{kind.capitalize()};")
        out += struct_body(fields, 2)
        if reply is not None:
            out.append("  struct Reply {")
            out += struct_body(reply, 4)
            out.append("  };")
        out += ["};", ""]
    out.append("// The op's name in the table, or \"unknown\".")
    out.append("constexpr const char* OpName(Op op) {")
    out.append("  switch (op) {")
    out += [f'    case Op::k{name}: return "{name}";' for _, name, *_ in rows]
    out += ["  }", '  return "unknown";', "}", ""]
    out.append("// Calls use.template operator()<T>() with the struct of `op`; false when there is no such op.")
    out.append("template <typename Use>")
    out.append("bool WithOp(Op op, Use&& use) {")
    out.append("  switch (op) {")
    for _, name, *_ in rows:
        out.append(f"    case Op::k{name}: use.template operator()<{name}>(); return true;")
    out += ["  }", "  return false;", "}", "", "}  // namespace cuspan", ""]
    return "\n".join(out)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as table:
        rows = parse(table.read())
    canonical = repr(rows).encode()
    table_hash = int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big")
    with open(sys.argv[2], "w", encoding="utf-8") as header:
        header.write(generate(rows, table_hash))


if __name__ == "__main__":
    main()
