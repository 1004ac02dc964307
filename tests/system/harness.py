"""Base of the system tests: runs the commands and checks for leftovers.

Each test has a mark in its environment, inherited by all its processes, and a folder for temporary files. It
therefore sees only its own leftovers.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

# Limit for events expected at once; only a broken program comes near it.
DEADLINE_S = 60

# Exit statuses of the commands' own failures, the same as those of env, timeout and shells.
USAGE, OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 2, 125, 126, 127

KINDS = ("shared", "static")
MARK = "SYSTEM_TEST_MARK"

# Starter of agents as MPI ranks: Open MPI's mpirun, or MPICH's mpiexec in a build with MPICH.
MPIRUN = os.environ.get("SYSTEM_TEST_MPIRUN", "mpirun")
OF_MPICH = pathlib.Path(MPIRUN).name.startswith("mpiexec")
# Names of its processes: on the program's host, and on others.
STARTER, DAEMON = ("mpiexec", "hydra_pmi_proxy") if OF_MPICH else ("orterun", "orted")
# Decorator for tests of Open MPI only.
of_open_mpi = unittest.skipIf(OF_MPICH, "the agents' MPI is MPICH")

_DROPPED = re.compile(r"^(CUSPAN_|OMPI_|PMIX_|PRTE_|LD_PRELOAD$|LD_LIBRARY_PATH$|MPIRUN$)")


def build():
    """The build tree under test."""
    return pathlib.Path(os.environ["CUSPAN_BUILD"])


# Ways of a run to its devices, as (--same-node, relay): on its own node, through agents over MPI, and over UCX.
LOCAL, MPI, UCX = ("auto", "mpi"), ("never", "mpi"), ("never", "ucx")


def ways():
    """Ways supported by this build."""
    return (LOCAL, MPI, UCX) if (build() / "bin/cuspan-agent-ucx").exists() else (LOCAL, MPI)


def app(name, kind):
    """A program of tests/apps."""
    return str(build() / "tests/apps" / kind / name)


def program(name, kind):
    """A program of tests/system/programs."""
    return str(build() / "tests/system/programs" / kind / name)


def wait_until(condition, what):
    """Returns the result of `condition` as soon as it is true. After the deadline it fails with `what`, a text or a
    function returning one."""
    end = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"after {DEADLINE_S} s still not: {what() if callable(what) else what}")
        time.sleep(0.01)


def state_of(pid):
    """The state letter of a process (R, S, T, Z …), or None if it does not exist."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


# Lines about slow operations, printed depending on the machine's load: compilations of the software GPU, and slow
# replies.
TAKES_LONG = re.compile(r"cuspan: (?:software GPU: (?:compiling kernel .* takes more than|kernel .* took .* to compile)"
                        r"|waiting for (?:the answer of|mpirun to start|the agents on) )")


def own_lines(text):
    """Lines printed by cuspan itself, except those about slow operations."""
    return [line for line in text.splitlines() if line.startswith("cuspan") and not TAKES_LONG.match(line)]


class Statistics:
    """The table of `cuspan run --stats`: a dict per line."""

    def __init__(self, text):
        lines = text.splitlines()
        head = next((i for i, line in enumerate(lines) if line.split()[:2] == ["session", "device"]), None)
        if head is None:
            raise AssertionError(f"no statistics in:\n{text}")
        names = re.split(r"  +", lines[head].strip())
        self.rows = [dict(zip(names, re.split(r"  +", line.strip())))
                     for line in lines[head + 1:] if re.match(r"^\d+ ", line)]

    def sessions(self):
        return {row["session"] for row in self.rows}

    def devices(self, session=None):
        """Devices of one session, or of all."""
        return {int(row["device"]) for row in self.rows if session in (None, row["session"])}

    def paths(self):
        return {row["path"] for row in self.rows}


class SystemTest(unittest.TestCase):
    """A test with its own environment, folder and processes."""
    relay = os.environ.get("SYSTEM_TEST_RELAY", "mpi")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="st-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.mark = uuid.uuid4().hex
        self.addCleanup(self.kill_leftovers)

    @contextlib.contextmanager
    def subTest(self, *message, **parameters):  # pylint: disable=invalid-name
        """Like unittest's, but a skip must leave nothing behind, since the test continues."""
        with super().subTest(*message, **parameters):
            try:
                yield
            except unittest.SkipTest:
                self.assert_nothing_left()
                raise

    # --- Commands

    def environment(self, devices=1, **more):
        """Environment of a user with `devices` software GPUs on each node; with SYSTEM_TEST_DEVICE=cuda, the existing
        GPUs."""
        variables = {name: value for name, value in os.environ.items() if not _DROPPED.match(name)}
        variables.update({MARK: self.mark, "TMPDIR": str(self.temporary), "CUSPAN_DEVICE": os.environ.get("SYSTEM_TEST_DEVICE", "soft"),
                          "CUSPAN_SOFT_GPUS": str(devices), "CUSPAN_SOFT_MEMORY": "512M",
                          "CUSPAN_KERNEL_TIMES": "off"})
        variables["CUSPAN_RELAY"] = self.relay
        # If tests run as root, mpirun needs these, as in a user's shell.
        variables.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        variables["MPIRUN"] = MPIRUN
        # Skips components of hwloc, unused here: on a virtual machine they take 0.2 s in each MPI process.
        variables["HWLOC_COMPONENTS"] = "-linuxio,-pci,-x86,-opencl,-gl"
        variables.update(more)
        return variables

    @staticmethod
    def cuspan(*arguments):
        return [str(build() / "bin/cuspan"), *arguments]

    @staticmethod
    def mpi_job(*groups):
        """The command for ranks on this host, in groups of (number, command)."""
        words = [MPIRUN, "-bind-to", "none"] if OF_MPICH else [MPIRUN, "--oversubscribe", "--bind-to", "none"]
        for i, (count, command) in enumerate(groups):
            words += [":"] * (i != 0) + ["-n", str(count)]
            words += command if OF_MPICH else ["--host", f"localhost:{count}", *command]
        return words

    @classmethod
    def mpirun(cls, devices, path, command):
        """Plain mpirun. On the agent path it starts one more agent per device."""
        agent = str(build() / "bin/cuspan-agent")
        if path == "same-node":
            return cls.mpi_job((1, [agent, "--stats", "--", *command]))
        away = [agent, "--same-node", "never"]
        return cls.mpi_job((1, [*away, "--stats", "--", *command]), (devices, away))

    def mounted(self, script, command, *arguments):
        """The command in a mount namespace of its own. A shell script starts it; it gets `arguments` and then the
        command as "$@"."""
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespace of its own: {tried.stderr.strip()}")
        return ["unshare", "--mount", "sh", "-c", script, "sh", *arguments, *command]

    def run_command(self, command, environment=None, status=0, **options):
        """Runs to the end, checks the exit status (None: any failure), and returns the finished process with its
        output."""
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        if options["stdin"] is None:
            del options["stdin"]
        try:
            result = subprocess.run(command, env=environment or self.environment(), capture_output=True, text=True,
                                    cwd=self.folder, check=False, **options)
        except subprocess.TimeoutExpired as late:
            said = [text if isinstance(text, str) else (text or b"").decode(errors="replace")
                    for text in (late.stdout, late.stderr)]
            self.fail(f"{late}\nstdout:\n{said[0]}\nstderr:\n{said[1]}")
        self.assertTrue(result.returncode == status or (status is None and result.returncode != 0),
                        f"{result.returncode} != {status}: {' '.join(map(str, command))}\n"
                        f"stdout:\n{result.stdout}\nstderr:\n{result.stderr}")
        return result

    def start(self, command, environment=None, **options):
        """Starts a command with pipes; the end of the test ends it."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                   "cwd": self.folder, **options}
        process = subprocess.Popen(command, env=environment or self.environment(), **options)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def tell(process, line):
        """Writes a line to the input of a program following commands. If the program has ended, answer() reports it."""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def answer(self, process):
        """Returns the next line of its output. If it has ended, fails with its standard error."""
        line = process.stdout.readline()
        if not line:
            status, _, errors = self.ends(process)
            self.fail(f"{process.args} ended with status {status} instead of an answer; stderr:\n{errors}")
        return line.strip()

    def ask(self, process, line):
        self.tell(process, line)
        return self.answer(process)

    @staticmethod
    def finish(process):
        """Kills the process if it still runs, closes its pipes and reaps it."""
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def ends(self, process):
        """Waits for the end of a started process; returns (status, rest of stdout, rest of stderr)."""
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{process.args} still runs after {DEADLINE_S} s")
        return process.returncode, out, err

    # --- Leftovers

    def processes(self, name=None):
        """Running processes of this test in the order of their start; of one program if `name` is given."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if needle not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                executable = os.readlink(entry / "exe")
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # It has ended, or belongs to another user.
            if state_of(entry.name) in (None, "Z", "X"):
                continue
            # Over UCX the agent is another file.
            if name is None or os.path.basename(executable).removesuffix("-ucx") == name:
                start = int(stat.rpartition(")")[2].split()[19])
                found.append((start, int(entry.name), os.path.basename(executable)))
        return [(pid, executable) for _, pid, executable in sorted(found)]

    def assert_nothing_left(self):
        """Checks that no process and no file is left."""
        wait_until(lambda: not self.processes(), lambda: f"all processes are gone: {self.processes()}")
        wait_until(lambda: not any(self.temporary.rglob("*")),
                   lambda: f"no temporary file is left: {list(self.temporary.rglob('*'))}")

    def kill_leftovers(self):
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
