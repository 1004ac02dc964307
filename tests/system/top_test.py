"""cuspan top, and the output of cuspan queue and cuspan devices for runs sharing a GPU."""
import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import termios

from harness import OWN_FAILURE, program, wait_until
from sharing_case import Counter, SharingTest

PATHS = ("auto", "never")
# Begins each drawing of the table on a terminal.
HOME = "\x1b[H"


class Top(SharingTest):
    def counter(self, *options, path="auto", devices=1):
        """Starts a run sharing and using its GPU."""
        command = self.cuspan("run", "--gpus", "1", "--same-node", path, "--share", *options, "--", program("counts", "shared"), "4")
        return Counter(self, self.start(command, self.environment(devices))).go()

    def shown(self, command, *options, devices=1):
        """JSON output of the command."""
        return json.loads(self.run_command(self.cuspan(command, "--json", *options), self.environment(devices)).stdout)

    def rows(self, devices=1):
        """Lines of the table, without its heading."""
        heading, *rows = self.run_command(self.cuspan("top"), self.environment(devices)).stdout.splitlines()
        self.assertEqual(heading.split()[:2], ["gpu", "name"])
        return rows

    def test_two_runs_and_what_they_have(self):
        for path in PATHS:
            with self.subTest(path=path):
                first = self.counter("--quota", "30%", "--limit", "60%", "--memory", "128M", path=path)
                second = self.counter("--priority", "low", path=path)
                first.runs(64), second.runs(32)

                def both(options=("--same-node", path)):
                    gpu, = self.shown("top", *options)
                    self.assertLessEqual(sum(run["now_percent"] for run in gpu["runs"]), 100.1, "each is rounded")
                    self.assertLessEqual(sum(run["lately_percent"] for run in gpu["runs"]), 100.1)
                    return gpu if all(run["now_percent"] and run["memory_bytes"] for run in gpu["runs"]) else None
                gpu = wait_until(both, lambda: f"each of the two uses the GPU: {self.shown('top')}")
                self.assertTrue(gpu["shared"] and gpu["held"])
                self.assertEqual(len(gpu["runs"]), 2)
                runs = {run["quota_percent"]: run for run in gpu["runs"]}
                for run in gpu["runs"]:
                    self.assertEqual((run["program"], run["processes"]), ("counts", 1))
                    self.assertIn(run["state"], ("on the GPU", "waits", "idle"))
                    self.assertGreater(run["turns"], 0)
                    self.assertGreater(run["used_seconds"], 0)
                self.assertEqual((runs[30]["limit_percent"], runs[30]["memory_limit_bytes"]), (60, 128 << 20))
                self.assertEqual((runs[0]["limit_percent"], runs[0]["memory_limit_bytes"]), (100, None))
                self.assertEqual(runs[0]["niceness"] - runs[30]["niceness"], 10)
                rows = self.rows()
                self.assertEqual(len(rows), 2)
                for run in gpu["runs"]:
                    self.assertEqual(sum(run["run"] in row for row in rows), 1)
                first.end(), second.end()
                self.assert_nothing_left()

    def test_all_gpus_are_free(self):
        rows = self.rows(devices=2)
        self.assertEqual(len(rows), 2)
        self.assertTrue(all(row.endswith("free") for row in rows), rows)
        self.assertEqual([(gpu["ordinal"], gpu["held"], gpu["runs"]) for gpu in self.shown("top", devices=2)],
                         [(0, False, []), (1, False, [])])
        self.assert_nothing_left()

    def test_a_run_that_does_not_share(self):
        holder = self.start(self.cuspan("run", "--gpus", "1", "--", "sh", "-c", "echo here; cat"), self.environment(2, CUSPAN_LEASES="on"))
        self.assertEqual(holder.stdout.readline().strip(), "here")
        held, free = self.rows(devices=2)
        self.assertRegex(held, r"[0-9a-f]{16} .*\bsh\b.*holds it$")
        self.assertRegex(free, "free$")
        gpus = self.shown("top", devices=2)
        self.assertEqual([(gpu["held"], gpu["shared"], len(gpu["runs"])) for gpu in gpus], [(True, False, 1), (False, False, 0)])
        queued, = self.shown("queue", devices=2)
        self.assertEqual((queued["state"], queued["shared"]), ("running", False))
        self.ends(holder)

    def test_queue_and_devices_name_both(self):
        runs = [self.counter() for _ in range(2)]
        queued = self.shown("queue")
        self.assertEqual([(run["state"], run["shared"]) for run in queued], [("running", True)] * 2)
        names = [run["run"] for run in queued]
        device, = self.shown("devices")
        self.assertEqual(device["runs"], names)
        self.assertEqual(device["lease"], names[0])
        self.assertEqual([run["run"] for run in self.shown("top")[0]["runs"]], names)
        text = self.run_command(self.cuspan("devices")).stdout
        self.assertRegex(text, rf"2 runs share it: {names[0]} \(\S+\), {names[1]} \(\S+\)")
        self.assertEqual(self.run_command(self.cuspan("queue")).stdout.count("sharing"), 2)
        for run in runs:
            run.end()
        self.assert_nothing_left()

    def test_wrong_options(self):
        for options, words in ((["--every", "0.1"], "--every 0.1: use a number of seconds"), (["--every", "soon"], "--every soon"),
                               (["--every", "3601"], "--every 3601"), (["--every=nan"], "--every nan"), (["--every"], "--every"),
                               (["--evry", "2"], "did you mean '--every'"), (["--", "true"], "takes no program"),
                               (["--device", "abacus"], "abacus")):
            with self.subTest(options=options):
                result = self.run_command(self.cuspan("top", *options), status=OWN_FAILURE)
                self.assertEqual((result.stdout, len(result.stderr.splitlines())), ("", 1), result.stderr)
                self.assertIn(words, result.stderr)

    # --- On a terminal

    def on_terminal(self, *options):
        """Starts it in the foreground of its own terminal, with errors in a pipe."""
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        os.set_blocking(self.master, False)
        self.screen = ""

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(self.cuspan("top", *options), env=self.environment(), stdin=slave, stdout=slave,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=take_terminal)
        os.close(slave)
        self.addCleanup(self.finish, process)
        return process

    def seen(self):
        """All output on the terminal so far."""
        with contextlib.suppress(OSError):  # No more data, or the process has closed the terminal.
            while data := os.read(self.master, 65536):
                self.screen += data.decode()
        return self.screen

    def waits_for(self, condition):
        return wait_until(lambda: condition(self.seen()), lambda: f"what came is {self.screen!r}")

    def ended(self, process):
        wait_until(lambda: self.seen() is not None and process.poll() is not None, "it ends")
        return process.returncode, process.stderr.read()

    def test_a_terminal_is_drawn_again(self):
        process = self.on_terminal("--every", "0.5")
        self.waits_for(lambda screen: screen.count(HOME) >= 2 and "free" in screen)
        agents = self.processes("cuspan-agent")
        self.assertTrue(agents)
        run = self.counter()
        self.waits_for(lambda screen: "counts" in screen.rpartition(HOME)[2])
        run.end()
        self.waits_for(lambda screen: "free" in screen.rpartition(HOME)[2])
        wait_until(lambda: self.processes("cuspan-agent") == agents, "no other agents were started")
        os.write(self.master, b"\x03")
        self.assertEqual(self.ended(process), (-signal.SIGINT, ""))
        self.assert_nothing_left()

    def test_a_signal_ends_it(self):
        process = self.on_terminal()
        self.waits_for(lambda screen: HOME in screen)
        process.terminate()
        self.assertEqual(self.ended(process), (-signal.SIGTERM, ""))
        self.assert_nothing_left()

    def test_once_on_a_terminal(self):
        process = self.on_terminal("--once")
        self.assertEqual(self.ended(process), (0, ""))
        self.assertIn("free", self.seen())
        self.assertNotIn("\x1b", self.screen)
        self.assert_nothing_left()

    def test_an_agent_that_is_killed(self):
        process = self.on_terminal("--every", "0.5")
        self.waits_for(lambda screen: HOME in screen)
        for pid, _ in self.processes("cuspan-agent"):
            os.kill(pid, signal.SIGKILL)
        status, errors = self.ended(process)
        self.assertEqual((status, len(errors.splitlines())), (OWN_FAILURE, 1), errors)
        self.assertRegex(errors, "^cuspan: .*agent")
        self.assert_nothing_left()
