#!/usr/bin/env python3
"""Generates two headers from ops.table: structs.gen.h with the structs used as fields, and ops.gen.h with one struct
per op, its number, its name, and the dispatch.

Usage: generate_ops.py ops.table FOLDER_OF_THE_HEADERS Generated functions contain no logic longer than a call;
protocol/api/codec.h defines the layout of fields. If a row is wrong, the build stops with its line number.
"""
import dataclasses
import hashlib
import pathlib
import re
import sys

SCALARS = {
    "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t",
    "i32": "std::int32_t", "f32": "float", "f64": "double", "bool": "bool", "str": "std::string",
    "bytes": "Bytes", "key": "Key128",
}
UNSIGNED = ("u8", "u16", "u32", "u64")
# Element types of fixed-size arrays: types of fixed length.
FIXED = (*UNSIGNED, "i32", "f32", "f64")
CLASSES = ("control", "agents", "posted", "call", "push", "chunk")
# Access of a posted op to memory; see the table's head.
MEMORY = ("none", "names", "memory", "program", "words", "kernels", "graph")
# Names of fields with addresses, also in structs.
ADDRESSES = ("address", "destination", "source", "send", "receive")
# Classes sent by a client to a proxy; the proxy has a handler for each op.
HANDLED = ("posted", "call", "chunk")


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    type: str  # Type in the table.
    cpp: str
    default: str  # C++ expression; empty: zero.
    comment: str


@dataclasses.dataclass(frozen=True)
class Struct:
    name: str
    fields: tuple
    comment: str


@dataclasses.dataclass(frozen=True)
class Row:
    number: int
    name: str
    kind: str
    memory: str  # Empty unless posted.
    fields: tuple
    reply: tuple | None
    comment: str


def fail(line_number, message):
    sys.exit(f"ops.table:{line_number}: {message}")


def cpp_type(name, structs, line_number):
    if name in SCALARS:
        return SCALARS[name]
    match = re.fullmatch(r"list<(\w+)>", name)
    if match:
        if match.group(1) == "bool":
            fail(line_number, "list<bool> has no elements to decode into; use list<u8>")
        return f"std::vector<{cpp_type(match.group(1), structs, line_number)}>"
    match = re.fullmatch(r"(\w+)\[([1-9][0-9]{0,3})\]", name)
    if match:
        if match.group(1) not in FIXED:
            fail(line_number, f"elements of a fixed-size array are one of {', '.join(FIXED)}, not '{match.group(1)}'")
        return f"std::array<{SCALARS[match.group(1)]}, {match.group(2)}>"
    if name in structs:
        return name
    if re.fullmatch(r"[A-Z]\w+", name):
        fail(line_number, f"struct '{name}' is not defined above this row")
    fail(line_number, f"unknown type '{name}'")


def parse_default(text, kind, cpp, line_number):
    """The initial value of a field: a number, or max, the largest of its type."""
    if kind not in UNSIGNED or not re.fullmatch("[0-9]+|max", text):
        fail(line_number, f"a default is a number or max, for one of {', '.join(UNSIGNED)}; not '{kind}={text}'")
    if text == "max":
        return f"std::numeric_limits<{cpp}>::max()"
    if int(text) >= 1 << int(kind[1:]):
        fail(line_number, f"{text} does not fit {kind}")
    return text


def parse_fields(words, structs, line_number, comment=""):
    fields = []
    for word in words:
        name, colon, kind = word.partition(":")
        kind, equals, default = kind.partition("=")
        if not colon or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            fail(line_number, f"a field is written name:type, not '{word}'")
        cpp = cpp_type(kind, structs, line_number)
        default = parse_default(default, kind, cpp, line_number) if equals else ""
        # A comment after several fields applies to all of them: it is written once.
        fields.append(Field(name, kind, cpp, default, comment if word is words[0] else ""))
    return fields


def check_names(fields, line_number):
    known = set()
    for field in fields:
        if field.name in known:
            fail(line_number, f"two fields are called '{field.name}'")
        known.add(field.name)


class Table:
    """The rows and structs of the table, in its order."""

    def __init__(self, text):
        self.rows, self.structs = [], {}
        self._numbers = {}
        self._open = None  # The struct still accepting fields: name, comment, fields, line.
        for line_number, line in enumerate(text.splitlines(), 1):
            code, _, comment = line.partition("#")
            words, comment = code.split(), comment.strip()
            if not words:
                if not comment:
                    self._close()
                continue
            if line[0].isspace():
                self._continue(words, comment, line_number)
                continue
            self._close()
            if words[0] == "struct":
                self._begin(words[1:], comment, line_number)
            else:
                self._row(words, comment, line_number)
        self._close()

    def _check_name(self, name, line_number):
        taken = name in self.structs or any(row.name == name for row in self.rows)
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", name) or taken:
            fail(line_number, f"'{name}' is not a new CamelCase name")

    def _begin(self, words, comment, line_number):
        if not words:
            fail(line_number, "a struct is: struct NAME [field:type …], and more fields on indented lines")
        self._check_name(words[0], line_number)
        self._open = (words[0], comment, parse_fields(words[1:], self.structs, line_number), line_number)

    def _continue(self, words, comment, line_number):
        if self._open is None:
            fail(line_number, "an indented line belongs to a struct, but no struct is above it")
        self._open[2].extend(parse_fields(words, self.structs, line_number, comment))
        check_names(self._open[2], line_number)

    def _close(self):
        if self._open is None:
            return
        name, comment, fields, line_number = self._open
        if not fields:
            fail(line_number, f"struct '{name}' has no fields")
        check_names(fields, line_number)
        self.structs[name] = Struct(name, tuple(fields), comment)
        self._open = None

    def _row(self, words, comment, line_number):
        if len(words) < 3 or not re.fullmatch("[0-9]+", words[0]):
            fail(line_number, "a row is NUMBER NAME CLASS field:type …")
        number, name = int(words[0]), words[1]
        kind, _, memory = words[2].partition(":")
        if not 0 < number < 65536:
            fail(line_number, f"number {number} does not fit 16 bits")
        if number in self._numbers:
            fail(line_number, f"number {number} is taken by {self._numbers[number]}")
        self._check_name(name, line_number)
        if kind not in CLASSES:
            fail(line_number, f"unknown class '{kind}'; use one of {', '.join(CLASSES)}")
        words = words[3:]
        reply = None
        if "->" in words:
            arrow = words.index("->")
            reply = tuple(parse_fields(words[arrow + 1:], self.structs, line_number))
            check_names(reply, line_number)
            words = words[:arrow]
        if (reply is not None) != (kind == "call"):
            fail(line_number, "a call has fields behind an arrow, other classes have none")
        fields = tuple(parse_fields(words, self.structs, line_number))
        check_names(fields, line_number)
        self._check_memory(kind, memory, fields, line_number)
        self._numbers[number] = name
        self.rows.append(Row(number, name, kind, memory, fields, reply, comment))

    def _addresses(self, fields):
        """Names of the addresses in the fields."""
        for field in fields:
            if field.name in ADDRESSES:
                yield field.name
            inner = re.sub(r"list<(\w+)>", r"\1", field.type)
            if inner in self.structs:
                yield from (f"{field.name}.{name}" for name in self._addresses(self.structs[inner].fields))

    def _check_memory(self, kind, memory, fields, line_number):
        if kind != "posted":
            if memory:
                fail(line_number, f"only posted ops have a memory word; '{kind}' has none")
            return
        if memory not in MEMORY:
            fail(line_number, f"a posted op is posted:MEMORY, with one of {', '.join(MEMORY)}; not '{memory}'")
        addresses = list(self._addresses(fields))
        if memory == "none" and addresses:
            fail(line_number, f"'{addresses[0]}' is an address: use posted:names if the op does not access its memory")
        if memory in ("memory", "program", "words") and not addresses:
            fail(line_number, f"posted:{memory} needs an address, one of {', '.join(ADDRESSES)}")


    def hash(self):
        """Hash of everything that affects the meaning of the bytes: numbers, names, classes, and the types of all
        fields down to the scalars. Comments and initial values are not included."""
        def of(fields):
            return None if fields is None else [(field.name, field.type) for field in fields]
        canonical = repr(([(struct.name, of(struct.fields)) for struct in self.structs.values()],
                          [(row.number, row.name, row.kind, of(row.fields), of(row.reply)) for row in self.rows]))
        return int.from_bytes(hashlib.sha256(canonical.encode()).digest()[:8], "big")


def comment_lines(comment, pad=""):
    return [f"{pad}// {comment[0].upper()}{comment[1:]}"] if comment else []


def struct_body(fields, indent):
    pad = " " * indent
    lines = []
    for field in fields:
        lines += comment_lines(field.comment, pad)
        lines.append(f"{pad}{field.cpp} {field.name}{{{field.default}}};")
    visits = "".join(f" visit(self.{field.name});" for field in fields)
    unused = "" if fields else "[[maybe_unused]] "
    lines.append(f"{pad}template <typename Self, typename Visitor>")
    lines.append(f"{pad}static void VisitFields({unused}Self& self, {unused}Visitor&& visit) {{{visits} }}")
    return lines


HEAD = [
    "// Generated from protocol/api/ops.table by generate_ops.py; not to be edited.",
    "#pragma once",
    "",
]


def structs_header(table):
    out = HEAD + ["#include <limits>", "", '#include "protocol/api/types.h"', "", "namespace cuspan {", ""]
    for struct in table.structs.values():
        out += comment_lines(struct.comment)
        out += [f"struct {struct.name} {{", *struct_body(struct.fields, 2), "};", ""]
    return "\n".join([*out, "}  // namespace cuspan", ""])


def ops_header(table):
    rows = table.rows
    out = HEAD + [
        '#include "structs.gen.h"',
        "",
        "namespace cuspan {",
        "",
        "// Of the table's rows and structs: two sides that speak differently notice it in the handshake.",
        f"inline constexpr std::uint64_t kOpTableHash = 0x{table.hash():016x};",
        "",
        "enum class Op : std::uint16_t {",
    ]
    out += [f"  k{row.name} = {row.number}," for row in rows]
    out += [
        "};", "",
        "// All ops, in the order of the table; T::kIndex is the place of T's here.",
        f"inline constexpr std::size_t kOpCount = {len(rows)};",
        "inline constexpr Op kAllOps[] = {",
    ]
    out += [f"    Op::k{row.name}," for row in rows]
    out += ["};", ""]
    for index, row in enumerate(rows):
        out += comment_lines(row.comment)
        out.append(f"struct {row.name} {{")
        out.append(f"  static constexpr Op kOp = Op::k{row.name};")
        out.append(f"  static constexpr std::size_t kIndex = {index};")
        out.append(f"  static constexpr OpClass kClass = OpClass::k{row.kind.capitalize()};")
        if row.memory:
            out.append(f"  static constexpr MemoryUse kMemory = MemoryUse::k{row.memory.capitalize()};")
        out += struct_body(row.fields, 2)
        if row.reply is not None:
            out += ["  struct Reply {", *struct_body(row.reply, 4), "  };"]
        out += ["};", ""]
    out.append("// The op's name in the table, or \"unknown\".")
    out.append("constexpr const char* OpName(Op op) {")
    out.append("  switch (op) {")
    out += [f'    case Op::k{row.name}: return "{row.name}";' for row in rows]
    out += ["  }", '  return "unknown";', "}", ""]
    out.append("// Calls use.template operator()<T>() with the struct of `op`; false when there is no such op.")
    out.append("template <typename Use>")
    out.append("bool WithOp(Op op, Use&& use) {")
    out.append("  switch (op) {")
    for row in rows:
        out.append(f"    case Op::k{row.name}: use.template operator()<{row.name}>(); return true;")
    out += ["  }", "  return false;", "}", ""]
    out.append("// Calls X(Name) for each op that a client sends to a proxy.")
    out.append("#define CUSPAN_FOR_EACH_OP_OF_A_PROXY(X) \\")
    out.append(" \\\n".join(f"  X({row.name})" for row in rows if row.kind in HANDLED))
    out += ["", "}  // namespace cuspan", ""]
    return "\n".join(out)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    table = Table(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("structs.gen.h", structs_header(table)), ("ops.gen.h", ops_header(table))):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
