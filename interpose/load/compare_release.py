#!/usr/bin/env python3
"""Compares the headers of a CUDA release with cuspan's tables, and names everything without a verdict.

A function has a verdict if it has a row in its library's export list, an error if it is in its table, and a device
attribute if it is a case of attributes.cc or a row of reported_attributes.txt (both in interpose/calls/base). Each line
of the result is a table and the missing row. Functions are not supported at first, and the driver's are absent. Errors
need a text in place of TEXT, one row if both APIs have the number. Rows not declared by the headers are notes: older
programs need them. With --against, enumerators, structures, types, prototypes and macros that differ from another
release are listed: these may need code.

Headers:
{headers}

Exit status: 0 if everything has a verdict, 1 if something has none, 2 for wrong use. A missing header is reported, and
the others are compared.
"""
import argparse
import dataclasses
import difflib
import fnmatch
import os
import pathlib
import re
import sys
import textwrap

import exports_list
import release_headers
from release_headers import HeaderError

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUDA_ERRORS = "common/cuda_errors.def"
ATTRIBUTE_CODE = "interpose/calls/base/attributes.cc"
ATTRIBUTE_LIST = "interpose/calls/base/reported_attributes.txt"
ATTRIBUTE_PREFIX = "CU_DEVICE_ATTRIBUTE_"
# Ends of enumerations, and the first number of errors no longer used.
NO_VALUES = {"CU_DEVICE_ATTRIBUTE_MAX", "cudaDevAttrMax", "cudaErrorApiFailureBase", "ncclNumResults"}
# Enumerations compared with tables.
COMPARED_ENUMS = {"CUresult", "CUdevice_attribute", "cudaError", "cudaDeviceAttr", "nvmlReturn_t", "ncclResult_t"}
# Declared functions missing in NVIDIA's library (driver 580 for x86-64).
NOT_EXPORTED = {"cuEventCreateFromEGLSync"}

STREAM_MEANINGS = ([], ["__CUDA_API_VERSION_INTERNAL"], ["CUDA_API_PER_THREAD_DEFAULT_STREAM"])
WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Library:
    header: str
    others: tuple  # Further headers with declarations; patterns as of the shell may match none.
    package: str  # NVIDIA's Python wheel and Debian package with the header.
    releases: tuple  # Macros with the release.
    exports: str  # Export list; it may not exist yet.
    meanings: tuple = ([],)  # Lists of macros with different names of functions.


LIBRARIES = (
    Library("cuda.h", ("cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"),
            "wheel nvidia-cuda-runtime, Debian package cuda-cudart-dev-…", ("CUDA_VERSION",),
            "interpose/driver/driver_exports.txt", STREAM_MEANINGS),
    Library("cuda_runtime_api.h",
            ("cuda_profiler_api.h", "cuda_gl_interop.h", "cuda_egl_interop.h", "cuda_vdpau_interop.h", "driver_types.h",
             "device_types.h", "library_types.h", "surface_types.h", "texture_types.h"),
            "wheel nvidia-cuda-runtime, Debian package cuda-cudart-dev-…", ("CUDART_VERSION",),
            "interpose/load/runtime_exports.txt", STREAM_MEANINGS),
    Library("nvml.h", (), "wheel nvidia-nvml-dev, Debian package cuda-nvml-dev-…", ("NVML_API_VERSION",),
            "interpose/nvml/nvml_exports.txt", ([], ["NVML_NO_UNVERSIONED_FUNC_DEFS"])),
    Library("nccl.h", ("nccl_device/*.h",), "wheel nvidia-nccl-cu13, Debian package libnccl-dev",
            ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"), "interpose/nccl/nccl_exports.txt"),
    Library("cufile.h", (), "wheel nvidia-cufile, Debian package libcufile-dev-…", (),
            "interpose/cufile/cufile_exports.txt"),
)
# Packages of headers included by these.
PACKAGES = {
    "crt/*": "wheel nvidia-cuda-crt, Debian package cuda-crt-…",
    "cuda*[Pp]rofiler*": "wheel nvidia-cuda-profiler-api, Debian package cuda-profiler-api-…",
    "*/*": "not a header of CUDA",
    "*": LIBRARIES[0].package,
}


class Headers:
    """The headers of one release in some folders, and the names of their libraries' declarations."""

    def __init__(self, folders, compiler):
        self.given = folders
        self.folders = [path for folder in folders for path in release_headers.folders_of(folder)]
        self.compiler = compiler
        self.notes = {}  # Missing headers, as sentences, by library's header.
        self.declarations = {}  # Those of each library compared, by its header.
        self.typedefs = ""
        for library in LIBRARIES:
            self.notes[library.header] = []
            self.read(library)
        for path in (release_headers.find(f"cuda{part}Typedefs.h", self.folders)
                     for part in ("", "GL", "EGL", "VDPAU", "Profiler")):
            self.typedefs += path.read_text(encoding="utf-8", errors="replace") if path else ""

    def read(self, library):
        if not self.has(library.header, library.package, library):
            return
        headers = [library.header]
        for name in library.others:
            if "*" in name:
                folder = release_headers.find(library.header, self.folders).parent
                headers += sorted(path.relative_to(folder).as_posix() for path in folder.glob(name))
            elif self.has(name, package_of(name), library):
                headers.append(name)
        try:
            self.declarations[library.header] = release_headers.read(headers, self.folders, library.meanings,
                                                                     self.compiler)
        except HeaderError as error:
            if not error.missing:
                raise HeaderError(f"{library.header}: {error}") from error
            self.has(error.missing, package_of(error.missing), library)
            self.notes[library.header].append(f"{library.header} includes {error.missing}: not compared")

    def has(self, name, package, library):
        if release_headers.find(name, self.folders):
            return True
        self.notes[library.header].append(
            f"{name}: not found in {', '.join(map(str, self.folders))}; {package}")
        return False


def package_of(name):
    return next(package for pattern, package in PACKAGES.items() if fnmatch.fnmatch(name, pattern))


def stem_of(name):
    """Name of a function without the suffixes of its version and its default stream."""
    return re.sub(r"(?:_v\d+)?(?:_pt[sd][sz])?$", "", name)


def row_of(library, name, prototype, headers):
    """The row of an unsupported function in its export list."""
    if library.header == "cuda.h":
        twin = re.search(r"(?:_pt[sd][sz])?$", name)[0]
        versions = re.findall(rf"\bPFN_{stem_of(name)}_v(\d+){twin}\)", headers.typedefs)
        version = max(map(int, versions), default=0) or headers.declarations["cuda.h"].macros.get("CUDA_VERSION")
        return f"{name} {version} : absent"
    if library.header == "nvml.h":
        return f"{name} {(re.search('_v([0-9]+)$', name) or [1, 1])[1]} : not"
    if library.header == "nccl.h" and name.startswith("pnccl"):
        return f"{name} = {name[1:]}"
    result = prototype.partition(" (")[0]
    if library.header == "cufile.h":
        kind = {"CUfileError_t": " pair", "ssize_t": " count", "long": " pointer"}.get(result, "")
        return f"{name}{kind} : not"
    return f"{name}{' pointer' if result.endswith('*') else ''} : not"


def compare_functions(library, found, headers):
    """The missing rows, and notes."""
    path = ROOT / library.exports
    functions = found.functions
    if not path.exists():
        return [], [f"{library.exports}: no table; {len(functions)} functions have no verdict"]
    names = {export.name for export in exports_list.read(path)}
    rows = [f"{library.exports}: {row_of(library, name, functions[name], headers)}"
            for name in sorted(functions.keys() - names - NOT_EXPORTED)]
    old = sorted(names - functions.keys())
    return rows, [f"{library.exports}: {len(old)} of {len(names)} rows are not declared: {', '.join(old)}"] if old else []


def cuda_errors():
    """(number, name in driver_types.h or None, name in cuda.h or None) of each error."""
    text = (ROOT / CUDA_ERRORS).read_text(encoding="utf-8")
    for kind, number, first, second in re.findall(r"^CUSPAN_(\w+)_ERROR\((\d+), (\w+), (\w+)?", text, re.MULTILINE):
        yield (int(number), None if kind == "DRIVER" else first,
               {"CUDA": second, "RUNTIME": None, "DRIVER": first}[kind])


def compare_errors(table, kind, known, values):
    """Rows of enumerators of an error type missing in `known`, {name: number}, or a sentence for another number."""
    for name, value in values.items():
        if name not in known:
            result = ", CUDA_ERROR_…" if kind == "RUNTIME" else ""
            yield f'{table}: CUSPAN_{kind}_ERROR({value}, {name}{result}, "TEXT")'
        elif known[name] != value:
            yield f"{table}: {name} is {value}, not {known[name]}"


def compare_numbers(table, known, own, values):
    """Enumerators missing in the numbers `known`. Names of cuspan, {name: number}, end the header's name of this number."""
    for name, value in values.items():
        if value not in known:
            yield f"{table}: {name} = {value}"
        spelled = name.title().replace("_", "") if "_" in name else name
        for other, number in own.items():
            if number == value and not spelled.endswith(other):
                yield f"{table}: {value} is {name}, not {other}"


def own_enum(path, name):
    """Constants of an enumeration in a header of cuspan, without the prefix k."""
    body = re.search(rf"^enum {name} : int {{(.*?)}};", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1]
    return {constant: int(value) for constant, value in re.findall(r"\bk(\w+) = (\d+)", body)}


def known_attributes():
    """Names of the device attributes with a verdict, without the common prefix."""
    cases = re.findall(rf"case {ATTRIBUTE_PREFIX}(\w+):", (ROOT / ATTRIBUTE_CODE).read_text(encoding="utf-8"))
    lines = (ROOT / ATTRIBUTE_LIST).read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    wrong = [line for line in listed if not re.fullmatch(r"[A-Z][A-Z0-9_]+", line)]
    if wrong:
        sys.exit(f"{ATTRIBUTE_LIST}: not the name of an attribute: {wrong[0]}")
    twice = sorted(name for name in set(cases + listed) if (cases + listed).count(name) > 1)
    if twice:
        sys.exit(f"{ATTRIBUTE_LIST}: listed twice, or also a case of {ATTRIBUTE_CODE}: {', '.join(twice)}")
    return set(cases + listed)


def values_of(found, enum):
    return {name: value for name, value in found.enums.get(enum, {}).items() if name not in NO_VALUES}


def compare_values(library, found, headers):
    """Missing or different errors and device attributes."""
    if library.header == "cuda.h":
        known = {name: number for number, _, name in cuda_errors() if name}
        yield from compare_errors(CUDA_ERRORS, "DRIVER", known, values_of(found, "CUresult"))
        attributes = known_attributes()
        for name, value in values_of(found, "CUdevice_attribute").items():
            if name.removeprefix(ATTRIBUTE_PREFIX) not in attributes:
                yield f"{ATTRIBUTE_LIST}: {name.removeprefix(ATTRIBUTE_PREFIX)}"
    elif library.header == "cuda_runtime_api.h":
        known = {name: number for number, name, _ in cuda_errors() if name}
        yield from compare_errors(CUDA_ERRORS, "RUNTIME", known, values_of(found, "cudaError"))
        # Attributes of both APIs have the same numbers; the tables have the driver's names.
        if "cuda.h" in headers.declarations:
            numbers = headers.declarations["cuda.h"].enums["CUdevice_attribute"].values()
            for name, value in values_of(found, "cudaDeviceAttr").items():
                if value not in numbers:
                    yield f"{ATTRIBUTE_LIST}: {name} ({value}), missing in cuda.h"
    elif library.header == "nvml.h":
        texts = (ROOT / "interpose/nvml/init.cc").read_text(encoding="utf-8")
        own = own_enum("protocol/nvml/nvml.h", "Return")
        texts = {int(number) for number in re.findall(r'^    {(\d+), "', texts, re.MULTILINE)}
        yield from compare_numbers("interpose/nvml/init.cc", texts | set(own.values()), own,
                                   values_of(found, "nvmlReturn_t"))
    elif library.header == "nccl.h":
        own = own_enum("protocol/nccl/nccl.h", "Result")
        yield from compare_numbers("protocol/nccl/nccl.h", own.values(), own, values_of(found, "ncclResult_t"))


def undeclared_values(library, found):
    """Notes about errors and attributes in the tables that no header declares."""
    if library.header == "cuda.h":
        old = known_attributes() - {name.removeprefix(ATTRIBUTE_PREFIX) for name in found.enums["CUdevice_attribute"]}
        if old:
            yield f"{ATTRIBUTE_LIST}, {ATTRIBUTE_CODE}: not declared: {', '.join(sorted(old))}"
    which, enum = {"cuda.h": (2, "CUresult"), "cuda_runtime_api.h": (1, "cudaError")}.get(library.header, (None, None))
    if enum and enum in found.enums:
        old = {row[which] for row in cuda_errors() if row[which]} - found.enums[enum].keys()
        if old:
            yield f"{CUDA_ERRORS}: not declared: {', '.join(sorted(old))}"


def changed(kind, old, new):
    """Changed values of one kind, as lines."""
    return [f"{kind} {name}: {new[name]}, before {old[name]}" for name in sorted(old.keys() & new.keys())
            if old[name] != new[name]]


def differences(found, old):
    """Differences of two releases' declarations, as lines, except rows missing in tables."""
    lines = changed("prototype of", old.functions, found.functions)
    for name, values in found.enums.items():
        before = old.enums.get(name)
        if before is None:
            lines.append(f"new enumeration {name}: " + ", ".join(f"{each} = {value}" for each, value in values.items()))
        elif name not in COMPARED_ENUMS:
            lines += [f"new enumerator of {name}: {each} = {value}" for each, value in values.items() if each not in before]
            lines += changed(f"enumerator of {name}:", before, values)
    for name, members in found.structs.items():
        before = old.structs.get(name)
        if before is None:
            lines.append(f"new structure {name}")
        elif before != members:
            lines += [f"structure {name}:"] + [line for line in difflib.ndiff(before, members) if line[0] in "-+"]
    lines += changed("type", old.aliases, found.aliases)
    functions = found.functions.keys() | old.functions.keys()

    def constants(macros):
        return {name: value for name, value in macros.items() if name not in functions and value not in functions}
    before, now = constants(old.macros), constants(found.macros)
    lines += [f"new macro {name}: {now[name]}" for name in sorted(now.keys() - before.keys())]
    return lines + changed("macro", before, now)


def show(lines, indent):
    for line in lines:
        print(textwrap.fill(line, width=WIDTH, initial_indent=indent, subsequent_indent=" " * (len(indent) + 2),
                            break_long_words=False, break_on_hyphens=False))


def compare(headers, old):
    """Prints the result. Returns the number of names without a verdict."""
    missing = 0
    for library in LIBRARIES:
        found = headers.declarations.get(library.header)
        notes = list(headers.notes[library.header])
        if found is None:
            print(f"{library.header}: not compared")
            show(notes, "  note: ")
            continue
        release = ", ".join(f"{macro} {found.macros[macro]}" for macro in library.releases if macro in found.macros)
        print(f"{library.header}{f' ({release})' if release else ''}: {len(found.functions)} functions")
        rows, more = compare_functions(library, found, headers)
        rows += compare_values(library, found, headers)
        missing += len(rows)
        for row in rows:
            print(f"  {row}")
        show(notes + more + list(undeclared_values(library, found)), "  note: ")
        if old and library.header in old.declarations:
            for line in differences(found, old.declarations[library.header]):
                print(f"  {'    ' if line[0] in '-+' else 'changed: '}{line}")
        elif old:
            show(old.notes[library.header], "  note: ")
    with_table = [library.header for library in LIBRARIES if (ROOT / library.exports).exists()]
    compared = ", ".join(name for name in headers.declarations if name in with_table)
    absent = ", ".join(name for name in with_table if name not in headers.declarations)
    verdict = {0: "All names have a verdict", 1: "1 name has no verdict"}.get(missing, f"{missing} names have no verdict")
    print(f"{verdict} ({compared}){f'; not compared: {absent}' if absent else ''}.")
    return missing


def folder(text):
    path = pathlib.Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return path


def main():
    table = "\n".join(f"  {library.header}: {library.package}" for library in LIBRARIES)
    parser = argparse.ArgumentParser(description=__doc__.format(headers=table),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", type=folder, nargs="+",
                        help="a folder with headers, a toolkit, or a folder of wheels installed by pip --target; the "
                             "first one containing a header is used")
    parser.add_argument("--against", metavar="OLD_DIR", type=folder, action="append",
                        help="also list the differences from the headers of another release in this folder; may be repeated")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"),
                        help="the C or C++ compiler, used as a preprocessor (default: CXX, or g++)")
    options = parser.parse_args()
    try:
        headers = Headers(options.folders, options.compiler)
        if not headers.declarations:
            parser.error("no header can be compared:\n" + "\n".join(sum(headers.notes.values(), [])))
        old = Headers(options.against, options.compiler) if options.against else None
        return 1 if compare(headers, old) else 0
    except HeaderError as error:
        print(f"compare_release.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
