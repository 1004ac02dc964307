"""Unreachable hosts: the message names each of them and no other, with its shell's own words."""
import contextlib
import itertools
import os
import signal
import unittest

from harness import OWN_FAILURE, STARTER, SystemTest, build, of_open_mpi, own_lines, wait_until

# A remote shell, called like ssh. The hosts fine1 and fine2 are this one.
SHELL = """\
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
case $host in
  fine*) exec sh -c "$*" ;;
  unknown) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2 ;;
  refusing) echo "me@$host: Permission denied (publickey,password)." >&2 ;;
  mute) ;;
  silent) exec sleep 600 ;;
  empty) echo "sh: 1: $host has no such file" >&2 ; exit 127 ;;
esac
exit 255
"""
UNKNOWN = "ssh: Could not resolve hostname unknown: Name or service not known"
REFUSING = "me@refusing: Permission denied (publickey,password)."


class OverMpi(SystemTest):
    relay = "mpi"

    def setUp(self):
        super().setUp()
        self.shell = self.folder / "shell"
        self.shell.write_text(SHELL, encoding="utf-8")
        self.shell.chmod(0o755)

    def why(self, hosts, shell=None):
        """The single error line of a run with these hosts; it must not name a fine host."""
        command = self.cuspan("run", "--remote-shell", shell or str(self.shell), "--hosts", ",".join(hosts), "--", "true")
        result = self.run_command(command, self.environment(CUSPAN_LEASES="off"), status=OWN_FAILURE)
        lines = own_lines(result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        for host in hosts:
            if host.startswith("fine"):
                self.assertNotIn(f"host {host}", lines[0])
        self.assert_nothing_left()
        return lines[0]

    def test_unknown_host(self):
        for hosts in itertools.permutations(["fine1", "unknown", "fine2"]):
            with self.subTest(hosts=hosts):
                line = self.why(hosts)
                self.assertIn("host unknown", line)
                self.assertTrue(line.endswith(UNKNOWN), line)

    def test_refusing_host(self):
        line = self.why(["fine1", "refusing"])
        self.assertIn("host refusing", line)
        self.assertTrue(line.endswith(REFUSING), line)

    def test_two_causes(self):
        """Each named host has its own error text, independent of the order of failures."""
        line = self.why(["fine1", "refusing", "unknown"])
        said = [(host, words) for host, words in (("unknown", UNKNOWN), ("refusing", REFUSING)) if words in line]
        self.check_both(said, line)
        for host, words in said:
            self.assertRegex(line, rf"host {host} [^;]*: {words.replace('(', '.').replace(')', '.')}")

    def check_both(self, said, line):
        # mpirun ends at the first failure, and the other remote shells with it.
        self.assertTrue(said, line)

    WAITED_FOR = " to start the agents on this host, fine1 and silent"

    def test_what_is_waited_for(self):
        """A slow start prints a line; the user may end it."""
        process = self.start(self.cuspan("run", "--remote-shell", str(self.shell), "--hosts", "fine1,silent", "--", "true"),
                             self.environment(CUSPAN_LEASES="off"))
        line = process.stderr.readline()
        self.assertIn("waiting for ", line)
        self.assertTrue(line.rstrip().endswith(self.WAITED_FOR), line)
        process.send_signal(signal.SIGINT)
        status, _, errors = self.ends(process)
        self.assertEqual(status, -signal.SIGINT)
        self.assertEqual(own_lines(errors), [])
        # Ends the shell of that host. The other agents and Open MPI's daemon end by themselves.
        for pid, _ in self.processes("sleep"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assert_nothing_left()

    def test_no_such_shell(self):
        for shell in ("/no/such/shell", "no-such-shell"):
            with self.subTest(shell=shell):
                line = self.why(["fine1", "fine2"], shell=shell)
                self.assertIn(f"the remote shell for other hosts cannot be used: {shell}: ", line)
                self.assertIn("--remote-shell", line)


class OverUcx(OverMpi):
    """The head agent knows the agents missing."""
    relay = "ucx"
    WAITED_FOR = "waiting for the agents on silent"

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(build() / "bin/cuspan-agent-ucx"):
            raise unittest.SkipTest("cuspan was built without UCX")

    def check_both(self, said, line):
        self.assertEqual(len(said), 2, line)

    def test_host_without_words(self):
        line = self.why(["fine1", "mute", "empty"])
        self.assertRegex(line, r"host mute [^;]*: the remote shell exited with status 255;")
        self.assertRegex(line, r"host empty [^;]*: the remote shell exited with status 127: sh: 1: empty has no such file$")


class FewDescriptors(SystemTest):
    def test_is_said(self):
        """Reported for a hanging mpirun, and by the agent."""
        command = self.cuspan("run", "--hosts", "localhost:1,localhost:1", "--same-node", "never", "--", "true")
        for relay in ("mpi", "ucx"):
            with self.subTest(relay=relay):
                result = self.run_command(["prlimit", "--nofile=32:32", *command], self.environment(CUSPAN_RELAY=relay),
                                          status=OWN_FAILURE)
                self.assertIn("raise the limit of open files (ulimit -n)", result.stderr)


class MpirunKilled(SystemTest):
    relay = "mpi"
    # Mounts shared memory for the run alone, and lists it at its end.
    SCRIPT = 'mount -t tmpfs none /dev/shm && { "$@"; status=$?; ls /dev/shm; exit $status; }'

    @staticmethod
    def shared_memory(pid):
        """Files made by Open MPI in this process's mount namespace."""
        with contextlib.suppress(OSError):
            return [name for name in os.listdir(f"/proc/{pid}/root/dev/shm") if name.startswith("vader_segment")]
        return []

    @of_open_mpi
    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_leaves_no_shared_memory(self):
        """mpirun is killed at any point of the agents' start."""
        for _ in range(8):
            command = self.cuspan("run", "--hosts", "localhost:1", "--same-node", "never", "--", "sleep", "600")
            process = self.start(self.mounted(self.SCRIPT, command))
            wait_until(lambda: any(self.shared_memory(pid) for pid, _ in self.processes("cuspan-agent")), "agents have shared memory")
            for pid, _ in self.processes(STARTER):
                os.kill(pid, signal.SIGKILL)
            status, out, _ = self.ends(process)
            self.assertEqual(status, OWN_FAILURE)
            self.assertEqual(out, "")
            self.assert_nothing_left()
