"""`cuspan doctor` in a cluster in a box: each fault is planted on a host and must be the only finding."""
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap

from box import Box, BoxTest
from harness import OF_MPICH, build

OTHERS = "n1,n2"
ADDRESS = {"n0": "10.77.0.1", "n1": "10.77.0.2", "n2": "10.77.0.3"}
HEALTHY, FOUND = 0, 1

# Forbids changes of code (PR_SET_MDWE, linux/prctl.h) and runs the command given by its arguments.
PROTECT = """\
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl(65, 1, 0, 0, 0) != 0: sys.exit(f"prctl: {ctypes.get_errno()}")
os.execvp(sys.argv[1], sys.argv[1:])
"""

# A driver on top of the software GPU's: reports this compute mode, and its GPUs pass for real ones.
DRIVER = """\
#define _GNU_SOURCE
#include <dlfcn.h>
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  int (*next)(int*, int, int) = (int (*)(int*, int, int))dlsym(RTLD_NEXT, "cuDeviceGetAttribute");
  if (attribute != 20) return next(value, attribute, device);
  *value = MODE;
  return 0;
}
"""

# A clock one hour ahead.
CLOCK = """\
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* time) {
  long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += 3600;
  return (int)result;
}
"""


def setUpModule():
    BoxTest.box = Box([1, 2, 1])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class DoctorTest(BoxTest):
    def there(self, host, text):
        """A remote shell starting all processes of one host through these shell lines. 'exec "$@"' follows them, unless
        they exit themselves."""
        planted = self.folder / "planted"
        planted.write_text(f"{textwrap.dedent(text)}\nexec \"$@\"\n", encoding="utf-8")
        shell = self.folder / "shell"
        shell.write_text(textwrap.dedent(f"""\
            #!/bin/sh
            if [ "$1" = {host} ]; then set -- "$1" "sh {planted} $2"; fi
            exec /run/cuspan-box/{self.box.name}/remote-shell "$@"
            """), encoding="utf-8")
        shell.chmod(0o700)
        return ["--remote-shell", str(shell)]

    def shell(self, text):
        """A remote shell with this script: $1 is the host, $2 the command; `box` is the box's remote shell."""
        shell = self.folder / "shell"
        shell.write_text(f"#!/bin/sh\nbox=/run/cuspan-box/{self.box.name}/remote-shell\n{textwrap.dedent(text)}\n",
                         encoding="utf-8")
        shell.chmod(0o700)
        return ["--remote-shell", str(shell)]

    def doctor(self, *arguments, status=HEALTHY, hosts=OTHERS, before=(), **more):
        where = ["--hosts", hosts] if hosts else []
        command = [*before, *self.cuspan("doctor", "--json", *where, *arguments)]
        result = self.run_command(self.box.on("n0", *command), self.environment(**more), status=status)
        self.assertEqual(result.stderr, "")
        report = json.loads(result.stdout)
        self.assertEqual(report["healthy"], status == HEALTHY)
        self.assert_nothing_left()
        return report

    def finds(self, errors, *arguments, warnings=(), **options):
        """Checks for exactly these findings, as "ID HOST"; returns the first."""
        found = self.doctor(*arguments, status=FOUND if errors else HEALTHY, **options)["findings"]
        expected = [("error", text) for text in errors] + [("warning", text) for text in warnings]
        self.assertEqual(sorted((one["severity"], f"{one['id']} {one['host']}") for one in found), sorted(expected), found)
        for one in found:
            self.assertGreater(len(one["action"]), 10, one)
        return next(one for one in found if (one["severity"], f"{one['id']} {one['host']}") == expected[0])

    def in_space(self, host, *command):
        """Runs a command of iproute2 in a host's network namespace."""
        subprocess.run(["ip", "netns", "exec", f"cuspan-{self.box.name}-{host}", *command], check=True,
                       capture_output=True)

    def library(self, name, text, *options):
        """Compiles a shared library of C; skips without a compiler."""
        if shutil.which("cc") is None:
            self.skipTest("there is no C compiler to make the fault with")
        source = self.folder / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / name, source, *options], check=True)
        return self.folder / name


class Healthy(DoctorTest):
    def test_three_hosts(self):
        for relay in ("mpi", "ucx"):
            with self.subTest(relay=relay):
                if relay == "ucx" and not (build() / "bin/cuspan-agent-ucx").exists():
                    self.skipTest("this build has no UCX")
                result = self.run_command(
                    self.box.on("n0", *self.cuspan("doctor", "--relay", relay, "--hosts", "n0,n1,n2")), self.environment())
                lines = result.stdout.splitlines()
                self.assertLessEqual(len(lines), 24)
                self.assertEqual([line.split()[0] for line in lines[:3]], ["n0", "n1", "n2"], result.stdout)
                self.assertEqual(lines[3:], ["no problems found: cuspan run can use 4 GPUs on 3 hosts"])
        self.assert_nothing_left()

    def test_others_alone(self):
        result = self.run_command(self.box.on("n0", *self.cuspan("doctor", "--hosts", OTHERS)), self.environment())
        lines = result.stdout.splitlines()
        self.assertEqual(lines[-1], "no problems found: cuspan run can use 3 GPUs on 2 hosts", result.stdout)
        self.assertRegex(lines[1], r"^n1 +cuspan [0-9.]+ +2 x cuspan software GPU +[0-9.]+ Gbit/s$")
        self.assertEqual(len(lines), 4)
        self.assert_nothing_left()

    def test_nothing_is_started_or_kept(self):
        """The doctor leaves no process on the hosts, and creates no missing folders."""
        cache = self.folder / "cache"
        self.doctor(XDG_CACHE_HOME=str(cache), CUSPAN_LEASES="on")
        self.assertFalse(cache.exists())
        self.assertEqual([name for name in os.listdir("/tmp") if name.startswith("cuspan-doctor")], [])
        for host in self.box.hosts:
            self.assertEqual(self.box.pids(host), set())


class Mpi(DoctorTest):
    relay = "mpi"

    def test_no_mpirun(self):
        found = self.finds(["mpirun-missing n0"], MPIRUN="/no/mpirun")
        self.assertIn("MPIRUN", found["action"])
        # mpirun is not needed for a single host.
        self.doctor(hosts="", MPIRUN="/no/mpirun")

    def test_mpirun_of_another(self):
        other = self.folder / "mpirun"
        says = "mpirun (Open MPI) 4.1.4" if OF_MPICH else "HYDRA build details:"
        other.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
        other.chmod(0o700)
        self.assertIn(str(other), self.finds(["mpirun-other-mpi n0"], MPIRUN=str(other))["message"])

    def test_mpirun_that_is_none(self):
        self.finds([], MPIRUN="/bin/true", warnings=["mpirun-unknown n0"])

    def test_no_daemon(self):
        paths = {os.path.realpath(path) for path in map(shutil.which, ("orted", "prted", "hydra_pmi_proxy",
                                                                       "hydra_bstrap_proxy")) if path}
        hide = "\n".join(f"mount --bind /dev/null {path}" for path in paths)
        self.finds(["mpi-daemon-missing n1"], *self.there("n1", hide))

    def test_agent_without_its_library(self):
        listed = subprocess.run(["ldd", build() / "bin/cuspan-agent"], capture_output=True, text=True, check=True).stdout
        library = next(line.split()[2] for line in listed.splitlines() if line.split()[0].startswith("libmpi"))
        found = self.finds(["agent-not-starting n1"], *self.there("n1", f"mount --bind /dev/null {os.path.realpath(library)}"))
        self.assertIn("libmpi", found["message"])


class Ucx(DoctorTest):
    def test_missing(self):
        agent = build() / "bin/cuspan-agent-ucx"
        if not agent.exists():
            self.skipTest("this build has no UCX")
        fault = self.there("n2", f"mount --bind /dev/null {agent}")
        self.finds(["ucx-missing n2"], "--relay", "ucx", *fault)
        # UCX does not need mpirun either.
        self.doctor("--relay", "ucx", MPIRUN="/no/mpirun")
        self.doctor("--relay", "mpi", *fault)


class Shell(DoctorTest):
    def test_name_without_address(self):
        self.finds(["name-unresolved n9.invalid"], hosts="n1,n9.invalid")

    def test_refused(self):
        for says, does in (("n1: Permission denied (publickey,password).", "ssh-copy-id"),
                           ("Host key verification failed.", "host key"), ("no such luck", "--remote-shell")):
            with self.subTest(says=says):
                found = self.finds(["remote-shell-failed n1"],
                                   *self.shell(f"[ $1 = n1 ] && echo '{says}' >&2 && exit 255\nexec $box \"$@\""))
                self.assertIn(says, found["message"])
                self.assertIn(does, found["action"])

    def test_missing(self):
        found = self.finds(["remote-shell-failed n1", "remote-shell-failed n2"], "--remote-shell", "/no/shell")
        self.assertIn("/no/shell", found["message"])

    def test_hangs(self):
        """All other hosts answer, and the hanging shell is ended."""
        found = self.finds(["remote-shell-timeout n1"], "--timeout", "8",
                           *self.shell("[ $1 = n1 ] && exec sleep 1000\nexec $box \"$@\""))
        self.assertIn("8 s", found["message"])

    def test_prints(self):
        found = self.finds([], *self.there("n1", "echo 'Welcome!'"), warnings=["remote-shell-output n1"])
        self.assertIn("Welcome!", found["message"])

    def test_takes_no_input(self):
        """mpirun's own remote shell may have no input either: checks without input still run."""
        self.doctor(*self.shell('exec $box "$@" < /dev/null'))


class Installation(DoctorTest):
    def test_missing(self):
        found = self.finds(["cuspan-missing n1"], *self.there("n1", f"mount -t tmpfs tmpfs {build()}/bin"))
        self.assertIn("--remote-prefix", found["action"])
        self.finds(["cuspan-missing n1", "cuspan-missing n2"], "--remote-prefix", "/no/cuspan")

    def other(self, text):
        """Replaces cuspan on n1."""
        other = self.folder / "cuspan"
        other.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        other.chmod(0o755)
        own = self.folder / "own"
        shutil.copy(build() / "bin/cuspan", own)
        return self.there("n1", f"mount --bind {other} {build()}/bin/cuspan")

    def test_other_versions(self):
        for text in ("echo '{\"cuspan_doctor\":{\"version\":\"9.8.7\",\"protocol\":\"1\"}}'", "echo '{\"cuspan_doctor\":9.8.7'",
                     "echo \"cuspan: unknown command 'doctor'\" >&2; exit 2"):
            with self.subTest(text=text):
                self.finds(["cuspan-version n1"], *self.other(text))

    def test_incomplete(self):
        found = self.finds(["cuspan-incomplete n1"], *self.there("n1", f"mount -t tmpfs tmpfs {build()}/lib/cuspan/runtime"))
        self.assertIn("libcuda.so.1", found["message"])

    def test_misspelt_variable(self):
        found = self.finds([], CUSPAN_LANE="2", warnings=["setting-unknown n0"])
        self.assertIn("did you mean CUSPAN_LANES?", found["message"])
        self.finds([], *self.there("n1", "export CUSPAN_RELAI=ucx"), warnings=["setting-unknown n1"])


class Gpus(DoctorTest):
    def driver(self, mode):
        """Shell lines planting a driver with GPUs in this compute mode."""
        soft = (build() / "lib/cuspan/soft/libcuda.so.1").read_bytes()
        # The replacement has the original name, so the original gets another.
        (self.folder / "libcudb.so.1").write_bytes(soft.replace(b"libcuda.so.1\0", b"libcudb.so.1\0"))
        self.library("libcuda.so.1", DRIVER, f"-DMODE={mode}", "-Wl,--no-as-needed", self.folder / "libcudb.so.1",
                     f"-Wl,-rpath,{self.folder}")
        return f"ulimit -l unlimited 2> /dev/null\nexport LD_LIBRARY_PATH={self.folder}"

    def setUp(self):
        super().setUp()
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            self.has_driver = False
        else:
            self.has_driver = True
        # If root may not raise the limit, a host with a real GPU has this machine's limit.
        raised = subprocess.run(["sh", "-c", "ulimit -l unlimited"], capture_output=True, check=False).returncode == 0
        little = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] < 64 << 20
        self.locked = ["limit-locked-memory n1"] if little and not raised else []

    def test_no_driver(self):
        if self.has_driver:
            self.skipTest("this machine has NVIDIA's driver")
        found = self.finds(["no-gpu n1", "no-gpu n2"], "--device", "cuda")
        self.assertIn("libcuda.so.1", found["message"])
        self.finds([], "--device", "auto", warnings=["software-gpu n1"])
        # GPUs on one host are enough.
        self.finds([], "--device", "cuda", *self.there("n1", self.driver(0)), warnings=["no-gpu n2", *self.locked])
        self.finds([], "--device", "auto", *self.there("n1", self.driver(0)), warnings=["software-gpu n2", *self.locked])

    def test_no_software_gpu(self):
        hide = f"mount --bind /dev/null {os.path.realpath(build() / 'lib/cuspan/soft/libcuda.so.1')}"
        self.finds([], *self.there("n1", hide), warnings=["software-gpu-missing n1"])
        self.finds(["software-gpu-missing n1"], *self.there("n1", hide), hosts="n1")

    def test_compute_modes(self):
        found = self.finds(["compute-mode-prohibited n1"] * 2, "--device", "cuda", *self.there("n1", self.driver(2)),
                           hosts="n1", warnings=self.locked)
        self.assertIn("nvidia-smi -i 0", found["action"])
        self.finds([], "--device", "cuda", *self.there("n1", self.driver(3)), hosts="n1",
                   warnings=["compute-mode-exclusive n1"] * 2 + self.locked)

    def test_locked_memory(self):
        fault = self.there("n1", self.driver(0) + "\nulimit -l 64")
        found = self.finds([], "--device", "cuda", *fault, hosts="n1", warnings=["limit-locked-memory n1"])
        self.assertIn("64 KiB", found["message"])

    def test_locks(self):
        """The folder of locks allows others to remove them. Software GPUs have no locks by default."""
        folder = self.folder / "locks"
        folder.mkdir(mode=0o1777)
        folder.chmod(0o1777)
        fault = self.there("n1", f"mount -t tmpfs -o mode=0777 tmpfs {folder}")
        self.finds(["lease-folder n1"], *fault, CUSPAN_LEASES="on", CUSPAN_LEASE_FOLDER=str(folder))
        self.doctor(*fault, CUSPAN_LEASE_FOLDER=str(folder))


class Limits(DoctorTest):
    def test_open_files(self):
        self.finds(["limit-open-files n1"], *self.there("n1", "ulimit -n 60"))
        self.finds([], *self.there("n2", "ulimit -n 500"), warnings=["limit-open-files n2"])

    def test_file_sizes(self):
        # 1 MiB, in blocks of 512 bytes. The software GPU's memory is subject to it too.
        self.finds(["limit-file-size n1"], *self.there("n1", "ulimit -f 2048"), warnings=["software-gpu-missing n1"])

    def test_shared_memory(self):
        fault = "mount -t tmpfs -o {} tmpfs /dev/shm"
        self.finds([], "--relay", "mpi", *self.there("n1", fault.format("ro")), warnings=["shm-unusable n1"])
        self.finds([], "--relay", "mpi", *self.there("n1", fault.format("size=1m")), warnings=["shm-low n1"])
        if not (build() / "bin/cuspan-agent-ucx").exists():
            self.skipTest("this build has no UCX, which needs it")
        self.finds(["shm-unusable n1"], "--relay", "ucx", *self.there("n1", fault.format("ro")))
        self.finds(["shm-low n1"], "--relay", "ucx", *self.there("n1", fault.format("size=1m")))

    def test_temporary_folder(self):
        full = f"mount -t tmpfs -o size=16k tmpfs {self.temporary}\nhead -c 1M /dev/zero > {self.temporary}/full 2> /dev/null"
        self.finds(["tmpdir-full n1"], "--relay", "mpi", *self.there("n1", full))
        fault = self.there("n1", f"mount -t tmpfs -o ro tmpfs {self.temporary}")
        self.finds(["tmpdir-unusable n1"], "--relay", "mpi", *fault)
        # MPI creates the missing folder.
        self.doctor("--relay", "mpi", *self.there("n1", f"export TMPDIR={self.folder}/new"))

    def test_kernel_cache(self):
        fault = self.there("n1", f"mount -t tmpfs -o ro tmpfs {self.temporary}")
        self.finds(["tmpdir-unusable n1"], "--relay", "mpi", *fault, warnings=["kernel-cache n1"],
                   CUSPAN_SOFT_CACHE=str(self.temporary / "a/b"))

    def test_protected_code(self):
        protect = self.folder / "protect.py"
        protect.write_text(PROTECT, encoding="utf-8")
        tried = subprocess.run([sys.executable, "-BS", protect, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"this kernel cannot forbid it (Linux 6.3 can): {tried.stderr.strip()}")
        self.finds(["code-protected n1"], *self.there("n1", f"set -- {sys.executable} -BS {protect} \"$@\""))
        self.finds(["code-protected n0"], hosts="", before=[sys.executable, "-BS", str(protect)])

    def test_clock(self):
        clock = self.library("clock.so", CLOCK)
        found = self.finds([], *self.there("n1", f"export LD_PRELOAD={clock}"), warnings=["clock-apart n1"])
        self.assertIn("3600 s ahead", found["message"])


class Links(DoctorTest):
    def test_mtu(self):
        self.addCleanup(self.in_space, "n1", "ip", "link", "set", "eth0", "mtu", "1500")
        self.in_space("n1", "ip", "link", "set", "eth0", "mtu", "1400")
        found = self.finds([], warnings=["mtu-differs n1"])
        for mtu in ("1400", "1500"):
            self.assertIn(mtu, found["message"])

    def test_slow(self):
        if self.box.call("shape", "200mbit", "n1", check=False).returncode != 0:
            self.skipTest("this kernel has no token bucket filter (sch_tbf)")
        self.addCleanup(self.box.call, "shape", "off", "n1")
        self.assertIn("Mbit/s", self.finds([], warnings=["link-slow n1"])["message"])

    def test_blocked(self):
        """Packets between the other two hosts are rejected at once, or dropped silently."""
        for kind in ("prohibit", "blackhole"):
            with self.subTest(kind=kind):
                self.in_space("n1", "ip", "route", "add", kind, ADDRESS["n2"])
                try:
                    found = self.finds(["connection-blocked n1", "connection-blocked n2"])
                finally:
                    self.in_space("n1", "ip", "route", "del", kind, ADDRESS["n2"])
                self.assertIn("n2", found["message"])
                self.assertIn("ports", found["action"])

    def test_large_packets_are_lost(self):
        """A switch with a smaller MTU drops large packets silently."""
        switch = ["ip", "-netns", f"cuspan-{self.box.name}", "link", "set", "n1", "mtu"]
        # Without this, unsegmented packets (GSO) would pass.
        self.addCleanup(self.in_space, "n1", "ip", "link", "set", "eth0", "gso_max_segs", "65535")
        self.in_space("n1", "ip", "link", "set", "eth0", "gso_max_segs", "1")
        self.addCleanup(subprocess.run, [*switch, "1500"], check=True)
        subprocess.run([*switch, "600"], check=True)
        found = self.finds(["path-mtu n0", "path-mtu n1", "path-mtu n2"])
        self.assertIn("large ones do not", found["message"])
