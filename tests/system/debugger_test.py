"""Programs under gdb from their first instruction on: gdb sets its breakpoint in the dynamic loader before cuspan's
library is loaded."""
import shutil
import sys
import unittest

from harness import SystemTest, build, own_lines


@unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
class Debugger(SystemTest):
    def gdb(self, commands, *program):
        arguments = ["-iex", "set auto-load no", "-iex", "set debuginfod enabled off", "-batch"]
        for command in commands:
            arguments += ["-ex", command]
        result = self.run_command(self.cuspan("run", "--", "gdb", *arguments, "--args", *program))
        self.assertEqual(own_lines(result.stderr), [])
        return result.stdout

    @staticmethod
    def kind(name):
        return str(build() / "tests/system/programs/kinds" / name)

    def test_libraries_that_are_loaded_later(self):
        said = self.gdb(["run"], self.kind("loads"), *map(self.kind, ("libadds.so", "libadds_stripped.so", "libadds_shared.so")))
        self.assertIn("PASS\n", said)
        self.assertIn("exited normally", said)

    def test_it_sees_libraries_come_and_stops_in_them(self):
        said = self.gdb(["set breakpoint pending on", "break AddsOnDevice", "run", "info symbol $pc", "continue", "continue"],
                        self.kind("loads"), self.kind("libadds.so"))
        self.assertEqual(said.count("hit Breakpoint 1") + said.count("\nBreakpoint 1, "), 2, said)
        self.assertIn("AddsOnDevice", said)
        self.assertIn("PASS\n", said)

    def test_python(self):
        code = f"import ctypes; print('adds', ctypes.CDLL({self.kind('libadds.so')!r}).AddsOnDevice(5))"
        self.assertIn("adds 1\n", self.gdb(["run"], sys.executable, "-c", code))
