#!/usr/bin/env python3
"""Checks the list of supported entry points: against the library, against docs/support.md, and against the calls of
libraries and frameworks.

Usage: support_test.py ROOT_OF_THE_REPOSITORY LIBCUSPAN NM
"""
import csv
import pathlib
import re
import subprocess
import sys
import unittest

ROOT, LIBRARY, NM = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "interpose/load"))
import exports_list  # noqa: E402: found by the line above.
import generate_support  # noqa: E402: the same.

LISTS = [ROOT / "interpose" / path
         for path in ("load/runtime_exports.txt", "driver/driver_exports.txt", "nvml/nvml_exports.txt",
                      "nccl/nccl_exports.txt", "cufile/cufile_exports.txt")]

# Functions named by 18 libraries and frameworks (imported, looked up, or contained as a string), and the libraries seen
# calling them on a GPU.
LIBRARY_CALLS = {"driver": LISTS[1], "nvml": LISTS[2]}


def base_of(name):
    """The name of a function without the suffixes of its variants."""
    return re.sub(r"(?:_v\d+)?(?:_ptsz|_ptds)?$", "", name)


class SupportTest(unittest.TestCase):
    def test_the_library_refuses_what_the_list_says_and_nothing_else(self):
        output = subprocess.run([NM, "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
        # Refusing definitions are weak, to be replaced by a real definition.
        weak = {words[2]: words[1] == "W" for words in map(str.split, output.splitlines()) if len(words) == 3}
        for export in sum(map(exports_list.read, LISTS), []):
            with self.subTest(name=export.name):
                self.assertIn(export.name, weak, "the library does not export it")
                self.assertEqual(weak[export.name], export.note in ("not", "absent"),
                                 "refused by the library" if weak[export.name] else "not refused")

    def test_what_libraries_name_is_there_and_what_they_call_is_supported(self):
        for face, path in LIBRARY_CALLS.items():
            notes = {}
            for export in exports_list.read(path):
                notes.setdefault(base_of(export.name), []).append(export.note)
            with open(ROOT / f"tests/structure/library_calls/{face}.csv", encoding="utf-8") as rows:
                calls = list(csv.DictReader(rows))
            self.assertGreater(len(calls), 30)
            for call in calls:
                with self.subTest(name=call["function"]):
                    self.assertIn(base_of(call["function"]), notes)
                    if call["called_in_trace_by"]:
                        self.assertTrue(any(note not in ("not", "absent") for note in notes[base_of(call["function"])]))

    def test_the_document_has_a_reason_for_each_device_attribute_that_differs(self):
        code = (ROOT / "interpose/calls/base/attributes.cc").read_text(encoding="utf-8")
        document = (ROOT / "docs/support.md").read_text(encoding="utf-8")
        section = document.partition("\n## Device attributes\n")[2].partition("\n## ")[0]
        rows = [row.split("|") for row in section.splitlines() if row.startswith("| `")]
        self.assertTrue(all(len(row) == 6 and row[4].strip() for row in rows), rows)
        named = [name for row in rows for name in re.findall(r"`(\w+)`", row[1])]
        self.assertEqual(sorted(named), sorted(re.findall(r"case CU_DEVICE_ATTRIBUTE_(\w+):", code)))

    def test_the_document_shows_the_list(self):
        document = (ROOT / "docs/support.md").read_text(encoding="utf-8")
        tables = [generate_support.read_table(path) for path in LISTS]
        self.assertEqual(document, generate_support.with_document_part(document, tables),
                         "renew it: python3 interpose/load/generate_support.py interpose/load/runtime_exports.txt"
                         " interpose/driver/driver_exports.txt interpose/nvml/nvml_exports.txt interpose/nccl/nccl_exports.txt"
                         " interpose/cufile/cufile_exports.txt --document docs/support.md")


if __name__ == "__main__":
    unittest.main()
