"""CUSPAN_SOFT_WAITS: a driver whose calls wait for running kernels wherever those of a real one may do so. cuspan must
make none of these calls of its own accord while a kernel may depend on the program."""
from harness import SystemTest, app, ways

# Programs in which a running kernel, or a stream, waits for the host.
PROGRAMS = {"driver_memops": [], "driver_turns": ["20"], "host_functions": [], "latches": ["10"], "launch_waits": ["100"],
            "managed_turns": [], "mapped": ["30000"], "registered": ["30000"]}


class DriverWaits(SystemTest):
    def test_programs_waiting_for_their_kernels(self):
        for same_node, relay in ways():
            for name, arguments in PROGRAMS.items():
                with self.subTest(same_node=same_node, relay=relay, name=name):
                    command = self.cuspan("run", "--same-node", same_node, "--relay", relay, "--", app(name, "shared"), *arguments)
                    result = self.run_command(command, self.environment(1, CUSPAN_SOFT_WAITS="on"), 0)
                    self.assertIn("PASS", result.stdout)

    def test_another_word_is_refused(self):
        result = self.run_command(self.cuspan("run", "--", app("vector_add", "shared")),
                                  self.environment(CUSPAN_SOFT_WAITS="maybe"), status=None)
        self.assertIn("CUSPAN_SOFT_WAITS='maybe' is neither on nor off", result.stderr)
