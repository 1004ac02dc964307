#!/usr/bin/env python3
"""Limits the stack frames of the library's functions: programs make CUDA calls in threads with 24 KiB of stack.

Usage: frames_test.py LIBCUSPAN OBJDUMP
"""
import re
import subprocess
import sys
import unittest

LIBRARY, OBJDUMP = sys.argv.pop(1), sys.argv.pop(1)
# Bytes. Calls nest ten deep; most frames take some hundred bytes.
MOST = 2304
# Functions never called by program threads with a stack size of their own choice.
ELSEWHERE = {"cuspan::sharing::ShareFile::FindPath"}


class FramesTest(unittest.TestCase):
    def test_frames_are_small(self):
        code = subprocess.run([OBJDUMP, "--disassemble", "--no-show-raw-insn", "--demangle", LIBRARY], check=True,
                              capture_output=True, text=True).stdout
        frames = {}
        for line in code.splitlines():
            if function := re.match(r"[0-9a-f]+ <(.*)>:$", line):
                name = function[1]
            elif taken := re.search(r"\bsub +\$0x([0-9a-f]+),%rsp", line):
                # A frame may be allocated in steps of a page. A negative number releases stack.
                number = int(taken[1], 16)
                frames[name] = frames.get(name, 0) + (number if number < 1 << 63 else 0)
        self.assertGreater(len(frames), 1000, "the disassembly was not understood")
        large = {name: number for name, number in frames.items()
                 if number > MOST and not any(name.startswith(other) for other in ELSEWHERE)}
        self.assertEqual(large, {}, "put large objects on the heap")


if __name__ == "__main__":
    unittest.main()
