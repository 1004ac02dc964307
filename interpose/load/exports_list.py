"""Reads the lists of exported functions: runtime_exports.txt, driver_exports.txt, nvml_exports.txt, nccl_exports.txt,
cufile_exports.txt.
"""

import re
import sys
import typing


class Export(typing.NamedTuple):
    name: str
    kind: str   # Return type: "error", "pair" (of an error and a CUresult), "count" (or a negative error),
                # "pointer" or "struct:N".
    since: int  # First CUDA version of a driver function; version of an NVML function (2: _v2); 0: none given.
    alias: str  # Function with this one as another name, or "".
    note: str   # Missing support: "", "not", "absent", or "partly …".


def parse(line):
    """The line's export, or None if it has none. ValueError if the line is malformed."""
    head, _, note = (line.split("#")[0].rstrip() + " ").partition(" : ")
    words, note = head.split(), note.strip()
    if not words:
        return None
    name, alias = words[0], ""
    since = int(words.pop(1)) if re.fullmatch(r"\d+", "".join(words[1:2])) else 0
    if words[1:2] == ["="]:
        alias, words = " ".join(words[2:]), [name]
        if note:
            raise ValueError("an alias has the support of its function: remove the text after the colon")
    kind = " ".join(words[1:]) or "error"
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not re.fullmatch(r"error|pair|count|pointer|struct:[1-9]\d*", kind):
        raise ValueError("expected: a name, and its kind: error, pair, count, pointer or struct:N")
    if not re.fullmatch(r"|not|absent|partly \S.*", note):
        raise ValueError("expected after the colon: 'not', 'absent' or 'partly …'")
    return Export(name, kind, since, alias, note)


def read(path):
    """The exports of a list in the order of their names. Another name gets the kind and note of its function."""
    exports = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                export = parse(line)
                if export and export.name in exports:
                    raise ValueError("listed twice")
            except ValueError as error:
                sys.exit(f"{path}:{number}: {error}: {line.strip()}")
            if export:
                exports[export.name] = export
    for name, export in exports.items():
        if export.alias:
            function = exports.get(export.alias)
            if function is None or function.alias:
                sys.exit(f"{path}: {name} is an alias of {export.alias}, which is not a function of the list")
            exports[name] = function._replace(name=name, since=export.since, alias=export.alias)
    return sorted(exports.values())
