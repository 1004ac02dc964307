#!/usr/bin/env python3
"""Checks that each file includes, directly or indirectly, a header declaring each name used.

The compiler notices a missing include only in sources compiled alone. The CI build compiles the sources of a target
together (CMAKE_UNITY_BUILD), and a source may rely on the includes of another. This test covers types, constants,
macros and functions declared in our headers outside of classes.

Usage: names_test.py ROOT_OF_THE_REPOSITORY
"""
import functools
import pathlib
import re
import sys
import tempfile
import unittest

from sources import LAYERS, includes, sources

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()

FOLDERS = (*LAYERS, "bench")
# Source of generated names; their headers are not in the repository.
OP_TABLE = "protocol/api/ops.table"
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
INCLUDE_LINE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)
# Declarations at the beginning of a line belong to a namespace, not to a class.
DECLARED = re.compile(
    r"^(?:template <.*>\s)?(?:class|struct|union|enum class|enum|using)\s(?:alignas\(\w+\)\s)?(\w+)\b(?!::)"
    r"|^(?:inline |extern |static )*const(?:expr|init)? [\w:<>,* ]+?\b(k[A-Z]\w*)\b"
    r"|^[ \t]*#[ \t]*define (\w+)"
    r"|^(?!return |else |using |#)(?:template <.*>\s)?(?:[\w:<>,&*\[\]]+ )+[&*]?([A-Z]\w*)\(", re.MULTILINE)
# Also members, parameters and variables: a name may refer to them instead.
KNOWN = re.compile(r"\b(?:enum class|class|struct|union|enum|using|typename|define|case)\s+(\w+)"
                   r"|[\w>&*\])]\s+[&*]*(?:\w+::)*(\w+)\s*[({;=,)\[:]"
                   r"|^\s*(k\w+)\b(?=[,\s=}])|[{,]\s*(k[A-Z]\w*)\b", re.MULTILINE)
# A name without qualification: not after "::", "." or "->".
NAMED = re.compile(r"(?<![\w.:])(?<!->)([A-Za-z_]\w*)\b")
# Names qualified with a foreign namespace.
FOREIGN = re.compile(r"\b(?:std|llvm|spdlog|fmt|testing|CLI|nlohmann|chrono|this_thread)::[\w:]*")


class File:
    """A file's own declarations, the names it uses, and the files of the repository it includes."""

    def __init__(self, root, path):
        text = path.read_text(encoding="utf-8")
        self.name = path.relative_to(root).as_posix()
        self.includes = [included for _, included, quoted in includes(path) if quoted and "/" in included]
        code = INCLUDE_LINE.sub("", NOT_CODE.sub(" ", text))
        self.declares = {name for match in DECLARED.finditer(code) for name in match.groups() if name}
        self.known = {name for match in KNOWN.finditer(code) for name in match.groups() if name} | self.declares
        self.code = FOREIGN.sub(" ", code)

    def line_of(self, name):
        return self.code.count("\n", 0, re.search(rf"\b{name}\b", self.code).start()) + 1


def may_include(name, header):
    """True if the file's layer may include the header's layer."""
    layer, other = name.split("/", 1)[0], header.split("/", 1)[0]
    return layer not in LAYERS or other in ("common", "protocol", layer)


def problems(root):
    files = {}
    for path in sources(root, FOLDERS):
        if path.suffix in (".h", ".cc", ".def", ".inc"):
            file = File(root, path)
            files[file.name] = file

    table = root / OP_TABLE
    generated = set(re.findall(r"\w+", table.read_text(encoding="utf-8"))) if table.exists() else set()

    @functools.cache
    def reached(name):
        """Files included by a file, directly or indirectly."""
        found, rest = set(), [name]
        while rest:
            file = files.get(rest.pop())
            new = set(file.includes) - found if file else set()
            found |= new
            rest += new
        return found

    declared_in = {}
    for file in files.values():
        if file.name.endswith(".h"):
            for name in file.declares:
                declared_in.setdefault(name, set()).add(file.name)
    for file in files.values():
        if not file.name.endswith((".h", ".cc")):
            continue
        included = reached(file.name)
        known = file.known.union(generated, *(files[name].known for name in included if name in files))
        for name in sorted(set(NAMED.findall(file.code)) & declared_in.keys() - known):
            homes = sorted(home for home in declared_in[name] if may_include(file.name, home))
            if homes:
                yield (f"{file.name}:{file.line_of(name)}: includes no header that declares {name}, "
                       f"as {' or '.join(homes)} does")


class Names(unittest.TestCase):
    maxDiff = None

    def test_the_repository(self):
        self.assertEqual(list(problems(ROOT)), [])


class TheTestItself(unittest.TestCase):
    """Checks that the test finds planted problems."""

    HEADER = """#pragma once
namespace cuspan {
struct Thing {
  int Count();
};
inline constexpr int kMost = 3;
int Make(int value);
#define CUSPAN_TWICE(x) x x
}
"""

    def found(self, source, **headers):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "common").mkdir()
            for name, text in (("a.cc", source), ("thing.h", self.HEADER),
                               *((f"{name}.h", text) for name, text in headers.items())):
                (root / "common" / name).write_text(text, encoding="utf-8")
            return [re.sub(r" as .*", "", problem) for problem in problems(root)]

    def test_names_without_their_header(self):
        for use, name in (("Thing thing;", "Thing"), ("int i = kMost;", "kMost"), ("int i = Make(1);", "Make"),
                          ("CUSPAN_TWICE(;)", "CUSPAN_TWICE")):
            self.assertEqual(self.found(f"\nnamespace cuspan {{\n{use}\n}}\n"),
                             [f"common/a.cc:3: includes no header that declares {name},"])

    def test_names_with_their_header(self):
        uses = "Thing thing;\nint i = kMost + Make(1);\nCUSPAN_TWICE(;)\n"
        self.assertEqual(self.found('#include "common/thing.h"\n' + uses), [])
        self.assertEqual(self.found('#include "common/more.h"\n' + uses, more='#include "common/thing.h"\n'), [])

    def test_names_of_others(self):
        for use in ("class Thing;", "enum class Thing { kMost };", "int n = object.Make(1);", "int n = std::Make(2);",
                    "// Thing", 'const char* text = "Thing";', "int Make(int other);"):
            self.assertEqual(self.found(use + "\n"), [], use)


if __name__ == "__main__":
    unittest.main()
