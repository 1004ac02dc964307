#!/usr/bin/env python3
"""Checks that everything declared by the CUDA headers of this machine has a verdict in cuspan's tables.

The comparison is the one of interpose/load/compare_release.py. Libraries without a header on this machine are named and
skipped.

Usage: release_test.py ROOT_OF_THE_REPOSITORY COMPILER FOLDER_OF_HEADERS...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
FOLDERS = [pathlib.Path(folder) for folder in sys.argv[1:]]
del sys.argv[1:]

SCRIPT = "interpose/load/compare_release.py"
ROW = re.compile(r"^  (\S+/\S+): (.+)$", re.MULTILINE)
NOT_COMPARED = re.compile(r"^(\S+): not compared\n  note: (.*(?:\n {8}.*)*)", re.MULTILINE)


def compare(*arguments, root=ROOT):
    return subprocess.run([sys.executable, "-B", root / SCRIPT, f"--compiler={COMPILER}", *arguments],
                          capture_output=True, text=True, check=False)


def rows(run):
    """(table, row) of everything without a verdict."""
    return [row for row in ROW.findall(run.stdout) if row[0] != "note"]


class Release(unittest.TestCase):
    maxDiff = None

    def test_everything_has_a_verdict(self):
        run = compare(*FOLDERS)
        for header, reason in NOT_COMPARED.findall(run.stdout):
            print(f"release_test.py: skipped {header} ({' '.join(reason.split())})")
        self.assertRegex(run.stdout, r"\ncuda_runtime_api.h \(CUDART_VERSION \d+\): \d{3,} functions\n")
        self.assertEqual(rows(run), [], "add these rows to these tables")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class TheTestItself(unittest.TestCase):
    """Checks that the comparison finds planted names."""

    maxDiff = None

    def folder(self, **headers):
        """A folder with these headers; the names have no suffix."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in headers.items():
            pathlib.Path(folder.name, f"{name}.h").write_text(text, encoding="utf-8")
        return pathlib.Path(folder.name)

    def planted(self, **headers):
        """A folder with the toolkit's headers. `headers` are, by name, pairs of a pattern and a text inserted before it."""
        original = next(folder for folder in FOLDERS if (folder / "cuda.h").exists())
        folder = self.folder()
        for path in original.iterdir():
            (folder / path.name).symlink_to(path.resolve())
        for name, insertions in headers.items():
            path = folder / f"{name}.h"
            text = path.read_text(encoding="utf-8")
            for before, inserted in insertions:
                self.assertRegex(text, re.compile(before, re.MULTILINE))
                text = re.sub(before, lambda found, inserted=inserted: f"\n{inserted}\n{found[0]}", text, count=1,
                              flags=re.MULTILINE)
            path.unlink()
            path.write_text(text, encoding="utf-8")
        return folder

    def test_planted_names(self):
        run = compare(self.planted(
            cuda=[(r"^CUresult CUDAAPI cuInit\(", "#define cuPlanted cuPlanted_v2\nCUresult CUDAAPI cuPlanted(int *value);"),
                  (r"^ *CUDA_ERROR_UNKNOWN\b", "CUDA_ERROR_PLANTED = 9999,"),
                  (r"^ *CU_DEVICE_ATTRIBUTE_MAX$", "CU_DEVICE_ATTRIBUTE_PLANTED = 9998,")],
            cuda_runtime_api=[(r"^extern .*cudaDeviceReset\(", "extern __CUDA_DEPRECATED __host__ __cudart_builtin__ "
                               "cudaError_t CUDARTAPI cudaPlanted(int a __dv(0));")]))
        version = re.search(r"CUDA_VERSION (\d+)", run.stdout)[1]
        self.assertEqual(sorted(rows(run)), [
            ("common/cuda_errors.def", 'CUSPAN_DRIVER_ERROR(9999, CUDA_ERROR_PLANTED, "TEXT")'),
            ("interpose/calls/base/reported_attributes.txt", "PLANTED"),
            ("interpose/driver/driver_exports.txt", f"cuPlanted_v2 {version} : absent"),
            ("interpose/load/runtime_exports.txt", "cudaPlanted : not")])
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)

    def test_planted_attribute_and_error_of_the_runtime(self):
        run = compare(self.planted(driver_types=[(r"^ *cudaErrorUnknown\b", "cudaErrorPlanted = 9999,"),
                                                 (r"^ *cudaDevAttrMax$", "cudaDevAttrPlanted = 9998,")]))
        self.assertEqual(sorted(rows(run)), [
            ("common/cuda_errors.def", 'CUSPAN_RUNTIME_ERROR(9999, cudaErrorPlanted, CUDA_ERROR_…, "TEXT")'),
            ("interpose/calls/base/reported_attributes.txt", "cudaDevAttrPlanted (9998), missing in cuda.h")])

    NVML = """
#define NVML_API_VERSION 13
#define DECLDIR
#ifndef NVML_NO_UNVERSIONED_FUNC_DEFS
  #define nvmlInit nvmlInit_v2
  #define nvmlPlanted nvmlPlanted_v3
#endif
typedef enum nvmlReturn_enum { NVML_SUCCESS = 0, NVML_ERROR_PLANTED = 998, NVML_ERROR_LOST = 1 << 4 | 9 } nvmlReturn_t;
nvmlReturn_t DECLDIR nvmlInit_v2(void); // nvmlReturn_t DECLDIR nvmlComment(void);
nvmlReturn_t DECLDIR nvmlPlanted (nvmlDevice_t device, /* the value */ unsigned int *value);
#ifdef NVML_NO_UNVERSIONED_FUNC_DEFS
nvmlReturn_t DECLDIR nvmlInit(void);
#endif
static inline int nvmlInline(void) { return 0; }
"""

    def test_versions_and_numbers(self):
        run = compare(self.folder(nvml=self.NVML))
        self.assertEqual(rows(run), [
            ("interpose/nvml/nvml_exports.txt", "nvmlPlanted 1 : not"),
            ("interpose/nvml/nvml_exports.txt", "nvmlPlanted_v3 3 : not"),
            ("interpose/nvml/init.cc", "NVML_ERROR_PLANTED = 998"),
            ("interpose/nvml/init.cc", "25 is NVML_ERROR_LOST, not VersionMismatch")])
        self.assertEqual(run.returncode, 1)

    def test_a_renumbered_error(self):
        run = compare(self.folder(cuda="typedef enum cudaError_enum { CUDA_SUCCESS, CUDA_ERROR_NOT_FOUND = 501 } CUresult;"))
        self.assertEqual(rows(run), [("common/cuda_errors.def", "CUDA_ERROR_NOT_FOUND is 501, not 500")])

    NCCL = """
#include <cuda_runtime.h>
typedef enum { ncclSuccess = 0, ncclUnhandledCudaError, ncclNumResults = 8 } ncclResult_t;
typedef enum { %s } ncclKind_t;
typedef struct %s ncclConfig_t;
typedef ncclConfig%s ncclInfo_t;
#define NCCL_FLAG %s
ncclResult_t ncclSend(const void* %s, size_t count);
"""

    def nccl(self, *parts):
        return self.folder(nccl=self.NCCL % parts, cuda_runtime="")

    def test_differences_of_releases(self):
        old = self.nccl("ncclA, ncclB", "{ int a; union { int b; } c; }", "1", "1", "buffer")
        self.assertNotIn("changed", compare(old, "--against", old).stdout)
        self.assertNotIn("prototype", compare(self.nccl("ncclA, ncclB", "{ int a; union { int b; } c; }", "1", "1", "data"),
                                              "--against", old).stdout)
        run = compare(self.nccl("ncclA, ncclC, ncclB", "{ long a; union { int b; int d; } c; } ", "2", "3", "data, int flags"),
                      "--against", old)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(re.findall(r"^  changed: .*|^      [-+] .*", run.stdout, re.MULTILINE), [
            "  changed: prototype of ncclSend: ncclResult_t (const void *, int, size_t), before ncclResult_t (const void *, size_t)",
            "  changed: new enumerator of ncclKind_t: ncclC = 1",
            "  changed: enumerator of ncclKind_t: ncclB: 2, before 1",
            "  changed: structure ncclConfig_t:", "      - int a", "      + long a", "      +   int d",
            "  changed: type ncclInfo_t: ncclConfig2, before ncclConfig1",
            "  changed: macro NCCL_FLAG: 3, before 1"])

    def test_a_library_without_a_table(self):
        folder = self.folder(cufile='extern "C" { int cuFileUseCount(void* handle); ssize_t cuFileRead(int handle); }')
        table = pathlib.Path("interpose/cufile/cufile_exports.txt")
        root = self.folder()
        for name in ("common", "protocol", *(f"interpose/{name}" for name in ("calls", "driver", "nccl", "nvml"))):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "interpose/load", root / "interpose/load")
        (root / table).parent.mkdir()
        run = compare(folder, root=root)
        self.assertIn("cufile_exports.txt: no table; 2 functions have no verdict", " ".join(run.stdout.split()))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        (root / table).write_text("cuFileRead : not\n", encoding="utf-8")
        run = compare(folder, root=root)
        self.assertEqual(rows(run), [(str(table), "cuFileUseCount : not")])
        self.assertEqual(run.returncode, 1)

    def test_missing_headers(self):
        run = compare(self.folder(nvml=""))
        self.assertRegex(" ".join(run.stdout.split()), r"nccl\.h: not found in \S+; wheel nvidia-nccl-cu13")
        run = compare(self.folder(nvml="", nccl="#include <cuda_missing.h>\n"))
        self.assertIn("nccl.h includes cuda_missing.h: not compared", run.stdout)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_wrong_use(self):
        for arguments in ([], ["/nowhere"], [self.folder()]):
            run = compare(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
        run = compare(self.folder(nvml="int a["))
        self.assertEqual(run.returncode, 2, run.stdout)


if __name__ == "__main__":
    unittest.main()
