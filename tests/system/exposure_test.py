"""Pinned memory passed to kernels, or not passed, on one node and over agents."""
from harness import SystemTest, own_lines, program


class Exposure(SystemTest):
    def run_everywhere(self, name):
        for options in ([], ["--same-node", "never"], ["--hosts", "localhost:1,localhost:1", "--same-node", "never"]):
            with self.subTest(options=options):
                command = self.cuspan("run", *options, "--", program("exposure", "shared"), name)
                result = self.run_command(command)
                self.assertEqual((result.stdout, own_lines(result.stderr)), (f"{name}: PASS\n", []))

    def test_integers_that_look_like_addresses(self):
        self.run_everywhere("integers")

    def test_system_calls_while_kernels_use_the_memory(self):
        self.run_everywhere("calls")

    def test_the_hosts_address_of_registered_memory(self):
        self.run_everywhere("registered")
