"""Managed memory larger than the device's memory, supported on the program's own node."""
from harness import SystemTest, app

# The software GPUs of the tests have 512 MiB.
LARGE = ["105", "5"]


class ManagedMemory(SystemTest):
    def run_large(self, kind, same_node="auto", status=0, **variables):
        command = self.cuspan("run", "--same-node", same_node, "--", app("managed_large", kind), *LARGE)
        return self.run_command(command, self.environment(1, **variables), status)

    def test_more_than_the_device_has(self):
        result = self.run_large("shared")
        self.assertEqual((result.stdout, result.stderr), ("managed_large: PASS\n", ""))

    def test_all_in_the_memory_of_the_node(self):
        result = self.run_large("static", CUSPAN_MANAGED="host")
        self.assertEqual((result.stdout, result.stderr), ("managed_large: PASS\n", ""))

    def test_host_and_kernels_at_the_same_time_in_memory_of_the_node(self):
        for devices, same_node, managed, concurrent in ((1, "auto", "auto", 1), (2, "auto", "auto", 1),
                                                        (1, "auto", "host", 1), (1, "auto", "device", 0),
                                                        (2, "auto", "device", 1), (1, "never", "auto", 0)):
            with self.subTest(devices=devices, same_node=same_node, managed=managed):
                command = self.cuspan("run", "--same-node", same_node, "--", app("managed_concurrent", "shared"))
                result = self.run_command(command, self.environment(devices, CUSPAN_MANAGED=managed), 0)
                self.assertEqual(result.stdout,
                                 f"concurrentManagedAccess {concurrent}\nmanaged_concurrent: PASS\n")

    def test_programs_with_memory_of_the_device_on_the_node(self):
        for name, arguments in (("managed", ["30000"]), ("managed_io", []), ("managed_turns", []), ("prefetch", []),
                                ("driver_memops", []), ("driver_turns", ["20"]), ("conditions", [])):
            with self.subTest(name):
                command = self.cuspan("run", "--same-node", "auto", "--", app(name, "shared"), *arguments)
                result = self.run_command(command, self.environment(1, CUSPAN_MANAGED="device"), 0)
                self.assertIn("PASS", result.stdout)

    def test_an_unknown_place_is_named(self):
        result = self.run_command(self.cuspan("run", "--", app("managed", "shared"), "1000"),
                                  self.environment(1, CUSPAN_MANAGED="elsewhere"), 0)
        self.assertIn("CUSPAN_MANAGED must be auto, device or host, not 'elsewhere'", result.stderr)

    def test_a_device_of_another_node_has_what_it_has(self):
        result = self.run_large("static", same_node="never", status=1)
        self.assertIn("cudaErrorMemoryAllocation", result.stderr)
        self.assertEqual(result.stdout, "")
