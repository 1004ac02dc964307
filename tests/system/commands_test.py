"""Messages and exit statuses of the commands after errors."""
import json
import os
import pathlib
import re

from harness import KINDS, NOT_EXECUTABLE, NOT_FOUND, OF_MPICH, OWN_FAILURE, USAGE, SystemTest, app, build, of_open_mpi

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Errors(SystemTest):
    """Each error prints one clear line and has the right exit status."""

    def fails(self, command, status, *words, environment=None):
        result = self.run_command(command, environment, status=status)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"not one line:\n{result.stderr}")
        self.assertRegex(lines[0], r"^cuspan[^:]*: ")
        for word in words:
            self.assertIn(word, lines[0])
        self.assert_nothing_left()
        return lines[0]

    def test_true(self):
        result = self.run_command(self.cuspan("run", "--", "/bin/true"))
        self.assertEqual((result.stdout, result.stderr), ("", ""))
        self.assert_nothing_left()

    def test_missing_program(self):
        self.fails(self.cuspan("run", "--", "./missing"), NOT_FOUND, "./missing")
        self.fails(self.cuspan("run", "--", "no-such-command"), NOT_FOUND, "no-such-command")

    def test_what_can_not_be_executed(self):
        (self.folder / "text").write_text("no program\n", encoding="utf-8")
        self.fails(self.cuspan("run", "--", "./text"), NOT_EXECUTABLE, "./text")
        self.fails(self.cuspan("run", "--", str(self.folder)), NOT_EXECUTABLE, str(self.folder))

    def test_no_program(self):
        self.fails(self.cuspan("run"), OWN_FAILURE, "no program")
        self.fails(self.cuspan("run", "--"), OWN_FAILURE, "no program")

    def test_no_gpus(self):
        self.fails(self.cuspan("run", "--gpus", "0", "--", "/bin/true"), OWN_FAILURE, "--gpus 0")

    def test_too_many_gpus(self):
        line = self.fails(self.cuspan("run", "--gpus", "99", "--", "/bin/true"), OWN_FAILURE, "99")
        self.assertRegex(line, r"\b1\b.*found")

    def test_no_number_of_gpus(self):
        for text in ("two", "-1", "1.5", "", "99999999999999999999"):
            with self.subTest(text=text):
                self.fails(self.cuspan("run", f"--gpus={text}", "--", "/bin/true"), OWN_FAILURE)

    def test_unknown_options(self):
        self.fails(self.cuspan("run", "--no-such-option", "--", "/bin/true"), OWN_FAILURE, "--no-such-option")
        # The value of a known option after it must not become the program.
        self.fails(self.cuspan("run", "--no-such-option", "--gpus", "1", "--", "/bin/true"), OWN_FAILURE,
                   "--no-such-option")
        self.fails(self.cuspan("run", "--device", "abacus", "--", "/bin/true"), OWN_FAILURE, "abacus")
        self.fails(self.cuspan("run", "--same-node", "maybe", "--", "/bin/true"), OWN_FAILURE, "maybe")

    def test_unknown_commands(self):
        commands = ("run", "devices", "queue", "top", "doctor", "support", "bench", "version")
        self.fails(self.cuspan(), USAGE, *commands)
        self.fails(self.cuspan("no-such-command"), USAGE, "no-such-command", *commands)
        self.fails(self.cuspan("rn"), USAGE, "unknown command 'rn'", "did you mean 'run'?")

    def test_hostfile_with_a_bad_line(self):
        hostfile = self.folder / "hosts"
        hostfile.write_text("# good ones first\nlocalhost\n\nlocalhost slots=many\n", encoding="utf-8")
        self.fails(self.cuspan("run", "--hostfile", str(hostfile), "--", "/bin/true"), OWN_FAILURE, f"{hostfile}:4")

    def test_hostfile_that_is_none(self):
        self.fails(self.cuspan("run", "--hostfile", "./missing", "--", "/bin/true"), OWN_FAILURE, "./missing")
        (self.folder / "empty").write_text("# nobody\n", encoding="utf-8")
        self.fails(self.cuspan("run", "--hostfile", "empty", "--", "/bin/true"), OWN_FAILURE, "empty")

    def test_host_that_can_not_be_reached(self):
        self.fails(self.cuspan("run", "--hosts", "no-such-host.invalid", "--", "/bin/true"), OWN_FAILURE,
                   "no-such-host.invalid")

    def test_no_mpirun(self):
        self.relay = "mpi"
        self.fails(self.cuspan("run", "--same-node", "never", "--", "/bin/true"), OWN_FAILURE, "/no/mpirun",
                   environment=self.environment(MPIRUN="/no/mpirun"))

    def mpirun_without_folder(self, times):
        """An mpirun failing `times` times like Open MPI's after another one has removed their common folder."""
        script = self.folder / "mpirun"
        tries = self.folder / "tries"
        script.write_text(f"""#!/bin/sh
echo try >> {tries}
test $(wc -l < {tries}) -gt {times} && exec mpirun "$@"
printf 'A call to mkdir was unable to create the desired directory:\\n\\n' >&2
printf '  Directory: /tmp/ompi.n1.0/pid.%s\\n  Error:     No such file or directory\\n' $$ >&2
exit 213
""", encoding="utf-8")
        script.chmod(0o700)
        return tries, self.environment(MPIRUN=str(script))

    @of_open_mpi
    def test_mpirun_that_lost_its_folder(self):
        self.relay = "mpi"
        tries, environment = self.mpirun_without_folder(2)
        result = self.run_command(self.cuspan("run", "--same-node", "never", "--", "/bin/echo", "here"), environment)
        self.assertEqual((result.stdout, result.stderr), ("here\n", ""))
        self.assertEqual(tries.read_text(encoding="utf-8"), 3 * "try\n")
        self.assert_nothing_left()

    @of_open_mpi
    def test_mpirun_that_never_gets_a_folder(self):
        self.relay = "mpi"
        _, environment = self.mpirun_without_folder(1000)
        self.fails(self.cuspan("run", "--same-node", "never", "--", "/bin/true"), OWN_FAILURE,
                   "/tmp/ompi.n1.0/pid.", "No such file or directory", "TMPDIR", environment=environment)

    def test_settings_that_are_wrong(self):
        for name, value in (("CUSPAN_STAGING_BUFFERS", "1"), ("CUSPAN_STAGING_BYTES", "3"),
                            ("CUSPAN_SENDS_IN_FLIGHT", "0"), ("CUSPAN_LANES", "17"),
                            ("CUSPAN_DEVICE", "abacus"),
                            ("CUSPAN_SAME_NODE", "maybe")):
            with self.subTest(name=name):
                self.fails(self.cuspan("run", "--", "/bin/true"), OWN_FAILURE, value,
                           environment=self.environment(**{name: value}))

    def test_store_plans_that_are_wrong(self):
        for option in ("--rate=-1", "--latency=170", "--line=3000", "--bandwidth=0", "--file=x", "--touched=0.5"):
            with self.subTest(option=option):
                self.fails(self.cuspan("store", "plan", option), OWN_FAILURE, *option.split("="))
        self.fails(self.cuspan("store", "plans"), OWN_FAILURE, "plan")

    def test_no_cuda_device(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has an NVIDIA GPU")
        self.fails(self.cuspan("run", "--device", "cuda", "--", "/bin/true"), OWN_FAILURE, "libcuda.so.1")

    def test_agent_by_hand(self):
        agent = str(build() / "bin/cuspan-agent")
        self.fails([agent], OWN_FAILURE, "program")
        self.fails([agent, "--"], OWN_FAILURE, "program")
        self.fails([agent, "--", "./missing"], NOT_FOUND, "./missing")
        self.fails([agent, "--gpus", "99", "--", "/bin/true"], OWN_FAILURE, "99")


class Devices(SystemTest):
    """Devices listed by cuspan devices and visible to programs."""

    def test_table(self):
        lines = self.run_command(self.cuspan("devices"), self.environment(3)).stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["device", "0", "1", "2"])
        self.assertTrue(all("software" in line for line in lines[1:]))

    def test_json(self):
        devices = json.loads(self.run_command(self.cuspan("devices", "--json"), self.environment(2)).stdout)
        self.assertEqual([device["device"] for device in devices], [0, 1])
        for device in devices:
            self.assertTrue(device["software"])
            self.assertEqual(device["memory_bytes"], 512 << 20)

    def test_over_agents(self):
        devices = json.loads(self.run_command(self.cuspan("devices", "--json", "--same-node", "never"),
                                              self.environment(2)).stdout)
        self.assertEqual(len(devices), 2)
        self.assertNotEqual(devices[0]["agent"], 0)
        self.assertEqual({device["path"] for device in devices}, {self.relay})

    def test_the_relay_that_suits(self):
        installed = "ucx" if (build() / "bin/cuspan-agent-ucx").exists() else "mpi"
        for options, path in (([], "same-node"), (["--same-node", "never"], installed),
                              (["--same-node", "never", "--mpirun-args", "-prepend-rank" if OF_MPICH else "--display-map"], "mpi")):
            with self.subTest(options=options):
                result = self.run_command(self.cuspan("devices", "--json", "--relay", "auto", *options), self.environment(1))
                self.assertEqual([device["path"] for device in json.loads(result.stdout)], [path])
        self.assert_nothing_left()

    def test_programs_see_as_many_as_asked_for(self):
        for kind in KINDS:
            for wanted in (1, 3):
                result = self.run_command(self.cuspan("run", "--gpus", str(wanted), "--", app("device_query", kind)),
                                          self.environment(4))
                self.assertRegex(result.stdout, rf"device_query: {wanted} device")

    def test_help_and_version(self):
        self.assertIn("CUSPAN_STAGING_BYTES", self.run_command(self.cuspan("help", "variables")).stdout)
        version = self.run_command(self.cuspan("--version")).stdout
        self.assertRegex(version, r"^cuspan \d+\.\d+")
        self.assertEqual(self.run_command(self.cuspan("version")).stdout, version)

    def test_auto_says_that_it_takes_the_software_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has an NVIDIA GPU")
        result = self.run_command(self.cuspan("run", "--device", "auto", "--", "/bin/true"))
        self.assertIn("software GPU", result.stderr)


class StorePlan(SystemTest):
    """cuspan store plan computes from its options alone."""

    def test_values(self):
        words = self.cuspan("store", "plan", "--rate", "200K", "--latency", "1ms", "--line", "8K", "--bandwidth", "4G",
                            "--file", "8G", "--touched", "0.5")
        rows = [re.split("  +", line) for line in self.run_command(words).stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows], [
            ["quantity", "value"], ["requests under way", "200"], ["single lines", "1.6 GB/s"],
            ["reads like an extent", "104 of 256"], ["whole file", "2.1 s"], ["touched lines", "2.6 s"],
            ["faster", "whole file"]])
        self.assert_nothing_left()


class Bench(SystemTest):
    """cuspan bench finds its benchmarks, and the quick start builds them."""

    def test_lists_all_and_starts_each(self):
        folders = sorted(["plot", *(path.parent.name for path in (ROOT / "bench").glob("*/main.cc"))])
        listed = self.run_command(self.cuspan("bench")).stdout
        self.assertIn(f"benchmarks: {', '.join(folders)};", listed)
        for name in folders:
            with self.subTest(name=name):
                self.assertIn(f"cuspan bench {name}", self.run_command(self.cuspan("bench", name, "--help")).stdout)
