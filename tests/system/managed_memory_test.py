"""Managed memory of more than the device has, as CUDA allows on the program's own node."""
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

    def test_a_device_of_another_node_has_what_it_has(self):
        result = self.run_large("static", same_node="never", status=1)
        self.assertIn("cudaErrorMemoryAllocation", result.stderr)
        self.assertEqual(result.stdout, "")
