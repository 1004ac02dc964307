#!/usr/bin/env python3
"""No function of the library takes much of a thread's stack: programs make CUDA calls in threads with 24 KiB of it.

Usage: frames_test.py LIBCUSPAN OBJDUMP
"""
import re
import subprocess
import sys
import unittest

LIBRARY, OBJDUMP = sys.argv.pop(1), sys.argv.pop(1)
# Bytes. Calls nest ten deep, most of them with frames of some hundred bytes.
MOST = 2304
# Functions that no thread of a program enters with a stack of its own choice.
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
                # A frame may be taken in steps, a page at a time. A negative number gives back.
                number = int(taken[1], 16)
                frames[name] = frames.get(name, 0) + (number if number < 1 << 63 else 0)
        self.assertGreater(len(frames), 1000, "the disassembly was not understood")
        large = {name: number for name, number in frames.items()
                 if number > MOST and not any(name.startswith(other) for other in ELSEWHERE)}
        self.assertEqual(large, {}, "put large objects on the heap")


if __name__ == "__main__":
    unittest.main()
