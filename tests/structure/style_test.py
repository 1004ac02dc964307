#!/usr/bin/env python3
"""Checks of style: sources formatted by clang-format, with at most 600 lines; scripts without warnings of
shellcheck; and sorted lists of sources in CMake files, one source per line.

Usage: style_test.py ROOT_OF_THE_REPOSITORY CLANG_FORMAT SHELLCHECK
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
CLANG_FORMAT = sys.argv.pop(1)
SHELLCHECK = sys.argv.pop(1)

FOLDERS = ("bench", "common", "interpose", "launcher", "protocol", "proxy", "tests")
FORMATTED = (".c", ".cc", ".cu", ".cuh", ".h")
# Longer files usually have two subjects.
MOST_LINES = 600
SOURCE = re.compile(r"[\w./-]+\.(?:c|cc|cu|S)")


def files_below(root, folders, suffixes):
    return sorted(path for folder in folders for path in pathlib.Path(root, folder).rglob("*")
                  if path.suffix in suffixes and path.is_file())


def format_problems(root):
    """Changes proposed by clang-format, a line each."""
    files = files_below(root, FOLDERS, FORMATTED)
    configuration = f"--style=file:{ROOT / '.clang-format'}"

    def check(some):
        run = subprocess.run([CLANG_FORMAT, "--dry-run", configuration, *some], capture_output=True, text=True,
                             check=False)
        return [line for line in run.stderr.splitlines() if "warning:" in line or "error:" in line]
    batches = [files[i:i + 40] for i in range(0, len(files), 40)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return len(files), [problem for problems in pool.map(check, batches) for problem in problems]


def length_problems(root):
    problems = []
    for path in files_below(root, FOLDERS, FORMATTED):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > MOST_LINES:
            problems.append(f"{path.relative_to(root).as_posix()}: {lines} lines")
    return problems


def is_shell(path):
    if path.suffix == ".sh":
        return True
    try:
        with path.open("rb") as file:
            first = file.readline(80)
    except OSError:
        return False
    return path.suffix == "" and first.startswith(b"#!") and first.rstrip().endswith(b"sh")


def shell_problems(root):
    files = sorted(path for folder in (*FOLDERS, "deploy", ".ci") for path in pathlib.Path(root, folder).rglob("*")
                   if path.is_file() and is_shell(path))
    if not files:
        return 0, []
    run = subprocess.run([SHELLCHECK, "--external-sources", "--format=gcc", *files], capture_output=True, text=True,
                         cwd=root, check=False)
    return len(files), run.stdout.splitlines() + run.stderr.splitlines()


def list_problems(root):
    """Unsorted lists of three or more sources in CMake files, or lists with several sources on a line."""
    problems = []
    for path in sorted(pathlib.Path(root).rglob("CMakeLists.txt")):
        if "build" in path.relative_to(root).parts:
            continue
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        runs, run = [], []
        for number, line in enumerate(text.splitlines(), 1):
            code = line.split("#", 1)[0].strip().rstrip(")")
            words = code.split()
            plain = [word for word in words if SOURCE.fullmatch(word)]
            if len(plain) > 2 and len(plain) >= len(words) - 2:
                problems.append(f"{name}:{number}: several sources on a line; write one a line")
            if len(words) == 1 and plain:
                run.append((number, plain[0]))
            else:
                runs.append(run)
                run = []
        runs.append(run)
        for run in runs:
            names = [source for _, source in run]
            if names != sorted(names):
                problems.append(f"{name}:{run[0][0]}: sources are not sorted")
    return problems


class Style(unittest.TestCase):
    maxDiff = None

    def test_sources_are_formatted(self):
        count, problems = format_problems(ROOT)
        self.assertGreater(count, 500, "the sources were not found")
        self.assertEqual(problems, [], "run clang-format-16 -i over these files")

    def test_sources_are_no_longer_than_a_subject_needs(self):
        self.assertEqual(length_problems(ROOT), [])

    def test_scripts_pass_shellcheck(self):
        count, problems = shell_problems(ROOT)
        self.assertGreater(count, 5, "the scripts were not found")
        self.assertEqual(problems, [])

    def test_lists_of_sources_are_sorted(self):
        self.assertEqual(list_problems(ROOT), [])


class TheTestItself(unittest.TestCase):
    """Checks that the test finds planted problems."""

    def repository(self, name, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, name)
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        return pathlib.Path(folder.name)

    def test_a_source_that_is_not_formatted(self):
        self.assertEqual(len(format_problems(self.repository("common/a.cc", "int  x;\n"))[1]), 1)
        self.assertEqual(format_problems(self.repository("common/a.cc", "int x;\n"))[1], [])

    def test_a_source_that_is_too_long(self):
        self.assertEqual(len(length_problems(self.repository("common/a.cc", "\n" * 601))), 1)
        self.assertEqual(length_problems(self.repository("common/a.cc", "\n" * 600)), [])

    def test_a_script_with_a_fault(self):
        fault = "#!/usr/bin/env bash\nrm $1\n"
        self.assertNotEqual(shell_problems(self.repository("deploy/a.sh", fault))[1], [])
        self.assertNotEqual(shell_problems(self.repository(".ci/run", fault))[1], [])
        self.assertEqual(shell_problems(self.repository("deploy/a.sh", fault.replace("$1", '"$1"')))[1], [])

    def test_lists(self):
        self.assertEqual(len(list_problems(self.repository("a/CMakeLists.txt", "add(x\n  b.cc\n  a.cc)\n"))), 1)
        self.assertEqual(len(list_problems(self.repository("a/CMakeLists.txt", "add(x a.cc b.cc c.cc)\n"))), 1)
        self.assertEqual(list_problems(self.repository("a/CMakeLists.txt", "add(x\n  a.cc\n  b.cc)\n")), [])


if __name__ == "__main__":
    unittest.main()
