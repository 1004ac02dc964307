"""Output printed by kernels: complete and in the right place, for devices of the program's node and of others."""
import signal

from harness import KINDS, SystemTest, app

EXPECTED = ["program 0", "kernel 1, thread 0", "kernel 1, thread 1", "program 1: device", "kernel 2, thread 0", "program 2: stream",
            "kernel 3, thread 0", "program 3: event", "kernel 4, thread 0", "program 4: copy",
            *(f"line {i} of a kernel that says much" for i in range(2000)), "program 5: much",
            "kernel 7, thread 0", "program 8: copy to the device",
            "kernel 5, thread 0", "program 6: locked, device", "kernel 6, thread 0", "program 7: locked, event",
            *(line for i in range(9, 12) for line in (f"kernel {i}, in a function", "program 9: quiet")), "program 9: 6",
            "kernel 12, in a function", "program 10: pointer",
            *2 * ["kernel 13, thread 0", "program 11: graph"]]
PATHS = {"same-node": "auto", "agents": "never"}


class KernelOutput(SystemTest):
    def run_on(self, path, kind, *arguments, status=0):
        command = self.cuspan("run", "--same-node", PATHS[path], "--", app("kernel_output", kind), *arguments)
        return self.run_command(command, self.environment(1), status)

    def test_printed_lines_are_in_order(self):
        for path in PATHS:
            for kind in KINDS:
                with self.subTest(path=path, kind=kind):
                    result = self.run_on(path, kind)
                    self.assertEqual(result.stdout.splitlines(), [*EXPECTED, "kernel_output: PASS"])

    def test_printed_lines_are_flushed(self):
        for path in PATHS:
            with self.subTest(path=path):
                result = self.run_on(path, "static", "abort", status=-signal.SIGABRT)
                self.assertEqual(result.stdout.splitlines(), [*EXPECTED, "kernel_output: PASS", "kernel 8, thread 0"])

    def test_a_failed_assertion_is_told_before_the_error(self):
        for path in PATHS:
            with self.subTest(path=path):
                result = self.run_on(path, "static", "assert", status=3)
                self.assertEqual(result.stdout.splitlines(), EXPECTED)
                lines = result.stderr.splitlines()
                where = [i for i, line in enumerate(lines) if "thread: [3,0,0] Assertion" in line]
                self.assertEqual(len(where), 1, result.stderr)
                self.assertLess(where[0], lines.index("program: cudaErrorAssert"))
