"""A program that asks about a stream again and again makes no traffic while nothing happens."""
import re

from harness import SystemTest, own_lines, program

PATHS = {"same-node": "auto", "agents": "never"}
# Far fewer than the 10,000 questions of each run; each completion that is told of may take one.
MOST_CROSSINGS = 50


class Polls(SystemTest):
    def check(self, kind):
        for path, same_node in PATHS.items():
            with self.subTest(path=path):
                result = self.run_command(self.cuspan("run", "--stats", "--same-node", same_node, "--",
                                                      program("polls", "static"), kind))
                self.assertEqual(result.stdout, 2 * "5000 times not ready\n" + "ready\n")
                self.assertEqual(own_lines(result.stderr), [])
                waited = re.search(r"waited for: (.*)", result.stderr).group(1)
                crossed = int(re.search(r"StreamQuery (\d+)", waited).group(1))
                self.assertLessEqual(crossed, MOST_CROSSINGS, waited)

    def test_own_stream(self):
        self.check("own")

    def test_blocking_stream(self):
        self.check("blocking")

    def test_stream_of_the_thread(self):
        self.check("thread")

    def test_legacy_default_stream(self):
        self.check("legacy")
