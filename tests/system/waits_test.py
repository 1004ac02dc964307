"""Every wait of a client ends, whatever process of the run is killed or stopped in its midst.

The program `waits` waits in one way, for ever or again and again. In each round one process of the run is killed:
as it is, after it was stopped, or after it was stopped and went on. An open device's proxy is left out where the
program opens it anew. WAITS_ROUNDS says how many rounds a test has.
"""
import itertools
import os
import signal
import time

from harness import STARTER, SystemTest, program, state_of, wait_until

LOST = "cudaErrorDevicesUnavailable"
ROUNDS = int(os.environ.get("WAITS_ROUNDS", "20"))
# A wait that lasts longer hangs. Waits of the agents for each other last some seconds at most.
LIMIT_S = 10

# How a run reaches its devices.
LOCAL, MPI, UCX = ("auto", "mpi"), ("never", "mpi"), ("never", "ucx")
# Its processes, by their name and their number in the order of their start.
VICTIMS = {
    LOCAL: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-proxy", 0)],
    MPI: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-agent", 1), ("cuspan-proxy", 0), (STARTER, 0)],
    UCX: [("waits", 0), ("cuspan", 0), ("cuspan-agent", 0), ("cuspan-agent", 1), ("cuspan-proxy", 0)],
}
HOW = ((signal.SIGKILL,), (signal.SIGSTOP, signal.SIGKILL), (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))


class Waits(SystemTest):
    def rounds(self, wait, devices, way):
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
        # Some end and start their proxies all the time.
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
            # A launcher that was killed has ended by that; its program says the same.
            self.assertEqual(out, LOST + "\n", err)
            self.assertEqual(process.returncode, -signal.SIGKILL if name == "cuspan" else 0, err)
        self.assertLess(waited, LIMIT_S, err)
        wait_until(lambda: state_of(app) is None, "the program has ended")
        self.assert_nothing_left()


def test_of(wait, devices, way):
    """A test of all rounds of one wait on one way to its devices."""
    return lambda self: self.rounds(wait, devices, way)


for _wait, _devices in (("room", 1), ("slots", 1), ("sender", 1), ("wanted", 1), ("bytes", 1), ("reply", 1), ("event", 1),
                        ("pages", 1), ("open", 1), ("peer", 2)):
    for _name, _way in (("local", LOCAL), ("mpi", MPI), ("ucx", UCX)):
        setattr(Waits, f"test_{_wait}_{_name}", test_of(_wait, _devices, _way))
