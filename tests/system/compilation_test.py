"""Compilation by the software GPU: large kernels start at once, and slow compilations are reported."""
import json

from harness import DEADLINE_S, SystemTest, program, wait_until

PATHS = {"same-node": "auto", "agents": "never"}
LIMIT_US = 2e6  # Longer compilations are reported.
SLACK_US = 2e5  # Either is accepted this close to the limit.


class Compilation(SystemTest):
    def setUp(self):
        super().setUp()
        self.trace = self.folder / "trace.json"

    def environment(self, devices=1, **more):
        """Sets a cache of its own, empty at first."""
        return super().environment(devices, CUSPAN_SOFT_CACHE=str(self.folder / "kernels"), **more)

    def command(self, *arguments, path="same-node"):
        return self.cuspan("run", "--same-node", PATHS[path], "--stats", "--trace", str(self.trace), "--",
                           program("unrolled", "shared"), *arguments)

    def compilations(self):
        events = json.loads(self.trace.read_text(encoding="utf-8"))["traceEvents"]
        return [event for event in events if event.get("cat") == "compilation"]

    def check_what_is_told(self, errors):
        """Each slow compilation has its lines, others have no line; --stats has the total time."""
        told = errors.count("compiling kernel ")
        found = self.compilations()
        self.assertGreaterEqual(told, sum(event["dur"] > LIMIT_US + SLACK_US for event in found), errors)
        self.assertLessEqual(told, sum(event["dur"] > LIMIT_US - SLACK_US for event in found), errors)
        self.assertEqual(errors.count(" s to compile"), told, errors)
        head, row = [line for line in errors.splitlines() if line.startswith(("session  ", "1  "))]
        self.assertTrue(head.endswith("compiled"), head)
        seconds = float(row.split()[-2])
        self.assertAlmostEqual(seconds, sum(event["dur"] for event in found) / 1e6, delta=0.01)

    def test_a_large_kernel_starts_at_once_and_goes_on_in_better_code(self):
        for path in PATHS:
            with self.subTest(path=path):
                errors = self.folder / f"errors-{path}"
                kernels = self.folder / f"kernels-{path}"
                with errors.open("w", encoding="utf-8") as file:
                    run = self.start(self.command(path=path),
                                     self.environment() | {"CUSPAN_SOFT_CACHE": str(kernels), "CUSPAN_LOG": "info"},
                                     stderr=file, stdout=(self.folder / "output").open("w"))
                    wait_until(lambda: "has optimised code for a warp now" in errors.read_text(),
                               lambda: errors.read_text())
                    run.stdin.close()
                    self.assertEqual(run.wait(DEADLINE_S), 0, (self.folder / "output").read_text())
                self.assert_nothing_left()
                found = self.compilations()
                self.assertEqual([event["args"]["waited"] for event in found], [True, False, False])
                self.assertTrue(all("Eliminate" in event["name"] for event in found), found)
                # The first code is ready before the other compilations begin.
                self.assertLessEqual(found[0]["ts"] + found[0]["dur"], found[1]["ts"])

    def test_a_run_that_ends_ends_its_compiler(self):
        result = self.run_command(self.command("once"), self.environment(CUSPAN_LOG="info"))
        self.assertEqual(result.stdout, "launch 1\n")
        self.assertIn(", thread, quick) took", result.stderr)
        self.assert_nothing_left()

    def test_nothing_that_takes_longer_than_two_seconds_is_silent(self):
        for tier in ("last", "first"):
            with self.subTest(tier=tier):
                result = self.run_command(self.command("once"), self.environment(CUSPAN_SOFT_TIER=tier))
                found = self.compilations()
                self.assertEqual([event["args"]["waited"] for event in found], [True])
                self.check_what_is_told(result.stderr)

    def test_what_is_compiled_is_not_compiled_again(self):
        for tier in ("last", "auto"):
            self.run_command(self.command("once"), self.environment(CUSPAN_SOFT_TIER=tier))
        self.assertEqual(self.compilations(), [])

    def test_a_tier_that_is_none_is_refused(self):
        result = self.run_command(self.command("once"), self.environment(CUSPAN_SOFT_TIER="second"), status=None)
        self.assertIn("CUSPAN_SOFT_TIER='second' is not auto, first or last", result.stderr)
