"""A client's waits for devices of another host end after any process of the run, on any host, is killed or stopped."""
import itertools
import os
import shutil
import signal
import time

from box import Box, BoxTest
from harness import DAEMON, STARTER, UCX, program, state_of, wait_until, ways

LOST = "cudaErrorDevicesUnavailable"
# A longer wait counts as hanging.
LIMIT_S = 10
WAITS = ("room", "slots", "bytes", "event")
HOW = ((signal.SIGKILL,), (signal.SIGSTOP, signal.SIGKILL))


def setUpModule():
    BoxTest.box = Box([0, 1, 1])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class Waits(BoxTest):
    def rounds(self, relay, victims):
        self.relay = relay
        for wait, (number, victim) in itertools.product(WAITS, enumerate(victims)):
            # Each victim is killed in both ways, half of the waits with each.
            how = HOW[(number + WAITS.index(wait)) % 2]
            with self.subTest(wait=wait, victim=victim, how=how):
                self.round(wait, victim, how)

    def round(self, wait, victim, how):
        self.kill_leftovers()
        process = self.start_on("n0", "--hosts", "n1,n2", "--", program("waits", "shared"), wait)
        self.assertEqual(self.answer(process), "waits")
        name, host = victim
        pid = wait_until(lambda: self.processes_on(host, name), f"{name} on {host} is there")[0][0]
        for number in how:
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                wait_until(lambda: state_of(pid) in ("T", "Z", None), "it is stopped")
        killed = time.monotonic()
        _, out, err = self.ends(process)
        self.assertEqual(out, LOST + "\n", err)
        self.assertLess(time.monotonic() - killed, LIMIT_S, err)
        if name == DAEMON:
            # If all processes on its own host are gone, Open MPI's files remain; the test removes them.
            wait_until(lambda: not self.processes(), "all processes are gone")
            shutil.rmtree(self.temporary)
            self.temporary.mkdir()
        self.assert_nothing_left()

    def test_over_mpi(self):
        """The loss of one MPI rank ends all."""
        self.rounds("mpi", ((STARTER, "n0"), ("cuspan-agent", "n0"), (DAEMON, "n1"), ("cuspan-agent", "n1"),
                            ("cuspan-proxy", "n1"), (DAEMON, "n2"), ("cuspan-agent", "n2")))

    def test_over_ucx(self):
        if UCX not in ways():
            self.skipTest("not in this build")
        self.rounds("ucx", (("cuspan-agent", "n0"), ("cuspan-agent", "n1"), ("cuspan-proxy", "n1")))
