"""What the system tests stand on: running the commands, and seeing what is left of them.

Every run gets a mark in its environment, which all of its processes inherit, and a folder of
its own for temporary files; so each test sees its own leftovers and nobody else's.
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

# For what should happen at once; only a broken program comes near it.
DEADLINE_S = 60

# Exit statuses of the commands' own failures, as env, timeout and shells have them.
USAGE, OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 2, 125, 126, 127

KINDS = ("shared", "static")
MARK = "SYSTEM_TEST_MARK"

# What starts the agents that are ranks of MPI: Open MPI's mpirun, or MPICH's mpiexec in a build with that.
MPIRUN = os.environ.get("SYSTEM_TEST_MPIRUN", "mpirun")
OF_MPICH = pathlib.Path(MPIRUN).name.startswith("mpiexec")
# Its processes' names: on the program's host, and on others.
STARTER, DAEMON = ("mpiexec", "hydra_pmi_proxy") if OF_MPICH else ("orterun", "orted")
# For a test of what Open MPI's alone does.
of_open_mpi = unittest.skipIf(OF_MPICH, "the agents' MPI is MPICH")

_DROPPED = re.compile(r"^(CUSPAN_|OMPI_|PMIX_|PRTE_|LD_PRELOAD$|LD_LIBRARY_PATH$|MPIRUN$)")


def build():
    """The build tree under test."""
    return pathlib.Path(os.environ["CUSPAN_BUILD"])


# How a run reaches its devices: on its own node, and through agents over MPI and over UCX. What --same-node says, and
# the relay.
LOCAL, MPI, UCX = ("auto", "mpi"), ("never", "mpi"), ("never", "ucx")


def ways():
    """Those that this build has."""
    return (LOCAL, MPI, UCX) if (build() / "bin/cuspan-agent-ucx").exists() else (LOCAL, MPI)


def app(name, kind):
    """A program of tests/apps."""
    return str(build() / "tests/apps" / kind / name)


def program(name, kind):
    """A program of tests/system/programs."""
    return str(build() / "tests/system/programs" / kind / name)


def wait_until(condition, what):
    """Returns what `condition` returns once that is true; after the deadline fails with `what`, a text or
    a function that makes one."""
    end = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"after {DEADLINE_S} s still not: {what() if callable(what) else what}")
        time.sleep(0.01)


def state_of(pid):
    """The state letter of a process (R, S, T, Z …), or None when it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


# The time that the software GPU compiles, or that an answer takes, depends on what else the machine does.
TAKES_LONG = re.compile(r"cuspan: (?:software GPU: (?:compiling kernel .* takes more than|kernel .* took .* to compile)"
                        r"|waiting for (?:the answer of|mpirun to start|the agents on) )")


def own_lines(text):
    """The lines that cuspan wrote itself, but for those that say how long something takes."""
    return [line for line in text.splitlines() if line.startswith("cuspan") and not TAKES_LONG.match(line)]


class Statistics:
    """The table of `cuspan run --stats`: a dict a line."""

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
        """Those of one session, or of all."""
        return {int(row["device"]) for row in self.rows if session in (None, row["session"])}

    def paths(self):
        return {row["path"] for row in self.rows}


class SystemTest(unittest.TestCase):
    """A test with an environment, a folder and processes of its own."""
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
        """As unittest's. A skip in it must leave nothing behind, since the test goes on."""
        with super().subTest(*message, **parameters):
            try:
                yield
            except unittest.SkipTest:
                self.assert_nothing_left()
                raise

    # --- What is run

    def environment(self, devices=1, **more):
        """That of a user who has `devices` software GPUs on each node; with SYSTEM_TEST_DEVICE=cuda, what is there."""
        variables = {name: value for name, value in os.environ.items() if not _DROPPED.match(name)}
        variables.update({MARK: self.mark, "TMPDIR": str(self.temporary), "CUSPAN_DEVICE": os.environ.get("SYSTEM_TEST_DEVICE", "soft"),
                          "CUSPAN_SOFT_GPUS": str(devices), "CUSPAN_SOFT_MEMORY": "512M",
                          "CUSPAN_KERNEL_TIMES": "off"})
        variables["CUSPAN_RELAY"] = self.relay
        # For mpirun as a user's shell would have it, where tests run as root.
        variables.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        variables["MPIRUN"] = MPIRUN
        # What hwloc finds out for each process of MPI, and nobody asks for here: on a virtual machine it takes a
        # fifth of a second.
        variables["HWLOC_COMPONENTS"] = "-linuxio,-pci,-x86,-opencl,-gl"
        variables.update(more)
        return variables

    @staticmethod
    def cuspan(*arguments):
        return [str(build() / "bin/cuspan"), *arguments]

    @staticmethod
    def mpi_job(*groups):
        """The command for ranks on this host, in groups: how many, and their command."""
        words = [MPIRUN, "-bind-to", "none"] if OF_MPICH else [MPIRUN, "--oversubscribe", "--bind-to", "none"]
        for i, (count, command) in enumerate(groups):
            words += [":"] * (i != 0) + ["-n", str(count)]
            words += command if OF_MPICH else ["--host", f"localhost:{count}", *command]
        return words

    @classmethod
    def mpirun(cls, devices, path, command):
        """The plain MPI form: on the agent path one more agent for each device."""
        agent = str(build() / "bin/cuspan-agent")
        if path == "same-node":
            return cls.mpi_job((1, [agent, "--stats", "--", *command]))
        away = [agent, "--same-node", "never"]
        return cls.mpi_job((1, [*away, "--stats", "--", *command]), (devices, away))

    def mounted(self, script, command, *arguments):
        """The command in a mount namespace of its own. A script of the shell starts it, as "$@" behind `arguments`."""
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespace of its own: {tried.stderr.strip()}")
        return ["unshare", "--mount", "sh", "-c", script, "sh", *arguments, *command]

    def run_command(self, command, environment=None, status=0, **options):
        """Runs to the end and checks the exit status, or only that it is a failure's (None); the finished process with
        its output."""
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
        """Starts a command with pipes; it ends with the test at the latest."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                   "cwd": self.folder, **options}
        process = subprocess.Popen(command, env=environment or self.environment(), **options)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def tell(process, line):
        """Writes a line to a program that reads its orders from its input; if it has ended, answer() says so."""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def answer(self, process):
        """The next line that it writes; fails with its last words when it has ended instead."""
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
        """Whatever became of it: closes its pipes and reaps it."""
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def ends(self, process):
        """Waits for the end of a started process; its (status, rest of stdout, rest of stderr)."""
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{process.args} still runs after {DEADLINE_S} s")
        return process.returncode, out, err

    # --- What is left

    def processes(self, name=None):
        """The living processes of this test in the order of their start, those of one program if named."""
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
                continue  # It has ended meanwhile, or is not ours.
            if state_of(entry.name) in (None, "Z", "X"):
                continue
            # Over UCX an agent is another file.
            if name is None or os.path.basename(executable).removesuffix("-ucx") == name:
                start = int(stat.rpartition(")")[2].split()[19])
                found.append((start, int(entry.name), os.path.basename(executable)))
        return [(pid, executable) for _, pid, executable in sorted(found)]

    def assert_nothing_left(self):
        """No process, no file, no shared memory by name."""
        wait_until(lambda: not self.processes(), lambda: f"all processes are gone: {self.processes()}")
        wait_until(lambda: not any(self.temporary.rglob("*")),
                   lambda: f"no temporary file is left: {list(self.temporary.rglob('*'))}")

    def kill_leftovers(self):
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
