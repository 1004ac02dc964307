"""Processes killed in the middle of a copy: the errors are CUDA's, no wait hangs, nothing is left."""
import os
import signal

from harness import SystemTest, own_lines, program, wait_until

LOST = "cudaErrorDevicesUnavailable"
# Makes a copy of the program take 64 s: each failure then happens in the middle of it.
SLOW = {"CUSPAN_SOFT_COPY_RATE": "0.001"}
# Location of the devices: on the program's node, there behind agents, or each with an agent of its own.
PLACES = ("here", "agents", "apart")
COPIES = ("send", "receive", "pass")


class CopyFaults(SystemTest):
    def hold(self, place):
        """Starts `holds` with two devices without access to each other."""
        self.kill_leftovers()
        holds = program("holds", "shared")
        more = {**SLOW, "CUSPAN_PEER_MEMORY": "never", "CUSPAN_STAGING_BYTES": "16K"}
        if place == "apart":
            return self.start(self.mpirun(2, "agents", [holds]), self.environment(1, **more))
        return self.start(self.cuspan("run", "--gpus", "2", "--same-node", "auto" if place == "here" else "never",
                                      "--", holds), self.environment(2, **more))

    def both_devices(self, place):
        """The program, and the proxies of devices 0 and 1."""
        process = self.hold(place)
        proxies = []
        for device in (0, 1):
            self.assertEqual(self.ask(process, f"use {device}"), "right")
            proxies += [pid for pid, _ in self.processes("cuspan-proxy") if pid not in proxies]
        return process, proxies

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: all(known != pid for known, _ in self.processes()), f"process {pid} is gone")

    def finish_well(self, process):
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0, errors)
        self.assert_nothing_left()
        return errors

    def cases(self, copies=COPIES):
        for place in PLACES:
            for copy in copies:
                with self.subTest(place=place, copy=copy):
                    yield place, copy

    def test_proxy_killed(self):
        """The device of the killed proxy is lost; the other one continues."""
        for place, copy in self.cases():
            process, proxies = self.both_devices(place)
            self.assertEqual(self.ask(process, f"{copy} 0"), "under way")
            self.tell(process, "sync 0")
            self.kill(proxies[0])
            self.assertEqual(self.answer(process), LOST)
            self.assertEqual(self.ask(process, "use 0"), LOST)
            # The other device of the copy reports the error once.
            if copy == "pass":
                self.assertEqual(self.ask(process, "sync 1"), LOST)
            self.assertEqual(self.ask(process, "sync 1"), "cudaSuccess")
            self.assertEqual(self.ask(process, "use 1"), "right")
            errors = self.finish_well(process)
            self.assertTrue(any("device 0" in line for line in own_lines(errors)), errors)

    def test_proxy_of_the_target_killed(self):
        """The stream of the copy continues without it, and reports the error once."""
        for place, _ in self.cases(("pass",)):
            process, proxies = self.both_devices(place)
            self.assertEqual(self.ask(process, "pass 0"), "under way")
            self.tell(process, "sync 0")
            self.kill(proxies[1])
            self.assertEqual(self.answer(process), LOST)
            self.assertEqual(self.ask(process, "sync 0"), "cudaSuccess")
            self.assertEqual(self.ask(process, "use 0"), "right")
            wait_until(lambda process=process: self.ask(process, "use 1") == LOST, "the other device is lost")
            self.finish_well(process)

    def test_context_lost(self):
        """A kernel's fault affects its own device; the other device of the copy reports the loss once."""
        for place, _ in self.cases(("pass",)):
            for faulty in (0, 1):
                process, _ = self.both_devices(place)
                self.assertEqual(self.ask(process, "pass 0"), "under way")
                self.assertEqual(self.ask(process, f"fault {faulty}"), "cudaSuccess")
                for _ in range(2):
                    self.assertEqual(self.ask(process, f"sync {faulty}"), "cudaErrorIllegalAddress")
                self.assertEqual(self.ask(process, f"sync {1 - faulty}"), LOST)
                self.assertEqual(self.ask(process, f"sync {1 - faulty}"), "cudaSuccess")
                self.assertEqual(self.ask(process, f"use {1 - faulty}"), "right")
                self.finish_well(process)

    def test_program_killed(self):
        for place, copy in self.cases():
            process, _ = self.both_devices(place)
            self.assertEqual(self.ask(process, f"{copy} 0"), "under way")
            self.tell(process, "sync 0")
            self.kill(self.processes("holds")[0][0])
            self.assertNotEqual(self.ends(process)[0], 0)
            self.assert_nothing_left()

    def test_agent_killed(self):
        """The first agent serves the program: its loss costs all devices. If several agents run, the last one has a
        device of its own; its loss makes MPI end them all."""
        for place, copy in self.cases():
            for which in (0, -1):
                process, _ = self.both_devices(place)
                self.assertEqual(self.ask(process, f"{copy} 0"), "under way")
                if place == "apart":
                    # The first agent is the program's parent; the program ends with it.
                    self.kill(self.processes("cuspan-agent")[which][0])
                    self.assertNotEqual(self.ends(process)[0], 0)
                else:
                    self.tell(process, "sync 0")
                    self.kill(self.processes("cuspan-agent")[which][0])
                    self.assertEqual(self.answer(process), LOST)
                    self.assertEqual(self.ask(process, "use 0"), LOST)
                    self.assertEqual(self.ask(process, "use 1"), LOST)
                    errors = self.finish_well(process)
                    self.assertTrue(any("agent" in line for line in own_lines(errors)), errors)
                    continue
                self.assert_nothing_left()
