"""NCCL in programs of a run: ranks in processes of their own, and lost ranks. The programs of tests/apps check NCCL's
results."""
import json
import os
import re
import signal

from harness import KINDS, SystemTest, own_lines, program

PATHS = {"same-node": "auto", "agents": "never"}
HEARD = re.compile(r"^rank (\d): remote process exited or there was a network error after [\d.]+ s: \S", re.MULTILINE)


class Seen(SystemTest):
    def test_statistics_and_trace_tell_of_them(self):
        result = self.run_command(self.cuspan("run", "--gpus", "2", "--stats", "--trace", "trace.json", "--",
                                              program("reduces", "static"), "1000", "5"), self.environment(2))
        for device in ("0", "1"):
            self.assertIn(f"session 1 device {device}, collectives of up to 2 ranks: ncclAllReduce 5 (19.5 KiB)", result.stderr)
        events = json.loads((self.folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
        seen = [event for event in events if event.get("cat") == "collective"]
        self.assertEqual({event["name"] for event in seen}, {"ncclAllReduce"})
        self.assertEqual(sorted(event["args"]["device"] for event in seen), [0] * 5 + [1] * 5)
        self.assertEqual({(event["args"]["ranks"], event["args"]["bytes"]) for event in seen}, {(2, 4000)})
        self.assertTrue(all(event["dur"] > 0 for event in seen))


class Ranks(SystemTest):
    def lost_rank(self, path, *arguments, gpus=3):
        return ["--gpus", str(gpus), "--same-node", PATHS[path], "--", program("lost_rank", KINDS[path == "agents"]),
                str(gpus), *arguments]

    def test_a_process_that_is_lost(self):
        for path in PATHS:
            for phase in ("first", "during", "idle", "split"):
                with self.subTest(path=path, phase=phase):
                    result = self.run_command(self.cuspan("run", *self.lost_rank(path, phase)), self.environment(3))
                    self.assertEqual(sorted(HEARD.findall(result.stdout)), ["0", "1"], result.stdout)
        self.assert_nothing_left()

    def test_a_device_that_is_lost(self):
        """All ranks of the process get the error, those of other devices too."""
        for path in PATHS:
            with self.subTest(path=path):
                run = self.start(self.cuspan("run", *self.lost_rank(path, "threads")), self.environment(3))
                self.assertEqual(run.stdout.readline(), "waiting\n")
                proxies = sorted(pid for pid, _ in self.processes("cuspan-proxy"))
                self.assertEqual(len(proxies), 3)
                os.kill(proxies[-1], signal.SIGKILL)
                output, errors = run.communicate()
                self.assertEqual(run.returncode, 0, errors)
                self.assertRegex(output, r"all have heard after [\d.]+ s: \S")
                self.assertTrue(any("is lost" in line for line in own_lines(errors)), errors)
        self.assert_nothing_left()
