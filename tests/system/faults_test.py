"""Killed processes of all kinds: nothing is left, and all others continue if possible."""
import os
import pathlib
import signal

from harness import OF_MPICH, OWN_FAILURE, STARTER, SystemTest, own_lines, program, wait_until

PATHS = ("auto", "never")
LOST = "cudaErrorDevicesUnavailable"


class Faults(SystemTest):
    def hold(self, path, devices=1):
        """Starts `holds` under cuspan run, as the only run of this test."""
        self.kill_leftovers()
        return self.start(self.cuspan("run", "--gpus", str(devices), "--same-node", path, "--",
                                      program("holds", "shared")), self.environment(devices))

    def one(self, name):
        return wait_until(lambda: self.processes(name), f"a process {name} is there")[0][0]

    def test_after_a_run(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "use 0"), "right")
                self.assertTrue(self.processes("cuspan-proxy"))
                self.assertEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_program_killed(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
                os.kill(self.one("holds"), signal.SIGKILL)
                self.assertEqual(self.ends(process)[0], -signal.SIGKILL)
                self.assert_nothing_left()

    def test_one_program_of_a_script_killed(self):
        """The run continues; the dead program's proxies end and its device is free."""
        for path in PATHS:
            with self.subTest(path=path):
                script = f"{program('holds', 'static')}; {program('holds', 'static')}"
                process = self.start(self.cuspan("run", "--same-node", path, "--", "sh", "-c", script))
                self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
                proxy = self.one("cuspan-proxy")
                os.kill(self.one("holds"), signal.SIGKILL)
                wait_until(lambda proxy=proxy: (proxy, "cuspan-proxy") not in self.processes(), "the first program's proxy ends")
                self.assertEqual(self.ask(process, "use 0"), "right")
                self.assertEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_cuspan_killed(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "loop 0"), "looping")
                process.kill()
                # The program continues without devices, and ends by its own choice.
                self.assertEqual(process.stdout.readline().strip(), LOST)
                self.assert_nothing_left()

    def test_cuspan_terminated_while_it_starts(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.start(self.cuspan("run", "--same-node", path, "--", "sleep", "600"))
                wait_until(lambda: self.processes("cuspan-agent"), "an agent is there")
                process.terminate()
                self.assertNotEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_proxy_killed(self):
        """All further calls of its device fail; the other device continues."""
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path, devices=2)
                self.assertEqual(self.ask(process, "use 0"), "right")
                first = self.one("cuspan-proxy")
                self.assertEqual(self.ask(process, "use 1"), "right")
                self.assertNotIn("device 0", self.ask(process, "explain 1"))
                os.kill(first, signal.SIGKILL)
                wait_until(lambda first=first: (first, "cuspan-proxy") not in self.processes(), "the proxy is gone")
                # Until the agent has noticed the loss, asynchronous calls may still succeed.
                wait_until(lambda process=process: self.ask(process, "sync 0") == LOST, "the device is lost")
                for _ in range(3):
                    self.assertEqual(self.ask(process, "use 0"), LOST)
                    self.assertEqual(self.ask(process, "sync 0"), LOST)
                    self.assertEqual(self.ask(process, "use 1"), "right")
                explained = self.ask(process, "explain 1")
                self.assertRegex(explained, r"^CUDA-capable device.* unavailable; device 0 \(.* on host .+\) is lost: its proxy was killed by signal 9 ")
                status, _, errors = self.ends(process)
                self.assertEqual(status, 0)
                self.assertTrue(any("device 0" in line for line in own_lines(errors)), errors)
                self.assert_nothing_left()

    def test_launch_on_a_lost_device(self):
        """Libraries translate errors of a launch. A thread therefore gets the error from a synchronizing call first,
        not from a launch."""
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "use 0"), "right")
                self.assertEqual(self.ask(process, "launch 0"), "0 0 0 0")
                os.kill(self.one("cuspan-proxy"), signal.SIGKILL)
                wait_until(lambda process=process: self.ask(process, "sync 0") == LOST, "the device is lost")
                for _ in range(2):
                    self.assertEqual(self.ask(process, "launch 0"), "0 0 46 46")
                self.assertEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_proxy_killed_while_a_call_waits(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
                self.assertEqual(self.ask(process, "query 0"), "cudaErrorNotReady")
                self.tell(process, "sync 0")
                os.kill(self.one("cuspan-proxy"), signal.SIGKILL)
                self.assertEqual(process.stdout.readline().strip(), LOST)
                self.assertEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_mpirun_killed(self):
        """mpirun can no longer remove its files; cuspan does."""
        self.relay = "mpi"
        process = self.hold("never")
        self.assertEqual(self.ask(process, "use 0"), "right")
        agent = self.processes("cuspan-agent")[0][0]
        maps = pathlib.Path(f"/proc/{agent}/maps").read_text(encoding="utf-8", errors="replace")
        segments = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/dev/shm/vader_segment" in line}
        self.assertTrue(segments or OF_MPICH)
        os.kill(self.one(STARTER), signal.SIGKILL)
        wait_until(lambda: self.ask(process, "use 0") == LOST, "the device is lost")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0)
        self.assertTrue(any("mpirun was killed by signal 9" in line for line in own_lines(errors)), errors)
        self.assert_nothing_left()
        self.assertEqual([name for name in segments if os.path.exists(name)], [])

    def test_agent_killed(self):
        """All devices are lost; the program gets errors, and cuspan prints a message."""
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "use 0"), "right")
                os.kill(self.processes("cuspan-agent")[0][0], signal.SIGKILL)
                wait_until(lambda process=process: self.ask(process, "use 0") == LOST, "the device is lost")
                status, _, errors = self.ends(process)
                self.assertEqual(status, 0)
                self.assertTrue(any("agent" in line for line in own_lines(errors)), errors)
                self.assert_nothing_left()

    def test_agent_killed_while_a_call_waits(self):
        for path in PATHS:
            with self.subTest(path=path):
                process = self.hold(path)
                self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
                self.tell(process, "sync 0")
                os.kill(self.processes("cuspan-agent")[0][0], signal.SIGKILL)
                self.assertEqual(process.stdout.readline().strip(), LOST)
                self.assertEqual(self.ends(process)[0], 0)
                self.assert_nothing_left()

    def test_an_outsider_is_refused(self):
        """A process without the secret gets no device, and does not disturb others."""
        result = self.run_command(self.cuspan("run", "--", "sh", "-c",
                                              f"CUSPAN_SECRET=00000000000000000000000000000000 {program('ends', 'shared')}"
                                              f" exit 0; echo $?; {program('ends', 'shared')} exit 0"))
        self.assertEqual(result.stdout.splitlines(), ["3", "used"])
        self.assertIn("secret", result.stderr)

    def test_without_a_run(self):
        """A program with the library and without an agent gets an error and does not hang."""
        result = self.run_command(self.cuspan("run", "--", "sh", "-c",
                                              f"CUSPAN_SOCKET=cuspan-nobody {program('ends', 'shared')} exit 0"), status=3)
        self.assertIn("cuspan-nobody", result.stderr)
        self.assertNotEqual(result.returncode, OWN_FAILURE)
