"""Agents of a run without work sleep until a message comes, and do not poll."""
import pathlib

from harness import MPI, UCX, SystemTest, program, wait_until, ways

EPOLL_WAIT = "232"
# An agent that polls sleeps for 2 ms at most.
LONG_MS = 100


def sleeps_long(pid):
    """True if the process waits for events, with a long time limit or none."""
    words = pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()
    if words[0] != EPOLL_WAIT:
        return False
    limit = int(words[4], 16) & 0xFFFFFFFF
    return limit >= LONG_MS  # No limit is 2^32 - 1.


class Rest(SystemTest):
    def rest(self, way):
        if way not in ways():
            self.skipTest("not in this build")
        path, self.relay = way
        process = self.start(self.cuspan("run", "--same-node", path, "--", program("holds", "shared")))
        self.assertEqual(self.ask(process, "use 0"), "right")
        worker = self.processes("cuspan-agent")[1][0]
        try:
            sleeps_long(worker)
        except PermissionError:
            self.skipTest("the system calls of other processes are hidden")
        for _ in range(3):
            wait_until(lambda: sleeps_long(worker), "the worker agent sleeps")
            self.assertEqual(self.ask(process, "use 0"), "right")
        self.assertEqual(self.ends(process)[0], 0)
        self.assert_nothing_left()

    def test_mpi(self):
        self.rest(MPI)

    def test_ucx(self):
        self.rest(UCX)
