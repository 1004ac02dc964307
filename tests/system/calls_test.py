"""Calls with replies awaited by a program."""
from harness import KINDS, Statistics, SystemTest, program

PATHS = ("auto", "never")
# Calls loading the kernel and getting the first memory, and the copy of the result.
FIRST_AND_LAST = 20


class Calls(SystemTest):
    def run_posts(self, path, kind, mode):
        result = self.run_command(self.cuspan("run", "--same-node", path, "--stats", "--", program("posts", kind), mode),
                                  self.environment(1), status=0)
        self.assertIn("PASS", result.stdout)
        return int(Statistics(result.stderr).rows[0]["calls"])

    def test_a_loop_waits_once_for_each_synchronisation(self):
        for path in PATHS:
            for kind in KINDS:
                with self.subTest(path=path, kind=kind):
                    self.assertLessEqual(self.run_posts(path, kind, "loop"), 100 + FIRST_AND_LAST)

    def test_freed_memory_is_waited_for_where_the_program_could_tell(self):
        """cudaFree waits for copies and kernels: their data in the program's memory is then complete."""
        for path in PATHS:
            for mode in ("copy", "kernel"):
                with self.subTest(path=path, mode=mode):
                    self.run_posts(path, "static", mode)
