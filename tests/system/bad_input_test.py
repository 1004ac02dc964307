"""Bad input to the driver API has the native results of an H200, and ends no process."""
import pathlib

import bad_input
from harness import SystemTest, app

NATIVE = pathlib.Path(__file__).resolve().parent / "driver_bad_input_h200.txt"


class BadInput(SystemTest):
    def run_program(self, *arguments):
        command = self.cuspan("run", "--gpus", "1", "--", app(bad_input.PROGRAM, "static"), *arguments)
        return self.run_command(command, self.environment(1)).stdout

    def test_results_are_the_native_ones(self):
        known = bad_input.DIFFERENCES | bad_input.SOFTWARE_DIFFERENCES
        self.assertEqual(bad_input.compare(NATIVE.read_text(), self.run_program(), known), [])

    def test_differences_are_of_calls_that_are_made(self):
        native = bad_input.results(NATIVE.read_text())
        for differences in (bad_input.DIFFERENCES, bad_input.SOFTWARE_DIFFERENCES):
            for call, result in differences.items():
                self.assertNotEqual(native.get(call, result), result, call)

    def test_nothing_ends_the_program(self):
        self.assertIn(f"{bad_input.PROGRAM}: PASS", self.run_program("--fatal"))
