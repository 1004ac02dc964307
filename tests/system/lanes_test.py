"""Bulk transfers between nodes: on several lanes of the agents, and over each of MPI's transports."""
import os
import pathlib
import shutil
import signal
import subprocess

from harness import OF_MPICH, OWN_FAILURE, Statistics, SystemTest, app, build, own_lines, program, wait_until

LOST = "cudaErrorDevicesUnavailable"


def rank_of(pid):
    """The MPI rank of an agent or a lane, or None."""
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((int(v.partition(b"=")[2]) for v in variables if v.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))),
                None)


class Lanes(SystemTest):
    def transfers(self, lanes, devices=1, kib=64, buffers=4, **environment):
        """Runs every kind of copy, with sizes around the boundaries of small staging buffers."""
        variables = self.environment(devices, CUSPAN_STAGING_BYTES=f"{kib}K", CUSPAN_STAGING_BUFFERS=str(buffers), **environment)
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--lanes", str(lanes), "--stats", "--",
                                              app("transfers", "shared"), str(kib), str(buffers)), variables)
        self.assertIn("PASS", result.stdout)
        self.assertEqual(own_lines(result.stderr), [])
        self.assertEqual(Statistics(result.stderr).paths(), {self.relay})
        self.assert_nothing_left()

    def test_copies_on_two_lanes(self):
        self.transfers(2)

    def test_copies_on_three_lanes_to_two_devices(self):
        self.transfers(3, devices=2)

    def test_copies_on_more_lanes_than_buffers(self):
        self.transfers(5)

    def test_buffers_larger_than_the_first_chunks(self):
        self.transfers(1, kib=512, buffers=3)

    def test_without_the_pipeline(self):
        self.transfers(2, CUSPAN_PIPELINE="off")

    def test_one_send_at_a_time(self):
        self.transfers(2, CUSPAN_SENDS_IN_FLIGHT="1")

    def test_copies_to_managed_memory_with_few_buffers(self):
        """Copies and updates of managed memory need buffers at the same time."""
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--", app("managed_threads", "shared")),
                                  self.environment(1, CUSPAN_STAGING_BUFFERS="2"))
        self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()

    def test_devices_on_several_agents(self):
        """One agent per device, each with its own lanes."""
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--hosts", "localhost,localhost",
                                              "--lanes", "2", "--", app("multi_device", "shared")))
        self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()

    def test_auto(self):
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--lanes", "auto", "--",
                                              app("vector_add", "static")))
        self.assertIn("PASS", result.stdout)


class OverUcx(Lanes):
    """Lanes as threads of the agent."""
    relay = "ucx"

    def test_an_agent_killed_while_it_copies(self):
        """Its device is lost; the other continues, over the same lanes."""
        process = self.start(self.cuspan("run", "--same-node", "never", "--hosts", "localhost,localhost",
                                         "--gpus", "2", "--lanes", "2", "--", program("holds", "shared")))
        for device in "01":
            self.assertEqual(self.ask(process, f"use {device}"), "right")
        agents = [pid for pid, _ in self.processes("cuspan-agent")]
        self.assertEqual(len(agents), 3)
        self.assertEqual(self.ask(process, "send 1"), "under way")
        os.kill(agents[2], signal.SIGKILL)
        wait_until(lambda: self.ask(process, "use 1") == LOST, "the device is lost")
        self.assertEqual(self.ask(process, "use 0"), "right")
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0, errors)
        self.assertEqual(len([line for line in own_lines(errors) if line.endswith("its devices are lost")]), 1, errors)
        self.assert_nothing_left()


class Processes(SystemTest):
    """Lanes as MPI ranks."""
    relay = "mpi"

    def test_by_hand(self):
        """Plain mpirun: all agents, then the lanes of each agent in the same order."""
        agent = str(build() / "bin/cuspan-agent")
        away = [agent, "--same-node", "never"]
        result = self.run_command(self.mpi_job((1, [*away, "--", app("vector_add", "shared")]), (1, away), (4, [agent])),
                                  self.environment(CUSPAN_LANES="2"))
        self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()

    def test_by_hand_with_too_few_ranks(self):
        agent = str(build() / "bin/cuspan-agent")
        result = self.run_command(self.mpi_job((1, [agent, "--", "true"]), (3, [agent])),
                                  self.environment(CUSPAN_LANES="2"), status=None if OF_MPICH else OWN_FAILURE)
        self.assertIn("CUSPAN_LANES=2 needs 3 ranks on each host", result.stderr)

    def test_a_lane_killed(self):
        """Like an agent's death, it ends the MPI job with one line; the program gets an error."""
        for waiting in (False, True):
            with self.subTest(waiting=waiting):
                self.kill_leftovers()
                process = self.start(self.cuspan("run", "--same-node", "never", "--lanes", "2", "--",
                                                 program("holds", "shared")))
                self.assertEqual(self.ask(process, "use 0"), "right")
                if waiting:
                    self.assertEqual(self.ask(process, "spin 0"), "cudaSuccess")
                    process.stdin.write("sync 0\n")
                    process.stdin.flush()
                lanes = [pid for pid, _ in self.processes("cuspan-agent") if (rank_of(pid) or 0) >= 2]
                self.assertEqual(len(lanes), 4)
                os.kill(lanes[-1], signal.SIGKILL)
                if waiting:
                    self.assertEqual(process.stdout.readline().strip(), LOST)
                else:
                    wait_until(lambda process=process: self.ask(process, "use 0") == LOST, "the device is lost")
                status, _, errors = self.ends(process)
                self.assertEqual(status, 0)
                lines = [line for line in own_lines(errors) if "exited on signal 9" in line]
                self.assertEqual(len(lines), 1, errors)
                self.assert_nothing_left()


class Layers(SystemTest):
    """MPI's point-to-point layers, selectable by the user."""
    relay = "mpi"

    def transfers(self, needed, lanes, **layers):
        info = shutil.which("ompi_info")
        if info is None:
            self.skipTest("there is no ompi_info to ask for Open MPI's components")
        known = subprocess.run([info, "--parsable"], capture_output=True, text=True, check=True).stdout
        for component in needed:
            if f"mca:{component}:" not in known:
                self.skipTest(f"this Open MPI has no component {component}")
        variables = self.environment(CUSPAN_STAGING_BYTES="64K", CUSPAN_STAGING_BUFFERS="4", **layers)
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--lanes", str(lanes), "--",
                                              app("transfers", "shared"), "64", "4"), variables)
        self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()

    def test_ob1_over_tcp(self):
        for lanes in (1, 2):
            with self.subTest(lanes=lanes):
                self.transfers(["pml:ob1", "btl:tcp"], lanes, OMPI_MCA_pml="ob1", OMPI_MCA_btl="tcp,self")

    def test_ob1_over_shared_memory(self):
        for lanes in (1, 2):
            with self.subTest(lanes=lanes):
                self.transfers(["pml:ob1", "btl:vader"], lanes, OMPI_MCA_pml="ob1", OMPI_MCA_btl="vader,self")

    def test_ucx(self):
        for lanes in (1, 2):
            with self.subTest(lanes=lanes):
                self.transfers(["pml:ucx"], lanes, OMPI_MCA_pml="ucx", OMPI_MCA_opal_common_ucx_tls="any",
                               OMPI_MCA_opal_common_ucx_devices="any")
