"""Runs sharing a GPU in pairs, by NVIDIA's MPS: start and end of its server. A program replaces NVIDIA's daemon. The
GPU is a software GPU; since its driver is in a folder unknown to cuspan, it is taken for NVIDIA's."""
import contextlib
import os
import pathlib
import shutil
import signal

from harness import OWN_FAILURE, build, own_lines, program, wait_until
from sharing_case import Counter, SharingTest

CONTROL = pathlib.Path(__file__).with_name("fake_mps_control.py")


class Pairs(SharingTest):
    def setUp(self):
        super().setUp()
        self.driver = self.folder / "driver"
        self.driver.mkdir()
        self.driver.chmod(0o1777)
        shutil.copy(build() / "lib/cuspan/soft/libcuda.so.1", self.driver)
        self.journal = self.folder / "journal"

    def environment(self, devices=1, **more):
        return super().environment(devices, **{
            "CUSPAN_DEVICE": "cuda", "LD_LIBRARY_PATH": str(self.driver), "CUSPAN_MPS_CONTROL": str(CONTROL),
            "FAKE_MPS_JOURNAL": str(self.journal), **more})

    def pair(self, app=None):
        return self.cuspan("run", "--gpus", "1", "--share=pair", "--share-limit=4", "--",
                           *(app or [program("counts", "shared"), "4"]))

    def counter(self, **more):
        return Counter(self, self.start(self.pair(), self.environment(**more)))

    def started(self):
        """Settings of the daemons started so far."""
        return self.journal.read_text(encoding="utf-8").splitlines() if self.journal.exists() else []

    def keepers(self):
        lines = [(pid, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()) for pid, _ in self.processes("cuspan-proxy")]
        return [pid for pid, line in lines if b"--keep-pair-server" in line]

    def test_runs_have_one_server(self):
        """The first run needing the server starts it. It belongs to no run, and ends with the last."""
        first = self.counter().go()
        second = self.counter().go()
        first.runs(32), second.runs(32)
        first.end()
        third = self.counter().go()
        second.runs(32), third.runs(32)
        second.end(), third.end()
        self.assertEqual(len(self.started()), 1)
        self.assertRegex(self.started()[0], r"CUDA_VISIBLE_DEVICES=GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assert_nothing_left()

    def test_a_server_outlives_the_run_that_started_it(self):
        first = self.counter().go()
        second = self.counter().go()
        second.runs(16)
        for pid, _ in self.processes("cuspan"):
            if pid == first.process.pid:
                os.kill(pid, signal.SIGKILL)
        self.finish(first.process)
        third = self.counter().go()
        second.runs(16), third.runs(16)
        self.assertEqual(len(self.started()), 1)
        second.end(), third.end()
        self.assert_nothing_left()

    def test_killed_processes_leave_nothing(self):
        """Processes of runs and of the server are killed, one kind or all: the next run has a server, and nothing is
        left."""
        # python is the daemon, sleep its server.
        for kind in ("keeper", "cuspan-proxy", "cuspan-agent", "cuspan", "counts", "", "python", "sleep"):
            with self.subTest(kind=kind):
                runs = [self.counter().go() for _ in range(2)]
                for run in runs:
                    run.runs(16)
                victims = self.keepers() if kind == "keeper" else [pid for pid, name in self.processes()
                                                                   if name.startswith(kind)]
                self.assertTrue(victims)
                for pid in victims:
                    # Some end because of the earlier kills.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                for run in runs:
                    self.finish(run.process)
                last = self.counter().go()
                last.runs(16)
                last.end()
                self.assert_nothing_left()

    def test_kernels_of_a_run_that_ends_do_not_outlive_it(self):
        """MPS treats the end of a process with running kernels as a fault. Therefore each end of a run first asks MPS
        to end its kernels."""
        ended = self.folder / "journal-ended"
        for kind in ("counts", "cuspan", "cuspan-agent"):
            with self.subTest(kind=kind):
                ended.unlink(missing_ok=True)
                stays = self.counter().go()
                before = {pid for pid, _ in self.processes()}
                # Its last log lines go to a closed pipe.
                goes = self.counter(CUSPAN_LOG="info").go()
                stays.runs(16), goes.runs(16)
                new = [(pid, name) for pid, name in self.processes() if pid not in before]
                proxy, = (pid for pid, name in new if name == "cuspan-proxy" and pid not in self.keepers())
                # Kills the first process of this kind; the others clean up after it.
                os.kill(next(pid for pid, name in new if name == kind), signal.SIGKILL)
                self.finish(goes.process)
                stays.runs(16)
                stays.end()
                self.assert_nothing_left()
                clients = [line.split()[2] for line in ended.read_text(encoding="utf-8").splitlines()]
                self.assertIn(str(proxy), clients)
                self.assertEqual(len(clients), 2, clients)

    def test_without_mps_a_run_says_what_to_do(self):
        result = self.run_command(self.pair(["true"]), self.environment(CUSPAN_MPS_CONTROL="/nowhere/mps"), status=OWN_FAILURE)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertRegex(result.stderr, r"^cuspan: .*--share=pair needs NVIDIA's MPS \(/nowhere/mps\): install it, or use --share$")
        self.assert_nothing_left()

    def test_software_gpus_need_no_mps(self):
        run = self.counter(CUSPAN_DEVICE="soft", CUSPAN_MPS_CONTROL="/nowhere/mps").go()
        run.runs(16)
        run.end()
        self.assertEqual(self.started(), [])
        self.assert_nothing_left()

    def test_a_server_that_does_not_start_is_one_line(self):
        process = self.start(self.pair(), self.environment(FAKE_MPS="exits"))
        _, _, errors = self.ends(process)
        self.assertNotEqual(process.returncode, 0)
        lines = own_lines(errors)
        self.assertEqual(len(lines), 1, errors)
        self.assertRegex(lines[0], r"NVIDIA's MPS \(.*\) ended with exit status 1: no such GPU; use --share")
        self.assert_nothing_left()

    def test_what_lies_in_the_place_of_its_folder(self):
        run = self.counter()
        name, = (name for name in os.listdir(self.tables) if name.startswith("cuspan-pair-"))
        run.go().end()
        self.assert_nothing_left()
        (self.tables / name).write_text("mine", encoding="utf-8")
        _, _, errors = self.ends(self.start(self.pair(), self.environment()))
        self.assertRegex("".join(own_lines(errors)), name + ".*CUSPAN_SHARE_FOLDER")
        self.assertEqual((self.tables / name).read_text(encoding="utf-8"), "mine")
