"""A cluster in a box for system tests (deploy/cluster-in-a-box.sh), one box per test module."""
import os
import pathlib
import subprocess
import unittest
import uuid

from harness import MARK, SystemTest, wait_until

SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "deploy/cluster-in-a-box.sh")
IMPOSSIBLE = 77


class Box:
    """Hosts in network namespaces, named n0 … or `hosts`, with these numbers of software GPUs. Skips the test if the
    system does not allow it."""

    def __init__(self, devices, hosts=None):
        self.name = "t" + uuid.uuid4().hex[:10]
        self.hosts = hosts or [f"n{i}" for i in range(len(devices))]
        result = self.call("up", "--hosts", ",".join(self.hosts), "--devices", ",".join(map(str, devices)),
                           "--keep", f"{MARK},TMPDIR", check=False)
        if result.returncode == IMPOSSIBLE:
            raise unittest.SkipTest(f"no cluster in a box: {result.stderr.strip()}")
        if result.returncode != 0:
            raise AssertionError(result.stderr)

    def call(self, command, *arguments, check=True):
        result = subprocess.run([SCRIPT, "--name", self.name, command, *arguments], capture_output=True, text=True,
                                check=False, stdin=subprocess.DEVNULL)
        if check and result.returncode != 0:
            raise AssertionError(f"{command} {arguments}: {result.stderr}")
        return result

    def on(self, host, *command):
        """Command line to run a command on a host."""
        return [SCRIPT, "--name", self.name, "run", host, "--", *command]

    def stall(self, host, seconds):
        """Begins a network stall; the returned process ends with it."""
        process = subprocess.Popen([SCRIPT, "--name", self.name, "stall", host, str(seconds)], stdin=subprocess.DEVNULL)
        wait_until(lambda: "stalled" in self.call("status").stdout, f"{host} is stalled")
        return process

    def pids(self, host):
        """Processes on a host."""
        listed = subprocess.run(["ip", "netns", "pids", f"cuspan-{self.name}-{host}"], capture_output=True, text=True,
                                check=True)
        return {int(word) for word in listed.stdout.split()}

    def sockets(self, host):
        """Names of cuspan's sockets on a host."""
        listed = subprocess.run(["ip", "netns", "exec", f"cuspan-{self.name}-{host}", "cat", "/proc/net/unix"],
                                capture_output=True, text=True, check=True)
        return [line.split()[-1] for line in listed.stdout.splitlines() if "@cuspan" in line]

    def down(self):
        self.call("down")


class BoxTest(SystemTest):
    """A test in the box of its module, made by setUpModule."""
    box = None

    def environment(self, devices=1, **more):
        variables = super().environment(devices, **more)
        # The box sets the number of devices of each host.
        del variables["CUSPAN_SOFT_GPUS"]
        return variables

    def assert_nothing_left(self):
        super().assert_nothing_left()
        for host in self.box.hosts:
            wait_until(lambda host=host: not self.box.sockets(host), f"no socket is left on {host}")

    def run_on(self, host, *arguments, status=0, **more):
        """Runs cuspan run on a host, to its end."""
        return self.run_command(self.box.on(host, *self.cuspan("run", *arguments)), self.environment(**more),
                                status=status)

    def start_on(self, host, *arguments, **more):
        return self.start(self.box.on(host, *self.cuspan("run", *arguments)), self.environment(**more))

    def processes_on(self, host, name=None):
        """Processes of this test on a host of the box."""
        there = self.box.pids(host)
        return [(pid, program) for pid, program in self.processes(name) if pid in there]
