"""Generates the table of CUDA functions printed by `cuspan support`, and the tables of docs/support.md.

The sources are the export lists of the runtime, the driver, NVML, NCCL and cuFile: interpose/load/runtime_exports.txt,
interpose/driver/driver_exports.txt, interpose/nvml/nvml_exports.txt, interpose/nccl/nccl_exports.txt,
interpose/cufile/cufile_exports.txt. They list missing support after a colon. Omitted are functions not called by name
(__cuda…), second names (pnccl…), and twins for per-thread default streams. Driver and NVML functions with several
versions (_v2, _v3, …) appear once, with the newest version under the name without a suffix.
"""

import argparse
import pathlib
import re
import sys
import textwrap

import exports_list

HEADINGS = ("The runtime", "The driver", "The management library", "The library of collectives", "The library for files")
LIBRARIES = ("libcudart 11 to 13", "libcuda (CUDA 13.0)", "libnvidia-ml (NVML 13)", "libnccl (NCCL 2.28)",
             "libcufile (cuFile 1.20)")
BEGIN, END = "<!-- functions: begin -->", "<!-- functions: end -->"


def read_table(path):
    """List of (name, status, missing parts), sorted by name. Status: "yes", "partly" or "no"."""
    table = {}
    newest = {}
    for export in exports_list.read(path):
        status = {"": "yes", "not": "no", "absent": "no"}.get(export.note, "partly")
        name = export.name
        if export.since:
            name = re.sub(r"_v\d+(?=$|_pt)", "", name)
            if newest.setdefault(name, 0) > export.since:
                continue
            newest[name] = export.since
        table[name] = (status, export.note.removeprefix("partly ") if status == "partly" else "")
    for name in list(table):
        plain = re.sub(r"_pt[sd][sz]$", "", name)
        if name.startswith(("__", "cudbg", "pnccl")) or (plain != name and plain in table):
            if plain in table and table[plain][0] != table[name][0] and not name.startswith("__"):
                sys.exit(f"{path}: {name} and {plain} differ in their support")
            del table[name]
    return sorted((name, *entry) for name, entry in table.items())


def family(name):
    """Common prefix of related functions: cudaGraphicsMapResources -> cudaGraphics."""
    return re.match(r"(?:cu(?:da|File)?|nvml|nccl)(?:[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]*)?", name).group()


def library_part(library, table):
    """Lines of the document about the functions of one library."""
    count = {status: sum(1 for entry in table if entry[1] == status) for status in ("yes", "partly", "no")}
    lines = [f"Of {len(table)} functions of {library}, {count['yes']} are supported, "
             f"{count['partly']} are partly supported,", f"and {count['no']} are not supported.", ""]
    if count["partly"]:
        lines += ["| partly supported | limitations |", "| --- | --- |"]
        lines += [f"| `{name}` | {missing} |" for name, status, missing in table if status == "partly"]
        lines.append("")
    families = {}
    for name, status, _ in table:
        if status == "no":
            families.setdefault(family(name), []).append(name)
    if count["no"]:
        lines += ["Not supported:", ""]
    for _, names in sorted(families.items()):
        lines += textwrap.wrap(", ".join(f"`{name}`" for name in names), width=100, initial_indent="- ",
                               subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines


def document_part(tables):
    lines = [BEGIN]
    for heading, library, table in zip(HEADINGS, LIBRARIES, tables):
        lines += ["", f"### {heading}", "", *library_part(library, table)]
        while lines[-1] == "":
            lines.pop()
    return "\n".join([*lines, "", END])


def with_document_part(text, tables):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        sys.exit(f"the document has no lines '{BEGIN}' and '{END}'")
    return text[:begin] + document_part(tables) + text[end + len(END):]


def source_text(table):
    lines = ['#include "launcher/command/support.h"', "", "namespace cuspan {", "",
             "const SupportEntry kSupportTable[] = {"]
    for name, status, missing in table:
        quoted = missing.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'    {{"{name}", Support::k{status.capitalize()}, "{quoted}"}},')
    lines += ["};", f"const std::size_t kSupportTableSize = {len(table)};", "", "}  // namespace cuspan", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists", type=pathlib.Path, nargs=5,
                        help="the lists of entry points: runtime, driver, NVML, NCCL, cuFile")
    parser.add_argument("--source", type=pathlib.Path, help="the C++ file to write")
    parser.add_argument("--document", type=pathlib.Path, help="the document whose tables to renew")
    options = parser.parse_args()
    tables = [read_table(path) for path in options.lists]
    if options.source:
        options.source.write_text(source_text(sorted(sum(tables, []))), encoding="utf-8")
    if options.document:
        text = options.document.read_text(encoding="utf-8")
        options.document.write_text(with_document_part(text, tables), encoding="utf-8")


if __name__ == "__main__":
    main()
