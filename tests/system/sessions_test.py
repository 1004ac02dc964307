"""Many sessions on one host leave nothing behind.

SESSIONS: their number; the default is small.
"""
import os
import pathlib

from harness import DEADLINE_S, SystemTest, program, wait_until

SESSIONS = int(os.environ.get("SESSIONS", "40"))
# Sessions of one run, served by its agent one after the other.
IN_ONE_RUN = max(1, SESSIONS // 2)


def of_the_host():
    """Possible leftovers on the host: named shared memory, sockets, System V segments."""
    sockets = pathlib.Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")
    return {"files in /dev/shm": sorted(entry.name for entry in pathlib.Path("/dev/shm").iterdir()
                                        if "cuspan" in entry.name),
            "shared segments": [line for line in pathlib.Path("/proc/sysvipc/shm").read_text(encoding="ascii")
                                .splitlines()[1:] if line.split()[7] == str(os.getuid())],
            "sockets": sorted(line.split()[-1] for line in sockets.splitlines() if "cuspan" in line)}


class Sessions(SystemTest):
    """If the system supports namespaces, CMake runs this test in its own: it then finds only its own leftovers."""

    def check_nothing_left(self, before):
        self.assert_nothing_left()
        wait_until(lambda: of_the_host() == before, lambda: f"the host is as before: {before} is now {of_the_host()}")

    def test_of_many_runs(self):
        before = of_the_host()
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(SESSIONS - IN_ONE_RUN):
            self.run_command(self.cuspan("run", "--", program("ends", "static"), "exit", "0"))
        self.check_nothing_left(before)
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

    def test_of_one_run(self):
        """The agent's memory, descriptors and threads are the same after many sessions as after a few."""
        before = of_the_host()
        script = self.folder / "sessions.sh"
        # The agent is a child of the program's parent; both share the run's socket. Since a program does not wait for
        # the agent to notice its end, each query waits until the agent is idle.
        script.write_text(f"""
            agent=$(pgrep -P "$PPID" -x cuspan-agent | head -n 1)
            held() {{ echo $(ls /proc/$agent/fd | wc -l) $(ls /proc/$agent/task | wc -l); }}
            rest=$(held)
            look() {{
                for i in $(seq {10 * DEADLINE_S}); do [ "$(held)" = "$rest" ] && break; sleep 0.1; done
                echo $rest $(held) $(awk '/VmRSS/ {{print $2}}' /proc/$agent/status)
            }}
            for i in $(seq 5); do "$1" exit 0; done > /dev/null || exit 1
            look
            for i in $(seq {IN_ONE_RUN}); do "$1" exit 0 || exit 1; done > /dev/null
            look
        """, encoding="utf-8")
        result = self.run_command(self.cuspan("run", "--", "bash", str(script), program("ends", "static")))
        first, last = ([int(word) for word in line.split()] for line in result.stdout.splitlines()[-2:])
        for rest, after in ((first[:2], first[2:4]), (last[:2], last[2:4])):
            self.assertEqual(after, rest, "descriptors and threads of the agent")
        # Difference in KiB. Pages touched for the first time are no leak; a page per session would be one.
        self.assertLess(last[4] - first[4], max(4096, 4 * IN_ONE_RUN))
        self.check_nothing_left(before)
