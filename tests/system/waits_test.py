"""Every wait of a client ends after any process of the run is killed or stopped during the wait.

The program `waits` waits in one way, for ever or again and again. In each round one process of the run is killed:
while running, while stopped, or after it was stopped and continued. If the program opens devices again and again,
their proxies are left out. WAITS_ROUNDS: number of rounds of a test.
"""
import itertools
import os
import signal
import time

from harness import LOCAL, MPI, STARTER, UCX, SystemTest, program, state_of, wait_until, ways

LOST = "cudaErrorDevicesUnavailable"
ROUNDS = int(os.environ.get("WAITS_ROUNDS", "20"))
# A longer wait counts as hanging. Agents wait for each other for some seconds at most.
LIMIT_S = 10
# Seconds until an unresponsive proxy is reported.
SILENCE_S = 10

# Processes of a run, by name and number in the order of their start.
VICTIMS = {
    LOCAL: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-proxy", 0)],
    MPI: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-agent", 1), ("cuspan-proxy", 0), (STARTER, 0)],
    UCX: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-agent", 1), ("cuspan-proxy", 0)],
}
HOW = ((signal.SIGKILL,), (signal.SIGSTOP, signal.SIGKILL), (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))


class Waits(SystemTest):
    def rounds(self, wait, devices, way):
        if way not in ways():
            self.skipTest("not in this build")
        victims = [victim for victim in VICTIMS[way] if wait != "open" or victim[0] != "cuspan-proxy"]
        turns = itertools.cycle(itertools.product(HOW, victims))
        for turn, (how, victim) in zip(range(ROUNDS), turns):
            with self.subTest(turn=turn, how=how, victim=victim):
                self.round(wait, devices, way, how, victim)

    def round(self, wait, devices, way, how, victim):
        path, self.relay = way
        name, number = victim
        process = self.start(self.cuspan("run", "--gpus", str(devices), "--same-node", path, "--", program("waits", "shared"),
                                         wait), self.environment(devices))
        self.assertEqual(self.answer(process), "waits")
        app = self.processes("waits")[0][0]
        # Some programs end and start their proxies all the time.
        pid = wait_until(lambda: self.processes(name)[number:], f"{name} {number} is there")[0][0]
        for signal_number in how:
            os.kill(pid, signal_number)
            if signal_number == signal.SIGSTOP:
                wait_until(lambda: state_of(pid) in ("T", "Z", None), "it is stopped")
        killed = time.monotonic()
        out, err = process.communicate(timeout=60)
        waited = time.monotonic() - killed
        if name == "waits":
            self.assertEqual((process.returncode, out), (-signal.SIGKILL, ""), err)
        else:
            # Killing the launcher ends it by SIGKILL; its program prints the same error.
            self.assertEqual(out, LOST + "\n", err)
            self.assertEqual(process.returncode, -signal.SIGKILL if name == "cuspan" else 0, err)
        self.assertLess(waited, LIMIT_S, err)
        wait_until(lambda: state_of(app) is None, "the program has ended")
        self.assert_nothing_left()


class Silence(SystemTest):
    def start_waiting(self, wait, way):
        """A waiting run, and the processes started for it."""
        before = self.processes()
        # A long heartbeat time: otherwise the others would give up a stopped head agent.
        environment = self.environment(CUSPAN_RELAY=way[1], CUSPAN_HEARTBEAT_SECONDS="3600")
        process = self.start(self.cuspan("run", "--same-node", way[0], "--", program("waits", "shared"), wait), environment)
        self.assertEqual(self.answer(process), "waits")
        return process, [known for known in self.processes() if known not in before]

    def test_a_process_that_is_stopped_is_named(self):
        """A process waiting for a stopped one prints a line after a while, and again after its answer."""
        stopped = []
        for way in ways():
            for wait, name in (("slots", "cuspan-proxy"), ("event", "cuspan-proxy"), ("bytes", "cuspan-agent")):
                if (way, name) == (LOCAL, "cuspan-agent"):
                    continue  # The agent takes no part in this wait.
                process, own = self.start_waiting(wait, way)
                pid = next(pid for pid, executable in own if executable.removesuffix("-ucx") == name)
                os.kill(pid, signal.SIGSTOP)
                stopped.append((process, pid, way, name))
        for process, pid, way, name in stopped:
            with self.subTest(run=process.args, stopped=name):
                line = process.stderr.readline()
                self.assertRegex(line, r"^cuspan.*: device 0 \(.* on host .*\) has not answered for 10 s: ")
                if name == "cuspan-proxy":
                    self.assertIn(f"(process {pid}", line)
                else:
                    self.assertRegex(line, "the agent (of this node|there)")
                if way == LOCAL:
                    self.assertIn(f"is stopped; `kill -CONT {pid}` resumes it", line)
                os.kill(pid, signal.SIGCONT)
                self.assertRegex(process.stderr.readline(), r"^cuspan.*: device 0 \(.*\) answers again$")
                process.terminate()
                self.assertEqual(self.ends(process)[0], -signal.SIGTERM)
        self.assert_nothing_left()

    def test_a_kernel_that_takes_long_is_no_silence(self):
        runs = [self.start_waiting("event", way)[0] for way in (LOCAL, MPI)]
        time.sleep(SILENCE_S + 2)
        for process in runs:
            process.terminate()
            self.assertEqual(self.ends(process), (-signal.SIGTERM, "", ""))
        self.assert_nothing_left()


def test_of(wait, devices, way):
    """A test of all rounds of one wait on one path to its devices."""
    return lambda self: self.rounds(wait, devices, way)


for _wait, _devices in (("room", 1), ("slots", 1), ("sender", 1), ("wanted", 1), ("bytes", 1), ("reply", 1), ("event", 1),
                        ("pages", 1), ("open", 1), ("peer", 2)):
    for _name, _way in (("local", LOCAL), ("mpi", MPI), ("ucx", UCX)):
        setattr(Waits, f"test_{_wait}_{_name}", test_of(_wait, _devices, _way))
