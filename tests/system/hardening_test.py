"""Effects of other users, unusual limits and unusual programs on a run: none, or one clear line."""
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from harness import NOT_EXECUTABLE, OWN_FAILURE, SystemTest, app, build, own_lines, program, wait_until

PATHS = ("auto", "never")
NOBODY = 65534
LOST = "cudaErrorDevicesUnavailable"


def attacker():
    return str(build() / "tests/system/programs/attacker")


class Attacked(SystemTest):
    def attack(self, *arguments, environment=None):
        """Starts an attack; returns after its first round. It runs until the test ends."""
        process = self.start([attacker(), *arguments], environment)
        self.assertEqual(self.answer(process), "ready")
        return process

    def vector_add(self, *options, environment=None, devices=1):
        return self.run_command(self.cuspan("run", *options, "--", app("vector_add", "shared")),
                                environment or self.environment(devices))


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class AnotherUser(Attacked):
    def test_connects_while_runs_start(self):
        """Connects to the launcher, the agents and the lanes: the run starts, and prints few lines about it."""
        self.start([attacker(), str(NOBODY), "sockets"])
        for options in (["--same-node", "auto"], ["--same-node", "never"], ["--same-node", "never", "--relay", "mpi", "--lanes", "2"]):
            for _ in range(5):
                with self.subTest(options=options):
                    result = self.vector_add(*options)
                    self.assertIn("PASS", result.stdout)
                    for line in own_lines(result.stderr):
                        self.assertRegex(line, f"belongs to user {NOBODY}, not to this run's user|similar lines omitted")
        self.kill_leftovers()
        self.assert_nothing_left()

    def test_connects_without_end(self):
        """The pipe of the run's messages is full and never read: its program continues."""
        for path in PATHS:
            with self.subTest(path=path):
                reading, writing = os.pipe()
                # Fills the pipe.
                fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writing, b"x" * 4096)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writing, b"x")
                fcntl.fcntl(writing, fcntl.F_SETFL, 0)
                process = self.start(self.cuspan("run", "--same-node", path, "--", program("holds", "shared")),
                                     stderr=writing)
                self.assertEqual(self.ask(process, "use 0"), "right")
                self.attack(str(NOBODY), "sockets")
                for _ in range(20):
                    self.assertEqual(self.ask(process, "use 0"), "right")
                # The run must also end.
                process.stdin.close()
                self.assertEqual(process.wait(), 0)
                os.close(reading)
                os.close(writing)
                self.kill_leftovers()

    def test_lines_about_it(self):
        """At most one line a minute, however often it connects."""
        process = self.start(self.cuspan("run", "--", program("holds", "shared")))
        self.assertEqual(self.ask(process, "use 0"), "right")
        self.attack(str(NOBODY), "sockets")
        for _ in range(50):
            self.assertEqual(self.ask(process, "use 0"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        about = [line for line in own_lines(errors) if f"to user {NOBODY}" in line]
        # At most one line each of the launcher, the agent and the proxy.
        self.assertLessEqual(len(about), 3, errors)
        self.assertEqual(own_lines(errors), about)


class LimitOfFiles(Attacked):
    """ulimit -f also limits memory shared between processes."""

    def limited(self, kib, command):
        bytes_ = kib * 1024
        return ["prlimit", f"--fsize={bytes_}:{bytes_}", *command]

    def test_programs_run(self):
        for path in PATHS:
            for kib, name in ((1 << 21, "vector_add"), (200 << 10, "vector_add"), (200 << 10, "transfers"),
                              (100 << 10, "memory"), (16 << 10, "vector_add")):
                with self.subTest(path=path, kib=kib, program=name):
                    arguments = ["16"] if name == "memory" else []
                    command = self.cuspan("run", "--same-node", path, "--", app(name, "static"), *arguments)
                    result = self.run_command(self.limited(kib, command))
                    self.assertIn("PASS", result.stdout)
                    for line in own_lines(result.stderr):
                        self.assertIn("(ulimit -f)", line)
        self.assert_nothing_left()

    def test_pinned_memory_has_an_end(self):
        """A limit of 1 GiB allows half of it for pinned memory. A larger allocation returns CUDA's out of memory, with
        a message."""
        source = 'int main() { void* p; printf("%d", cudaMallocHost(&p, 700 << 20)); cudaError_t e = ' \
                 'cudaMallocHost(&p, 100 << 20); printf(" %d\\n", e); }'
        built = self.compiled("pins", source)
        result = self.run_command(self.limited(1 << 20, self.cuspan("run", "--", built)),
                                  self.environment(CUSPAN_SOFT_MEMORY="64M"))
        self.assertEqual(result.stdout, "2 0\n")
        self.assertIn("(ulimit -f)", result.stderr)

    def compiled(self, name, source):
        nvcc = os.environ.get("CUSPAN_NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.path.exists(nvcc):
            self.skipTest("no nvcc is known here")
        path = self.folder / name
        path.with_suffix(".cu").write_text("#include <cstdio>\n" + source, encoding="utf-8")
        subprocess.run([nvcc, "-o", path, path.with_suffix(".cu")], check=True, capture_output=True)
        return str(path)

    def test_too_little_is_said(self):
        for path in PATHS:
            with self.subTest(path=path):
                command = self.cuspan("run", "--same-node", path, "--", app("vector_add", "static"))
                result = subprocess.run(self.limited(1, command), env=self.environment(), capture_output=True, text=True,
                                        check=False, stdin=subprocess.DEVNULL)
                self.assertGreater(result.returncode, 0, "it ends by itself, and not by a signal")
                self.assertNotEqual(result.returncode, 128 + 25)
                self.assertIn("ulimit -f", result.stderr)
        self.assert_nothing_left()


class Descriptors(Attacked):
    def test_more_connections_than_descriptors(self):
        """Idle connections are closed; a new program is served."""
        holds = self.start(["prlimit", "--nofile=64:64", *self.cuspan(
            "run", "--", "sh", "-c", f"{attacker()} idle 100 & read line; {app('vector_add', 'shared')}; kill $!")])
        self.assertEqual(self.answer(holds), "ready")
        self.tell(holds, "go on")
        status, out, errors = self.ends(holds)
        self.assertIn("PASS", out, errors)
        self.assertLess(len(own_lines(errors)), 20, errors)
        self.assertEqual(status, 0, errors)

    def test_sessions_that_do_not_fit_are_refused(self):
        """The message has the number and a remedy; existing sessions keep their devices."""
        one = program("holds", "shared")
        script = f"exec {one}"
        first = self.start(["prlimit", "--nofile=72:72", *self.cuspan("run", "--gpus", "12", "--", "sh", "-c", script)],
                           self.environment(12, CUSPAN_SOFT_MEMORY="32M"))
        answers = [self.ask(first, f"use {device}") for device in range(12)]
        self.assertEqual(answers[0], "right")
        self.assertIn(LOST, answers)
        self.assertEqual(self.ask(first, "use 0"), "right")
        status, _, errors = self.ends(first)
        self.assertEqual(status, 0)
        self.assertRegex(errors, r"uses \d+ of 72 file descriptors and needs \d+ more: raise the limit of open files")

    def test_sixty_programs_of_eight_devices(self):
        """Agents raise their soft limit to the hard one if needed; the programs keep theirs."""
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1 << 14:
            self.skipTest("the hard limit of open files is too low here")
        script = ('for i in $(seq 60); do (ulimit -Sn; exec "$0") & done; wait')
        command = self.cuspan("run", "--gpus", "8", "--", "sh", "-c", script, program("uses_all", "shared"))
        result = self.run_command(["prlimit", "--nofile=1024:", *command],
                                  self.environment(8, CUSPAN_SOFT_MEMORY="32M", CUSPAN_STAGING_BUFFERS="2",
                                                   CUSPAN_STAGING_BYTES="64K"))
        lines = result.stdout.split()
        self.assertEqual(lines.count("1024"), 60)
        self.assertEqual(lines.count("right"), 60, result.stderr)
        self.assertEqual(own_lines(result.stderr), [])
        self.assert_nothing_left()


class FullTemporaryFolder(SystemTest):
    relay = "mpi"
    SCRIPT = 'mount -t tmpfs -o size=300k none "$TMPDIR" && head -c 250000 /dev/zero >"$TMPDIR/fill"; exec "$@"'

    def test_is_said(self):
        def full(command):
            return self.mounted(self.SCRIPT, command)

        environment = self.environment()
        if subprocess.run(full(["true"]), env=environment, capture_output=True, check=False).returncode != 0:
            self.skipTest("a small file system can not be mounted here")
        command = self.cuspan("run", "--hosts", "localhost:1", "--same-node", "never", "--", "true")
        result = self.run_command(full(command), environment, status=OWN_FAILURE, timeout=60)
        self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
        self.assertIn("no space for Open MPI's files", result.stderr)
        self.assert_nothing_left()


class BadFrames(Attacked):
    """Invalid frames in the channel of a proxy."""

    SLOT, SLOTS = 64, 16384

    def spoil(self, pid):
        """Fills all rings read by a process with invalid frames marked as published."""
        rubbish = b"".join(struct.pack("<Q", slot + 1) + b"\xa5" * (self.SLOT - 8) for slot in range(self.SLOTS))
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            ranges = [line.split() for line in maps if "/memfd:cuspan-channel" in line]
        spoiled = 0
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for fields in ranges:
                first, last = (int(number, 16) for number in fields[0].split("-"))
                if last - first == len(rubbish):
                    memory.seek(first)
                    memory.write(rubbish)
                    spoiled += 1
        self.assertGreater(spoiled, 0)

    def processor_time(self, pid):
        fields = open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_cost_the_device_once(self):
        process = self.start(self.cuspan("run", "--", program("holds", "shared")))
        self.assertEqual(self.ask(process, "use 0"), "right")
        pid = wait_until(lambda: self.processes("holds"), "the program is there")[0][0]
        try:
            self.spoil(pid)
        except PermissionError:
            self.skipTest("the memory of another process can not be written here")
        self.assertEqual(self.ask(process, "use 0"), LOST)
        before = self.processor_time(pid)
        for _ in range(200):
            self.assertEqual(self.ask(process, "use 0"), LOST)
        self.assertLess(self.processor_time(pid) - before, 1.0, "a thread of the program spins")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        given_up = [line for line in own_lines(errors) if "is lost: frame magic" in line]
        self.assertEqual(len(given_up), 1, errors)
        self.assertLess(len(own_lines(errors)), 6, errors)


class ProgramsThatCanNotBeEntered(SystemTest):
    def test_static(self):
        """If started directly, it is refused by name. If started by a script, it gets the runtime's own error, and no
        signal."""
        static = str(build() / "tests/unit/launcher/fully_static")
        result = self.run_command(self.cuspan("run", "--", static), status=NOT_EXECUTABLE)
        self.assertRegex(result.stderr, r"^cuspan: .* is fully statically linked")
        result = self.run_command(self.cuspan("run", "--", "sh", "-c", f"{static}; exit $?"), status=1)
        self.assertEqual(result.stdout, "35\n")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file to another user")
    def test_setuid(self):
        copy = self.folder / "setuid"
        shutil.copy(app("vector_add", "shared"), copy)
        os.chown(copy, NOBODY, NOBODY)
        copy.chmod(0o4755)
        result = subprocess.run(self.cuspan("run", "--", str(copy)), env=self.environment(), capture_output=True,
                                text=True, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"cuspan: .*/setuid has elevated privileges \(setuid\)")

    def test_others_are_started(self):
        """Static programs without device code, scripts, and other files are started."""
        result = self.run_command(self.cuspan("run", "--", "sh", "-c", "echo $0", "works"))
        self.assertEqual((result.stdout, result.stderr), ("works\n", ""))


class Waiting(SystemTest):
    def test_for_a_latch_that_the_device_can_not_see(self):
        """A kernel spinning on managed memory of another node never sees the host's store: cuspan prints a message."""
        process = self.start(self.cuspan("run", "--same-node", "never", "--", program("latch", "shared")))
        line = wait_until(lambda: process.stderr.readline(), "cuspan says what is waited for")
        self.assertRegex(line, r"^cuspan: device 0 .*has been busy for 10 s.*managed memory")
        process.terminate()
        status, _, errors = self.ends(process)
        self.assertEqual(status, -signal.SIGTERM, errors)
        self.assert_nothing_left()
