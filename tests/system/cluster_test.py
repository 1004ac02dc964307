"""Several hosts: devices of three others at once, copies between nodes, and failures of processes and links.

CUSPAN_FAULT_TABLE=FILE: each fault appends a line to the file: the failure, its effect on the user, the exit status,
and the time until the devices were free.
"""
import json
import os
import signal
import time

from box import Box, BoxTest
from harness import DAEMON, OWN_FAILURE, STARTER, Statistics, app, own_lines, program, wait_until

LOST = "cudaErrorDevicesUnavailable"
OTHERS = "n1,n2,n3"
# Heartbeat time of tests cutting off a host. It leaves a margin for delays by other tests' load.
HEARTBEAT_S = 4


def setUpModule():
    BoxTest.box = Box([0, 2, 2, 2])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class Devices(BoxTest):
    def hosts_of(self, statistics):
        return {int(row["device"]): row["host"] for row in statistics.rows}

    def test_of_three_hosts_at_once(self):
        """The program's host has no devices."""
        self.run_command(self.box.on("n0", *self.cuspan("devices")), self.environment(), status=OWN_FAILURE)
        listed = json.loads(self.run_command(self.box.on("n0", *self.cuspan("devices", "--json", "--hosts", OTHERS)),
                                             self.environment()).stdout)
        expected = ["n1", "n1", "n2", "n2", "n3", "n3"]
        self.assertEqual([device["host"] for device in listed], expected)
        for name, kind, arguments in (("multi_device", "shared", []), ("matmul", "static", ["256"])):
            with self.subTest(program=name):
                result = self.run_on("n0", "--gpus", "6", "--hosts", OTHERS, "--stats", "--", app(name, kind), *arguments)
                self.assertIn("6 devices: PASS", result.stdout)
                self.assertEqual(own_lines(result.stderr), [])
                statistics = Statistics(result.stderr)
                self.assertEqual(self.hosts_of(statistics), dict(enumerate(expected)))
                self.assertEqual(statistics.paths(), {self.relay})
        self.assert_nothing_left()

    def test_own_and_others(self):
        """All hosts share this machine's memory, but only processes on the program's host may use it."""
        result = self.run_on("n1", "--hosts", "n2:1,n1:1", "--stats", "--", app("peer_copies", "shared"), "16", "4")
        self.assertIn("2 devices: PASS", result.stdout)
        rows = Statistics(result.stderr).rows
        self.assertEqual({(row["host"], row["path"]) for row in rows}, {("n2", self.relay), ("n1", "same-node")})
        self.assert_nothing_left()

    def test_copies_between_hosts(self):
        result = self.run_on("n0", "--hosts", OTHERS, "--stats", "--", app("peer_copies", "static"), "16", "4",
                             CUSPAN_STAGING_BUFFERS="4", CUSPAN_STAGING_BYTES="16K")
        self.assertIn("6 devices: PASS", result.stdout)
        self.assertIn("PeerSend", result.stderr)
        self.assert_nothing_left()

    def test_devices_of_two_hosts_that_wait_for_each_other(self):
        result = self.run_on("n0", "--hosts", "n1:1,n3:1", "--", app("latches", "shared"), "10")
        self.assertIn("us for a round trip between two devices through mapped memory", result.stdout)
        self.assertIn("10 rounds, 2 devices: PASS", result.stdout)
        # The order of accesses is not kept in registered memory, nor between devices; cuspan prints a line for each.
        self.assertEqual([line for line in own_lines(result.stderr) if "in another order" not in line], [])
        self.assert_nothing_left()

    def test_slow_network(self):
        self.box.call("shape", "200mbit", "n0", "n2")
        self.addCleanup(self.box.call, "shape", "off")
        self.assertRegex(self.box.call("status").stdout, r"n2 +10\.77\.0\.3 +up +200Mbit")
        result = self.run_on("n0", "--hosts", "n2", "--", app("transfers", "shared"), "64", "4",
                             CUSPAN_STAGING_BUFFERS="4", CUSPAN_STAGING_BYTES="64K")
        self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()


class Faults(BoxTest):
    """If one process or link fails, the rest continues, or ends with a message; nothing is left."""

    def hold(self, **more):
        """Starts `holds` on n0 with devices 0 … 5 of n1, n2 and n3; opens one on each host."""
        process = self.start_on("n0", "--hosts", OTHERS, "--", program("holds", "shared"), **more)
        for device in (0, 2, 4):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        return process

    def proxies(self, host):
        return self.processes_on(host, "cuspan-proxy")

    def agent(self, host):
        return wait_until(lambda: self.processes_on(host, "cuspan-agent"), f"an agent on {host}")[0][0]

    def free_after(self, start, hosts):
        """Waits until no proxy is left on these hosts; returns the seconds since `start`."""
        wait_until(lambda: not any(self.proxies(host) for host in hosts), f"no proxies on {hosts}")
        return time.monotonic() - start

    def report(self, what, seen, status, free):
        if path := os.environ.get("CUSPAN_FAULT_TABLE"):
            with open(path, "a", encoding="utf-8") as table:
                table.write(f"{what} | {seen} | {status} | nothing | {free:.2f} s\n")

    def line_with(self, errors, *words):
        """The line of cuspan's own with all these words."""
        found = [line for line in own_lines(errors) if all(word in line for word in words)]
        self.assertTrue(found, f"no line with {words} in:\n{errors}")
        return found[0]

    def test_program_killed(self):
        process = self.hold()
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        start = time.monotonic()
        os.kill(self.processes("holds")[0][0], signal.SIGKILL)
        free = self.free_after(start, ("n1", "n2", "n3"))
        status, _, errors = self.ends(process)
        self.assertEqual(status, -signal.SIGKILL)
        self.assertEqual(own_lines(errors), [])
        self.assert_nothing_left()
        self.report("program killed (-9), a kernel running", "its own end", "SIGKILL", free)

    def test_one_program_of_a_run_killed(self):
        """The run continues, and the dead program's devices are free for the next program."""
        holds = program("holds", "static")
        process = self.start_on("n0", "--hosts", OTHERS, "--", "sh", "-c", f"{holds}; {holds}")
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        start = time.monotonic()
        os.kill(self.processes("holds")[0][0], signal.SIGKILL)
        free = self.free_after(start, ("n2",))
        self.assertEqual(self.ask(process, "use 2"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        self.assertEqual(own_lines(errors), [])
        self.assert_nothing_left()
        self.report("one of several programs of a run killed (-9)", "its own end; the run goes on", status, free)

    def test_proxy_killed(self):
        process = self.hold()
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        self.tell(process, "sync 2")
        start = time.monotonic()
        os.kill(self.proxies("n2")[0][0], signal.SIGKILL)
        self.assertEqual(self.answer(process), LOST)
        free = self.free_after(start, ("n2",))
        self.assertEqual(self.ask(process, "use 2"), LOST)
        for device in (0, 3, 4):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        line = self.line_with(errors, "device 2", "host n2", "signal 9")
        self.assert_nothing_left()
        self.report("proxy killed (-9), a call waiting", f"{LOST} for its device; \"{line}\"", status, free)

    def test_host_cut_off(self):
        """After the heartbeat time, its devices are lost; the others continue. Its processes end by themselves, and
        their leases with them."""
        leases = {"CUSPAN_LEASES": "on", "CUSPAN_LEASE_FOLDER": str(self.temporary)}
        process = self.hold(CUSPAN_HEARTBEAT_SECONDS=str(HEARTBEAT_S), **leases)
        next_run = ("--gpus", "2", "--no-wait", "--", program("ends", "static"), "exit", "0")
        held = self.run_on("n2", *next_run, status=OWN_FAILURE, **leases)
        self.assertIn("not available now", held.stderr)
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        self.tell(process, "sync 2")
        self.addCleanup(self.box.call, "link", "n2", "up")
        start = time.monotonic()
        self.box.call("link", "n2", "down")
        self.assertEqual(self.answer(process), LOST)
        noticed = time.monotonic() - start
        free = self.free_after(start, ("n2",))
        wait_until(lambda: not self.processes_on("n2"), lambda: f"nothing runs on n2: {self.processes_on('n2')}")
        for device in (2, 3):
            self.assertEqual(self.ask(process, f"use {device}"), LOST)
        for device in (0, 1, 4, 5):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        explained = self.ask(process, "explain 0")
        self.assertIn("on host n2) is lost: ", explained)
        self.assertIn(f"no message from host n2 for {HEARTBEAT_S} s", explained)
        self.assertEqual(self.run_on("n2", *next_run, **leases).stdout, "used\n")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        line = self.line_with(errors, "host n2", f"{HEARTBEAT_S} s", "down")
        self.line_with(errors, "device 2", "host n2", "is lost")
        self.assert_nothing_left()
        self.report(f"host cut off (link down), a call waiting, heartbeat {HEARTBEAT_S} s",
                    f"{LOST} for its devices after {noticed:.1f} s; \"{line}\"", status, free)

    def test_own_host_cut_off(self):
        """The program loses all devices; the other hosts' agents end by themselves."""
        process = self.hold(CUSPAN_HEARTBEAT_SECONDS=str(HEARTBEAT_S))
        self.addCleanup(self.box.call, "link", "n0", "up")
        start = time.monotonic()
        self.box.call("link", "n0", "down")
        self.tell(process, "loop 0")
        self.assertEqual(self.answer(process), "looping")
        self.assertEqual(self.answer(process), LOST)
        free = self.free_after(start, ("n1", "n2", "n3"))
        status, _, errors = self.ends(process)
        self.assertEqual(status, 1)
        for host in ("n1", "n2", "n3"):
            line = self.line_with(errors, f"host {host}", "down")
        self.assert_nothing_left()
        self.report(f"the program's host cut off, heartbeat {HEARTBEAT_S} s", f"{LOST} for all; for each host \"{line}\"",
                    f"{status} (the program's)", free)

    def test_link_stalled(self):
        """A stall shorter than the heartbeat time only delays calls."""
        process = self.hold()
        stall = self.box.stall("n2", 5)
        self.assertEqual(self.ask(process, "use 0"), "right")
        start = time.monotonic()
        self.assertEqual(self.ask(process, "use 2"), "right")
        waited = time.monotonic() - start
        self.assertEqual(stall.wait(), 0)
        self.assertEqual(self.ask(process, "use 2"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual((status, own_lines(errors)), (0, []))
        self.assert_nothing_left()
        self.report("link stalled for 5 s", f"a call that took {waited:.1f} s", status, 0)

    def test_agent_killed(self):
        """MPI ends all agents; with UCX the others continue. The message names the host."""
        process = self.hold()
        if self.relay == "ucx":
            return self.other_agents_go_on(process)
        self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
        self.tell(process, "sync 0")
        start = time.monotonic()
        os.kill(self.agent("n2"), signal.SIGKILL)
        self.assertEqual(self.answer(process), LOST)
        free = self.free_after(start, ("n1", "n2", "n3"))
        self.assertEqual(self.ask(process, "use 4"), LOST)
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        line = self.line_with(errors, "host n2", "signal 9")
        self.assert_nothing_left()
        self.report("agent of another host killed (-9), a call waiting", f"{LOST} for all; \"{line}\"", status, free)

    def other_agents_go_on(self, process):
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        self.tell(process, "sync 2")
        start = time.monotonic()
        os.kill(self.agent("n2"), signal.SIGKILL)
        self.assertEqual(self.answer(process), LOST)
        free = self.free_after(start, ("n2",))
        for device in (2, 3):
            self.assertEqual(self.ask(process, f"use {device}"), LOST)
        for device in (0, 1, 4, 5):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        line = self.line_with(errors, "the agent of host n2 is gone", "its devices are lost")
        self.assert_nothing_left()
        self.report("agent of another host killed (-9), a call waiting", f"{LOST} for its devices; \"{line}\"", status, free)

    def test_mpirun_killed(self):
        if self.relay == "ucx":
            self.skipTest("there is no mpirun")
        process = self.hold()
        start = time.monotonic()
        os.kill(self.processes(STARTER)[0][0], signal.SIGKILL)
        wait_until(lambda: self.ask(process, "use 2") == LOST, "the devices are lost")
        free = self.free_after(start, ("n1", "n2", "n3"))
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        line = self.line_with(errors, "mpirun was killed by signal 9")
        self.assert_nothing_left()
        self.report("mpirun killed (-9)", f"{LOST} for all; \"{line}\"", status, free)

    def test_interrupted(self):
        """Ctrl-C sends SIGINT to all processes of the terminal: it ends the program, and thereby the run."""
        process = self.start(["setsid", "--wait", *self.box.on("n0", *self.cuspan("run", "--hosts", OTHERS, "--",
                                                                                  program("holds", "shared")))])
        self.assertEqual(self.ask(process, "spin 2"), "cudaSuccess")
        start = time.monotonic()
        os.killpg(os.getpgid(self.processes("holds")[0][0]), signal.SIGINT)
        free = self.free_after(start, ("n1", "n2", "n3"))
        status, _, errors = self.ends(process)
        self.assertEqual(own_lines(errors), [])
        self.assertEqual(status, -signal.SIGINT)
        self.assert_nothing_left()
        self.report("Ctrl-C, a kernel running", "its own end", "SIGINT (130)", free)

    def test_launcher_killed(self):
        process = self.hold()
        start = time.monotonic()
        self.tell(process, "loop 2")
        self.assertEqual(self.answer(process), "looping")
        os.kill(self.processes("cuspan")[0][0], signal.SIGKILL)
        self.assertEqual(self.answer(process), LOST)
        free = self.free_after(start, ("n1", "n2", "n3"))
        # The program decides about its end; this one ends at the first error.
        self.assert_nothing_left()
        self.report("cuspan run killed (-9)", f"the shell's word; the program: {LOST}", "SIGKILL", free)

    def test_launcher_killed_while_agents_start(self):
        process = self.start_on("n0", "--hosts", OTHERS, "--", "sleep", "600")
        started = "cuspan-agent" if self.relay == "ucx" else DAEMON
        wait_until(lambda: self.processes_on("n2", started), f"{started} is there")
        os.kill(self.processes("cuspan")[0][0], signal.SIGKILL)
        self.assertEqual(self.ends(process)[0], -signal.SIGKILL)
        self.assert_nothing_left()


class Start(BoxTest):
    def test_host_without_devices(self):
        result = self.run_on("n1", "--hosts", "n0", "--", "true", status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: host n0: no usable GPU: .*\n$")
        self.assert_nothing_left()

    def test_host_that_is_cut_off(self):
        """mpirun cannot reach it; the message names it."""
        self.box.call("link", "n3", "down")
        self.addCleanup(self.box.call, "link", "n3", "up")
        process = self.start_on("n0", "--hosts", "n1,n3", "--", "true",
                                OMPI_MCA_oob_tcp_keepalive_time="1", OMPI_MCA_oob_tcp_keepalive_intvl="1")
        # The box's remote shell needs no network; the processes started there do.
        wait_until(lambda: self.processes_on("n3"), "a daemon on n3")
        process.terminate()
        self.ends(process)
        self.box.call("link", "n3", "up")
        self.assert_nothing_left()


class Allocation(BoxTest):
    """Many runs at once, and fewer devices than requested."""
    RUNS = 20

    def test_twenty_runs_for_six_devices(self):
        """All runs get their devices in the order of their start, and no device is leased twice."""
        log = self.folder / "leases"
        variables = self.environment(CUSPAN_LEASES="on", CUSPAN_LEASE_LOG=str(log), CUSPAN_LEASE_FOLDER=str(self.temporary))
        # Sizes from 1 to 6; all runs have to wait for each other.
        sizes = [1 + 5 * number % 6 for number in range(self.RUNS)]
        runs = [self.start(self.box.on("n0", *self.cuspan("run", "--hosts", OTHERS, "--gpus", str(size), "--wait", "--",
                                                          program("ends", "static"), "exit", "0")), variables)
                for size in sizes]
        for run in runs:
            status, out, errors = self.ends(run)
            self.assertEqual((status, out), (0, "used\n"), errors)
        self.check(log.read_text(encoding="utf-8"), sizes)
        self.assert_nothing_left()

    def check(self, text, sizes):
        """Checks the lease log for consistency."""
        holders = {}  # Run holding it, by (host, GPU).
        held = {}     # Current GPUs, by run.
        most = {}     # Largest number of GPUs, by run.
        waiting = {}  # Arrived and not yet gone runs, by host.
        for line in text.splitlines():
            words = line.split()
            event, fields = words[1], dict(word.split("=", 1) for word in words[2:])
            host, run = fields["host"], fields["run"]
            if event == "arrive":
                waiting.setdefault(host, {})[run] = (int(fields["order"], 16), run)
            elif event == "leave":
                waiting[host].pop(run, None)
            elif event == "grant":
                gpu = (host, fields["gpu"])
                self.assertNotIn(gpu, holders, f"leased twice: {line}")
                holders[gpu] = run
                held.setdefault(run, set()).add(gpu)
                most[run] = max(most.get(run, 0), len(held[run]))
                ahead = [other for other, order in waiting[host].items()
                         if other != run and order < (int(fields["order"], 16), run)]
                self.assertEqual(ahead, [], f"served before its turn: {line}")
            elif event == "release":
                gpu = (host, fields["gpu"])
                self.assertEqual(holders.pop(gpu, None), run, f"not its own: {line}")
                held[run].remove(gpu)
            else:
                self.fail(f"unexpected: {line}")
        self.assertEqual(holders, {})
        self.assertEqual(sorted(most.values()), sorted(sizes))
