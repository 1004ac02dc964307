"""A user of the same group tries to open all resources of a run's agents: memory, files, sockets, descriptors."""
import contextlib
import ctypes
import errno
import json
import os
import re
import socket
import stat
import unittest

from harness import OF_MPICH, SystemTest, build, own_lines, program

NOBODY = 65534
IPC_STAT = 2
SHM_RDONLY = 0o10000
# Errors of the kernel for missing permissions.
DENIED = (errno.EACCES, errno.EPERM)
NAMES = ("cuspan", "cuspan-agent", "cuspan-proxy", "orterun", "orted", "mpiexec", "hydra_pmi_proxy")


def segments(pids):
    """System V shared memory segments created by these processes."""
    with open("/proc/sysvipc/shm", encoding="utf-8") as table:
        names = table.readline().split()
        rows = [dict(zip(names, line.split())) for line in table]
    return [int(row["shmid"]) for row in rows if int(row["cpid"]) in pids]


def files(pids, folder):
    """Paths of files shared or opened by these processes, by name and descriptor, and of all files below a folder."""
    paths = {str(path) for path in folder.rglob("*")}
    for pid in pids:
        paths.update(f"/proc/{pid}/{name}" for name in ("mem", "environ", "maps"))
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            paths.update(re.findall(r" rw-s .* (/\S+)$", maps.read(), re.MULTILINE))
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(path).st_mode
                if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
                    paths.update({path, os.readlink(path)})
    return sorted(path for path in paths if os.path.lexists(path))


def sockets(pids):
    """Names of the listening Unix sockets of these processes."""
    nodes = set()
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
                nodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(f"/proc/{pid}/fd/{name}")))
    with open("/proc/net/unix", encoding="utf-8") as table:
        rows = [line.split() for line in table][1:]
    listens = "00010000"
    return sorted({row[7] for row in rows if len(row) > 7 and row[6] in nodes and row[3] == listens})


def opened(memory, paths):
    """Resources opened successfully by this process, as texts."""
    library = ctypes.CDLL(None, use_errno=True)
    library.shmat.restype = ctypes.c_void_p
    buffer = ctypes.create_string_buffer(4096)
    got = []
    for number in memory:
        for flags in (SHM_RDONLY, 0):
            if library.shmat(number, None, flags) != ctypes.c_void_p(-1).value:
                got.append(f"shared memory {number} attached with flags {flags:o}")
        if library.shmctl(number, IPC_STAT, buffer) == 0:
            got.append(f"shared memory {number} looked at")
    for path in paths:
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK))
                got.append(f"{path} opened with flags {flags}")
            except OSError as error:
                if error.errno not in (*DENIED, errno.ENOENT, errno.ENXIO):
                    got.append(f"{path}: {error}")
    return got


def connected(names):
    """Successful connections of this process to these sockets."""
    ends = {}
    for name in names:
        ends[name] = socket.socket(socket.AF_UNIX)
        try:
            ends[name].connect(name.replace("@", "\0", 1))
        except OSError:
            del ends[name]
    return ends


def heard(ends):
    """Data received until all connections are closed, except the reason of the refusal."""
    got = []
    for name, end in ends.items():
        with end, contextlib.suppress(ConnectionError):
            while said := end.recv(1 << 16):
                if b"belongs to user" not in said:
                    got.append(f"{name} says {said!r}")
    return got


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class AnotherMemberOfTheGroup(SystemTest):
    @contextlib.contextmanager
    def member(self, memory, paths, names):
        """Forks a process of another user, only in the group of this process. The first call of the result returns the
        resources it has opened; the second returns its received data, after all sockets are closed."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                # The tested program ends at the end of its input, so this process must not hold the other end.
                os.closerange(3, writing)
                os.closerange(writing + 1, 4096)
                os.setgroups([os.getegid()])
                os.setresuid(NOBODY, NOBODY, NOBODY)
                ends = connected(names)
                os.write(writing, json.dumps(opened(memory, paths)).encode() + b"\n")
                os.write(writing, json.dumps(heard(ends)).encode() + b"\n")
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading, encoding="utf-8") as pipe:
            yield lambda: json.loads(pipe.readline() or '["the attempt failed"]')
        os.waitpid(pid, 0)

    def check(self, kinds_of_memory, **environment):
        """Checks a run with agents sharing these kinds of memory."""
        if environment["CUSPAN_RELAY"] == "ucx" and not (build() / "bin/cuspan-agent-ucx").exists():
            self.skipTest("cuspan was built without UCX")
        options = ["--hosts", "localhost:1,localhost:1", "--same-node", "never", "--lanes", "2"]
        # umask=0: files must not rely on the user's mask.
        process = self.start(self.cuspan("run", *options, "--", program("holds", "shared")),
                             self.environment(2, **environment), umask=0)
        for device in range(2):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        pids = [pid for pid, name in self.processes() if name.removesuffix("-ucx") in NAMES]
        maps = "".join(open(f"/proc/{pid}/maps", encoding="utf-8").read() for pid in pids)
        for kind in kinds_of_memory:
            self.assertIn(kind, maps)
        tried = segments(pids), files(pids, self.temporary), sockets(pids)
        self.assertTrue(tried[1] and tried[2])
        with self.member(*tried) as found:
            self.assertEqual(found(), [])
            for device in range(2):
                self.assertEqual(self.ask(process, f"use {device}"), "right")
            status, _, errors = self.ends(process)
            self.assertEqual(status, 0, errors)
            self.assertEqual(found(), [])
        for line in own_lines(errors):
            self.assertRegex(line, f"belongs to user {NOBODY}, not to this run's user|similar lines omitted")
        self.assert_nothing_left()

    def test_what_is_open_is_found(self):
        """A segment, a file and a socket open to a member of the group."""
        library = ctypes.CDLL(None, use_errno=True)
        number = library.shmget(0, 4096, 0o1660)
        self.addCleanup(library.shmctl, number, 0, None)
        path = self.temporary / "open"
        path.write_text("open", encoding="utf-8")
        for folder in (self.folder, self.temporary):
            folder.chmod(0o770)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0group-test-{self.mark}")
            listener.listen()
            self.assertIn(number, segments([os.getpid()]))
            self.assertIn(f"@group-test-{self.mark}", sockets([os.getpid()]))
            self.assertIn(str(path), files([], self.temporary))
            with self.member([number], [str(path)], [f"@group-test-{self.mark}"]) as found:
                end, _ = listener.accept()
                end.send(b"secret")
                end.close()
                self.assertEqual(len(got := found()), 4, got)
                self.assertEqual(found(), [f"@group-test-{self.mark} says b'secret'"])

    @unittest.skipIf(OF_MPICH, "MPICH's own shared memory is looked at over UCX alone")
    def test_mpi(self):
        self.check(["vader_segment"], CUSPAN_RELAY="mpi")

    @unittest.skipIf(OF_MPICH, "Open MPI's variables choose UCX")
    def test_mpi_over_ucx(self):
        self.check(["ucx_shm_posix"], CUSPAN_RELAY="mpi", OMPI_MCA_pml="ucx", OMPI_MCA_opal_common_ucx_tls="any",
                   OMPI_MCA_opal_common_ucx_devices="any")

    def test_ucx(self):
        self.check(["ucx_shm_posix"], CUSPAN_RELAY="ucx")

    def test_ucx_as_the_user_chose(self):
        self.check(["ucx_shm_posix"], CUSPAN_RELAY="ucx", UCX_TLS="tcp,self,sm")
