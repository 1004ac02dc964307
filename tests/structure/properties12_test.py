#!/usr/bin/env python3
"""Checks interpose/runtime/device_properties_12.h against the headers of CUDA 12.

Both declarations are compiled, and print offset and size of each member.

Usage: properties12_test.py ROOT_OF_THE_REPOSITORY COMPILER INCLUDES_OF_CUDA_12 INCLUDES_OF_THE_BUILD...
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
CUDA_12, *BUILD = sys.argv[1:]
del sys.argv[1:]

HEADER = ROOT / "interpose/runtime/device_properties_12.h"
STRUCTURE = re.compile(r"^struct DeviceProperties12 \{\n(.*?)^\};$", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^  [\w:]+ (\w+)(?:\[\d+\])?;$", re.MULTILINE)


def members(text):
    return MEMBER.findall(STRUCTURE.search(text)[1])


def layout(structure, includes, folders, names):
    """(name, offset, size) of each member, and the size of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "layout")
        lines = "".join(f'  std::printf("{name} %zu %zu\\n", offsetof({structure}, {name}), sizeof({structure}::{name}));\n'
                        for name in names)
        source = (f'#include <cstddef>\n#include <cstdio>\n{includes}\nint main() {{\n{lines}'
                  f'  std::printf("whole 0 %zu\\n", sizeof({structure}));\n}}\n')
        # Headers missing in the wheel of CUDA 12 are those of the build's toolkit.
        first, *others = folders
        subprocess.run([COMPILER, "-std=c++20", "-x", "c++", "-", "-o", program, "-isystem", first,
                        *(word for other in others for word in ("-idirafter", other))],
                       input=source, text=True, check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


class Properties12(unittest.TestCase):
    maxDiff = None

    def cuda(self, names):
        return layout("cudaDeviceProp", "#include <driver_types.h>", [CUDA_12, *BUILD], names)

    def test_members_are_at_their_places(self):
        names = members(HEADER.read_text(encoding="utf-8"))
        ours = layout("cuspan::DeviceProperties12", f'#include "{HEADER}"', BUILD, names)
        self.assertEqual(ours, self.cuda(names))

    def test_every_member_is_declared(self):
        text = pathlib.Path(CUDA_12, "driver_types.h").read_text(encoding="utf-8")
        body = re.search(r"struct __device_builtin__ cudaDeviceProp\s*\{(.*?)\n\};", text, re.DOTALL)[1]
        theirs = re.findall(r"(\w+)(?:\[\d+\])?;", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
        self.assertEqual(members(HEADER.read_text(encoding="utf-8")), theirs)

    def test_the_headers_are_of_cuda_12(self):
        text = pathlib.Path(CUDA_12, "cuda_runtime_api.h").read_text(encoding="utf-8")
        self.assertRegex(text, r"#define CUDART_VERSION +12\d+")


if __name__ == "__main__":
    unittest.main()
