"""What a program's own processes and threads leave, and leave each other."""
from harness import SystemTest, own_lines, program

RESETS = 28


class Processes(SystemTest):
    def test_event_of_a_process_that_ends(self):
        """Also while nobody has waited for that process: no wait for ever, and the event can be recorded anew."""
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--", program("shared_event_ends", "shared"))
                result = self.run_command(command)
                self.assertEqual(result.stdout, "PASS\n")
                # The software GPU may also say what became of the kernel that was running.
                self.assertRegex(own_lines(result.stderr)[0], "^cuspan: process [0-9]+ exited before an event")
        self.assert_nothing_left()

    def test_many_resets(self):
        """Threads that used a device long ago do not hold what was reset since."""
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--", program("resets_often", "shared"), str(RESETS))
                result = self.run_command(command)
                few, many = ([int(word) for word in line.split()] for line in result.stdout.splitlines())
                self.assertLessEqual(many[0], few[0] + 8, f"mappings: {few} {many}")
                self.assertLessEqual(many[1], few[1] + 2, f"descriptors: {few} {many}")
                self.assertLess(many[2] - few[2], 4096, f"KiB: {few} {many}")
                self.assertEqual(own_lines(result.stderr), [])
        self.assert_nothing_left()
