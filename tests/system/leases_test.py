"""GPUs requested by several runs: their allocation, the queue of waiting runs, and its messages."""
import collections
import contextlib
import fcntl
import getpass
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import unittest

from harness import OWN_FAILURE, SystemTest, app, build, own_lines, wait_until

PATHS = ("auto", "never")
INTERRUPTED = -signal.SIGINT


class Leases(SystemTest):
    """Leases on this machine, with software GPUs not shared between runs."""

    def setUp(self):
        super().setUp()
        self.locks = self.folder / "locks"
        self.locks.mkdir()
        self.locks.chmod(0o1777)
        self.log = self.folder / "leases.log"

    def environment(self, devices=1, **more):
        return super().environment(devices, **{"CUSPAN_LEASES": "on", "CUSPAN_LEASE_FOLDER": str(self.locks),
                                               "CUSPAN_LEASE_LOG": str(self.log), **more})

    def run_app(self, *options, path="auto", app="/bin/true"):
        return self.cuspan("run", "--same-node", path, *options, "--", *([app] if isinstance(app, str) else app))

    def hold(self, *options, devices=1, path="auto"):
        """Starts a run holding GPUs until its standard input ends."""
        process = self.start(self.run_app(*options, path=path, app=["sh", "-c", "echo here; cat"]),
                             self.environment(devices))
        self.assertEqual(process.stdout.readline().strip(), "here")
        return process

    def agents(self):
        """All agents, without their children for the cleanup after their death."""
        found = [pid for pid, _ in self.processes("cuspan-agent")]
        parents = {pid: int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                   for pid in found}
        return [pid for pid in found if parents[pid] not in found]

    def waiting(self):
        """Tickets of waiting runs."""
        return [name for name in os.listdir(self.locks) if name.startswith("cuspan-wait-")]

    def queue(self, devices=1):
        return json.loads(self.run_command(self.cuspan("queue", "--json"), self.environment(devices)).stdout)

    def assert_nothing_left(self):
        super().assert_nothing_left()
        wait_until(lambda: not os.listdir(self.locks), lambda: f"no lock is left: {os.listdir(self.locks)}")

    def assert_log_is_sound(self):
        """Checks that no GPU had two runs at a time, and that no run overtook an earlier waiting one."""
        having, waiting = {}, collections.defaultdict(set)
        for line in self.log.read_text(encoding="utf-8").splitlines():
            match = re.fullmatch(r"\d+\.\d{9} (\w+) host=(\S+) gpu=(\S+) order=(\S+) run=(\S+) user=(\S+)", line)
            self.assertTrue(match, line)
            event, host, gpu, order, run, _ = match.groups()
            if event == "arrive":
                waiting[host].add((order, run))
            elif event == "leave":
                waiting[host].discard((order, run))
            elif event == "grant":
                self.assertNotIn((host, gpu), having)
                self.assertEqual(min(waiting[host]), (order, run))
                having[host, gpu] = run
            elif event == "release":
                self.assertEqual(having.pop((host, gpu)), run)
        self.assertEqual(having, {})

    def test_the_second_waits_and_gets_it(self):
        for path in PATHS:
            with self.subTest(path=path):
                first = self.hold(path=path)
                second = self.start(self.run_app("--wait", path=path, app=["sh", "-c", "echo mine"]))
                line = second.stderr.readline()
                self.assertRegex(line, r"^cuspan: waiting for a GPU of .*held by run [0-9a-f]{16} of \S+ \(sh\)")
                self.assertEqual([run["state"] for run in self.queue()], ["running", "waiting"])
                self.assertEqual(self.ends(first)[0], 0)
                self.assertEqual(self.ends(second)[:2], (0, "mine\n"))
                self.assert_nothing_left()
        self.assert_log_is_sound()

    def test_without_waiting(self):
        holder = self.hold(devices=2)
        result = self.run_command(self.run_app("--no-wait", "--gpus", "1"), self.environment(2), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: 1 GPU of .*held by run [0-9a-f]{16} of ")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        result = self.run_command(self.run_app("--wait=1", "--gpus", "1"), self.environment(2), status=OWN_FAILURE)
        self.assertIn("not available within 1 s", result.stderr)
        self.assertEqual(self.ends(holder)[0], 0)
        self.assert_nothing_left()

    @contextlib.contextmanager
    def locked(self, name):
        """Locks a file in the folder of locks by this process, not a run; yields the description used in messages."""
        path = self.locks / name
        with open(path, "x", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield f"{path} is locked by process {os.getpid()} of user {getpass.getuser()}"
            path.unlink(missing_ok=True)

    def test_a_stranger_has_the_queue(self):
        with self.locked(f"cuspan-queue-{socket.gethostname()}") as who:
            for path in PATHS:
                with self.subTest(path=path):
                    result = self.run_command(self.run_app("--no-wait", path=path), status=OWN_FAILURE)
                    self.assertIn(f"not available now: a GPU of {socket.gethostname()}", result.stderr)
                    self.assertIn(who, result.stderr)
            self.assertIn(who, self.run_command(self.cuspan("queue")).stderr)
            waiter = self.start(self.run_app("--wait"))
            while who not in (line := waiter.stderr.readline()):
                self.assertIn("waiting for", line)
        self.assertEqual(self.ends(waiter)[0], 0)
        self.assert_nothing_left()

    def test_a_stranger_has_a_gpu(self):
        with self.locked(f"cuspan-lease-{socket.gethostname()}-soft0") as who:
            result = self.run_command(self.run_app("--no-wait"), status=OWN_FAILURE)
            self.assertIn(f"({who}, but not by a run)", result.stderr)
            result = self.run_command(self.run_app("--gpus", "1"), self.environment(2))
            self.assertEqual(own_lines(result.stderr), [])
        self.run_command(self.run_app())
        self.assert_nothing_left()

    def test_a_ticket_that_no_run_has_made(self):
        """A ticket older than the host's boot: it does not precede all runs."""
        with self.locked(f"cuspan-wait-{socket.gethostname()}-{1:016x}-{'ab' * 8}"):
            self.assertEqual(own_lines(self.run_command(self.run_app("--no-wait")).stderr), [])
            self.assertEqual(self.queue(), [])
        self.run_command(self.run_app())
        self.assert_nothing_left()

    def test_what_can_never_be_is_refused_at_once(self):
        holder = self.hold()
        for options, words in ((("--gpus", "2"), "2 GPUs requested, 1 found"),
                               (("--gpus", "1", "--min-memory", "100G"), "at least 100.0 GiB of memory"),
                               (("--gpus", "all", "--min-capability", "99.0"), "compute capability 99.0")):
            with self.subTest(options=options):
                result = self.run_command(self.run_app(*options), status=OWN_FAILURE)
                self.assertIn(words, result.stderr)
        self.assertEqual(self.ends(holder)[0], 0)

    def test_what_is_free_is_taken(self):
        first = self.hold("--gpus", "1", devices=3)
        second = self.hold(devices=3)  # All free GPUs.
        runs = self.queue(3)
        self.assertEqual([len(run["gpus"]) for run in runs], [1, 2])
        devices = json.loads(self.run_command(self.cuspan("devices", "--json"), self.environment(3)).stdout)
        self.assertEqual({device["lease"] for device in devices}, {run["run"] for run in runs})
        self.assertTrue(all(device["held"] for device in devices))
        text = self.run_command(self.cuspan("queue"), self.environment(3)).stdout
        self.assertEqual(text.count("running"), 2)
        for process in (first, second):
            self.assertEqual(self.ends(process)[0], 0)
        self.assertIn("no run", self.run_command(self.cuspan("queue"), self.environment(3)).stdout)
        self.assert_nothing_left()
        self.assert_log_is_sound()

    def one_is_killed(self, path, victim):
        """A run with a killed process no longer holds GPUs, and leaves nothing."""
        first = self.hold(path=path)
        waiter = self.start(self.run_app(path=path))
        self.assertIn("waiting for", waiter.stderr.readline())
        os.kill(first.pid if victim == "cuspan" else self.agents()[0], signal.SIGKILL)
        self.assertEqual(self.ends(waiter)[0], 0)
        self.finish(first)
        self.assert_nothing_left()

    def test_a_killed_launcher(self):
        self.one_is_killed("auto", "cuspan")

    def test_a_killed_launcher_of_several_agents(self):
        self.one_is_killed("never", "cuspan")

    def test_a_killed_agent(self):
        self.one_is_killed("auto", "cuspan-agent")

    def test_a_killed_agent_of_several(self):
        self.one_is_killed("never", "cuspan-agent")

    def test_killed_with_nobody_to_notice(self):
        """No lock file is left, even without another run to remove it."""
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path=path)
                for agent in self.agents():
                    os.kill(agent, signal.SIGKILL)
                self.finish(process)
                self.assert_nothing_left()

    def test_interrupted_while_it_waits(self):
        for path in PATHS:
            with self.subTest(path=path):
                holder = self.hold(path=path)
                wait_until(lambda: not self.waiting(), "the first run has left the queue")
                before = set(os.listdir(self.locks))
                waiter = self.start(self.run_app(path=path))
                self.assertIn("waiting for", waiter.stderr.readline())
                waiter.send_signal(signal.SIGINT)
                self.assertEqual(self.ends(waiter)[0], INTERRUPTED)
                wait_until(lambda before=before: set(os.listdir(self.locks)) == before, "its place is given up")
                self.assertEqual(self.ends(holder)[0], 0)
                self.assert_nothing_left()

    def test_a_waiting_launcher_is_killed(self):
        holder = self.hold()
        waiter = self.start(self.run_app())
        self.assertIn("waiting for", waiter.stderr.readline())
        waiter.kill()
        wait_until(lambda: [run["state"] for run in self.queue()] == ["running"], "nobody waits")
        self.assertEqual(self.ends(holder)[0], 0)
        self.assert_nothing_left()

    def test_many_at_once(self):
        """Each run gets its GPUs, in order, and no GPU has two runs."""
        runs = [self.start(self.run_app("--gpus", str(1 + i % 2)), self.environment(2)) for i in range(6)]
        for process in runs:
            self.assertEqual(self.ends(process)[0], 0)
        self.assert_log_is_sound()
        self.assert_nothing_left()

    def test_software_gpus_are_shared_unless_asked(self):
        holder = self.hold()
        shared = self.environment(CUSPAN_LEASES="auto")
        self.run_command(self.run_app("--no-wait"), shared)
        self.run_command(self.run_app("--no-wait"), self.environment(CUSPAN_LEASES="off"))
        self.run_command(self.run_app(), self.environment(CUSPAN_LEASES="maybe"), status=OWN_FAILURE)
        # cuspan queue shows holders in any case.
        self.assertIn("running", self.run_command(self.cuspan("queue"), shared).stdout)
        self.assertEqual(self.ends(holder)[0], 0)

    def test_a_folder_that_is_not_safe(self):
        self.locks.chmod(0o777)
        result = self.run_command(self.run_app(), status=OWN_FAILURE)
        self.assertIn("not safe", result.stderr)
        self.assertIn(str(self.locks), result.stderr)
        self.assertEqual(len(own_lines(result.stderr)), 1)

    def test_options_that_are_wrong(self):
        for options in (("--policy", "best"), ("--wait=soon",), ("--wait", "--no-wait"), ("--min-memory", "much"),
                        ("--min-capability", "9"), ("--gpus", "some")):
            with self.subTest(options=options):
                result = self.run_command(self.run_app(*options), status=OWN_FAILURE)
                self.assertIn(options[0].split("=")[0], result.stderr)


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class RootlessContainer(SystemTest):
    """A user namespace without a mapping of root: root's folders seem to belong to the overflow user."""
    USER, STRANGER = 4242, 4243
    relay = "mpi"

    def contained(self, folder, *options, status=0):
        """Runs there with this folder of locks; /run/lock is a new one owned by root."""
        for path in (self.folder, self.temporary):
            os.chown(path, self.USER, self.USER)
            path.chmod(0o755)
        os.chown(self.temporary, self.USER, self.USER)
        user = ["setpriv", f"--reuid={self.USER}", f"--regid={self.USER}", "--clear-groups",
                "unshare", "--user", "--map-current-user"]
        inside = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=1777 none /run/lock && exec "$@"', "sh", *user]
        tried = subprocess.run([*inside, build() / "bin/cuspan", "--version"], capture_output=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"user {self.USER} has no user namespace here, or cannot start cuspan: {tried.stderr}")
        environment = self.environment(CUSPAN_LEASES="on", CUSPAN_LEASE_FOLDER=str(folder), HOME=str(self.temporary))
        return self.run_command([*inside, *self.cuspan("run", *options, "--", app("vector_add", "shared"))], environment,
                                status=status)

    def test_the_systems_folder_has_locks(self):
        for options in ([], ["--same-node", "never", "--hosts", "localhost"]):
            with self.subTest(options=options):
                result = self.contained("/run/lock", *options)
                self.assertIn("PASS", result.stdout)
                self.assertEqual(own_lines(result.stderr), [])

    def test_a_strangers_folder_is_refused(self):
        locks = self.folder / "locks"
        locks.mkdir()
        locks.chmod(0o1777)
        os.chown(locks, self.STRANGER, self.STRANGER)
        result = self.contained(locks, status=OWN_FAILURE)
        self.assertIn(f"{locks} is not safe for GPU locks", result.stderr)
        self.assertIn("user namespace", result.stderr)
