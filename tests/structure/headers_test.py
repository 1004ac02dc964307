#!/usr/bin/env python3
"""Checks that each header compiles alone, with the flags of a source beside it.

If a header is the first include of its own source, a developer's build already compiles it alone. This is the case
for most headers, and they are left out here. The CI build compiles several sources together; names_test.py finds
missing includes there. In a build with precompiled headers (CUSPAN_PRECOMPILED), headers are compiled with these, in
half the time. A missing include of a precompiled header then goes unnoticed, but not in builds without them, such as
the preset tsan.

Usage: headers_test.py ROOT_OF_THE_REPOSITORY COMPILE_COMMANDS
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from sources import LAYERS, compile_commands, sources

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
COMMANDS = pathlib.Path(sys.argv.pop(1))


ENTRIES = list(compile_commands(COMMANDS))
COMPILED = {pathlib.Path(entry["file"]).resolve() for entry in ENTRIES}


def flags_of_folders():
    """The folder to compile in and the compiler with its flags, for each folder with C++ sources."""
    flags = {}
    for entry in ENTRIES:
        source = pathlib.Path(entry["file"]).resolve()
        if source.suffix != ".cc" or ROOT not in source.parents:
            continue
        words = shlex.split(entry["command"])
        kept, skip = [], False
        for word in words:
            if skip or word in ("-c", entry["file"]):
                skip = False
                continue
            if word in ("-o", "-MF", "-MT", "-MQ"):
                skip = True
                continue
            if word in ("-MD", "-MMD", "-Winvalid-pch"):
                continue
            kept.append(word)
        flags.setdefault(source.parent, (entry["directory"], kept))
    return flags


def flags_for(header, flags):
    """The flags of the header's folder, else of a source of its layer including it, else of the nearest folder."""
    if header.parent not in flags:
        layer = ROOT / header.relative_to(ROOT).parts[0]
        line = f'#include "{header.relative_to(ROOT).as_posix()}"'
        for source in sorted(COMPILED):
            if layer in source.parents and line in source.read_text(encoding="utf-8"):
                return flags[source.parent]
    for folder in header.parents:
        if folder in flags:
            return flags[folder]
        below = sorted(known for known in flags if folder in known.parents)
        if below and folder != ROOT:
            return flags[below[0]]
    raise KeyError(f"no source near {header} is compiled")


def problem_of(header, flags):
    """Messages of the compiler about a source including only the header, twice."""
    directory, command = flags_for(header, flags)
    name = header.relative_to(ROOT).as_posix()
    # Standard input would cause warnings such as "#pragma once in main file".
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as source:
        source.write(f'#include "{name}"\n#include "{name}"\n')
        source.flush()
        result = subprocess.run([*command, "-fsyntax-only", source.name], cwd=directory,
                                capture_output=True, text=True, check=False)
    return f"{name}:\n{result.stderr}" if result.returncode != 0 else None


def is_first_in_its_source(header):
    """True if the source of the same name is compiled and includes the header first."""
    source = header.with_suffix(".cc")
    if source not in COMPILED:
        return False
    first = re.search(r'^#include ["<](.*)[">]', source.read_text(encoding="utf-8"), re.MULTILINE)
    return first is not None and first.group(1) == header.relative_to(ROOT).as_posix()


class Headers(unittest.TestCase):
    maxDiff = None

    def test_each_may_be_included_twice(self):
        for path in sources(ROOT, LAYERS):
            if path.suffix == ".h":
                self.assertIn("#pragma once", path.read_text(encoding="utf-8"), path)

    def test_each_compiles_alone(self):
        flags = flags_of_folders()
        headers = [path for path in sources(ROOT, LAYERS) if path.suffix == ".h"]
        self.assertGreater(len(headers), 10, "the headers were not found")
        headers = [path for path in headers if not is_first_in_its_source(path)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = [problem for problem in pool.map(lambda h: problem_of(h, flags), headers) if problem]
        self.assertEqual("\n".join(problems), "")


if __name__ == "__main__":
    unittest.main()
