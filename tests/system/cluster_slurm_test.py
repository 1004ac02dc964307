"""Runs inside jobs of a real Slurm: they use the job's nodes and GPUs only, and leave nothing behind."""
import json
import os
import pathlib
import re
import signal
import sys
import time

from box import Box, BoxTest
from harness import DEADLINE_S, OWN_FAILURE, app, build, program, wait_until
from slurm_cluster import SlurmCluster

DEVICES = (0, 2, 3)
BOX = None
SLURM = None


def setUpModule():
    global BOX, SLURM
    BOX = Box(DEVICES)
    try:
        SLURM = SlurmCluster(BOX, DEVICES)
    except BaseException:
        BOX.down()
        raise


def tearDownModule():
    SLURM.down()
    BOX.down()


class SlurmTest(BoxTest):
    """Each test ends without jobs, and without leftovers of its own on any host."""

    def setUp(self):
        super().setUp()
        self.box = BOX
        self.addCleanup(SLURM.restore)

    def variables(self, **more):
        return {name: value for name, value in self.environment(CUSPAN_SOFT_VISIBLE="chosen", **more).items()
                if name in more or name.startswith(("CUSPAN_", "OMPI_ALLOW", "HWLOC_")) or name == "MPIRUN"}

    def salloc(self, options, *command, status=0, host="n0", alone=True, **more):
        """Runs a command in a job, to its end. If `alone`, checks that no job and no process is left."""
        line = SLURM.on(host, "salloc", "--quiet", *options, *command, **self.variables(**more))
        result = self.run_command(line, self.environment(), status)
        if alone:
            self.assert_no_job_left()
        return result

    def batch_script(self, *lines, options=()):
        script = self.folder / "script"
        script.write_text("\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), *lines]) + "\n")
        return str(script)

    def sbatch(self, script, *options, **more):
        """Submits a script; returns the job's id and the file of its output."""
        output = self.folder / "output"
        line = SLURM.on("n0", "sbatch", "--parsable", f"--output={output}-%j", *options, script, **self.variables(**more))
        job = self.run_command(line, self.environment()).stdout.strip()
        return job, self.folder / f"output-{job}"

    def wait_for_job(self, job):
        wait_until(lambda: job not in " ".join(SLURM.jobs()), lambda: f"job {job} has ended: {SLURM.jobs()}")

    def assert_no_job_left(self):
        wait_until(lambda: not SLURM.jobs(), lambda: f"no job is left: {SLURM.jobs()}")
        self.assert_nothing_left()

    @staticmethod
    def said(output):
        """Output of a script, without Slurm's lines about steps waiting for the controller."""
        return re.sub(r"^srun: (Job \d+ step creation temporarily disabled|Step created for).*\n", "", output.read_text(),
                      flags=re.MULTILINE)

    @staticmethod
    def places(devices):
        """(host, UUID) of each device in the output of `cuspan devices --json`."""
        return [(device["host"], device["uuid"]) for device in json.loads(devices)]

    def cuspan_line(self, *arguments):
        return " ".join(self.cuspan(*arguments))


class Jobs(SlurmTest):
    def test_one_node(self):
        job, output = self.sbatch(self.batch_script(self.cuspan_line("run", "--", app("vector_add", "shared"))),
                                  "--partition=gpu", "--nodelist=n2", "--gres=gpu:2")
        self.wait_for_job(job)
        self.assertEqual(output.read_text(), "vector_add: 1048576 elements on 2 devices: PASS\n")
        self.assert_no_job_left()

    def test_two_nodes(self):
        result = self.salloc(["--partition=gpu", "--nodes=2", "--gres=gpu:2"], *self.cuspan("run", "--"),
                             app("vector_add", "shared"))
        self.assertEqual(result.stdout, "vector_add: 1048576 elements on 4 devices: PASS\n")

    def test_as_many_as_there_are_on_each_node(self):
        for options, where in ((["--gpus=3"], [2, 1]), (["--ntasks=3", "--gpus-per-task=1"], [1, 2]),
                               (["--exclusive", "--gres=gpu:2"], [2, 3])):
            with self.subTest(options):
                result = self.salloc(["--partition=cpu", ":", "--partition=gpu", "--nodes=2", *options],
                                     *self.cuspan("devices", "--json"))
                hosts = [host for host, _ in self.places(result.stdout)]
                self.assertEqual([hosts.count("n1"), hosts.count("n2")], where)

    def test_a_node_without_gpus_and_two_with(self):
        for relay in ("mpi", "ucx"):
            with self.subTest(relay):
                result = self.salloc(["--partition=cpu", "--nodes=1", ":", "--partition=gpu", "--nodes=2", "--gres=gpu:2"],
                                     *self.cuspan("run", "--"), app("vector_add", "static"), CUSPAN_RELAY=relay)
                self.assertEqual((result.stdout, result.stderr),
                                 ("vector_add: 1048576 elements on 4 devices: PASS\n", ""))

    def test_doctor(self):
        """The doctor uses srun to check the nodes of the job and their GPUs."""
        for relay in ("mpi", "ucx"):
            with self.subTest(relay):
                result = self.salloc(["--partition=cpu", "--nodes=1", ":", "--partition=gpu", "--nodes=2", "--gres=gpu:2"],
                                     *self.cuspan("doctor"), CUSPAN_RELAY=relay)
                self.assertEqual([line.split()[0] for line in result.stdout.splitlines()[:3]], ["n0", "n1", "n2"])
                self.assertEqual(result.stdout.splitlines()[3:],
                                 ["no problems found: cuspan run can use 4 GPUs on 2 hosts"])

    def test_the_same_as_a_script(self):
        script = self.batch_script("hostname", self.cuspan_line("run", "--", app("vector_add", "shared")),
                                   options=["--partition=cpu --nodes=1", "hetjob",
                                            "--partition=gpu --nodes=2 --gres=gpu:2"])
        job, output = self.sbatch(script)
        self.wait_for_job(job)
        self.assertEqual(output.read_text(), "n0\nvector_add: 1048576 elements on 4 devices: PASS\n")
        self.assert_no_job_left()

    def test_the_scripts_of_the_documentation(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/slurm.md").read_text(encoding="utf-8")
        scripts = re.findall(r"^```bash\n(#!/bin/bash\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
        devices = [[2], [4], [4], [1, 1]]
        self.assertEqual(len(scripts), len(devices))
        (self.folder / "app").symlink_to(app("vector_add", "shared"))
        for script, runs in zip(scripts, devices):
            with self.subTest(script):
                (self.folder / "script").write_text(script)
                job, output = self.sbatch("script", f"--chdir={self.folder}", PATH=f"{build() / 'bin'}:{os.environ['PATH']}")
                self.wait_for_job(job)
                lines = [f"vector_add: 1048576 elements on {count} device{'s' * (count > 1)}: PASS\n" for count in runs]
                self.assertEqual(self.said(output), "".join(lines))
                self.assert_no_job_left()

    def test_ranks_of_an_mpi_program(self):
        """Ranks run on the command's node, or on the named nodes; Open MPI starts these by srun."""
        for name, hosts in (("here", []), ("on both nodes", ["--app-hosts", "n1:2,n2:2"])):
            with self.subTest(name):
                script = self.batch_script(self.cuspan_line("run", "-np", "4", "--gpus-per-rank", "1", *hosts, "--",
                                                            program("ranks", "shared"), "1"))
                job, output = self.sbatch(script, "--partition=gpu", "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2")
                self.wait_for_job(job)
                self.assertIn("PASS", output.read_text())
                self.assert_no_job_left()

    def test_the_switch_comes_first(self):
        result = self.salloc(["--partition=gpu", "--nodes=2", "--gres=gpu:1"], "srun", "--nodes=1", "--ntasks=1",
                             "--gres=none", *self.cuspan("devices", "--json"), CUSPAN_BATCH="off")
        # All GPUs of the node: only Slurm's own device limits would hide them, and this cluster has none.
        self.assertEqual([host for host, _ in self.places(result.stdout)], ["n1"] * 2)

    def test_named_hosts(self):
        """Started on a node of the job or on another one, runs have the GPUs of the job and no others."""
        gpus = ["--partition=gpu", "--nodes=2", "--gres=gpu:1"]
        for options, hosts, places in ((["--partition=cpu", ":", *gpus], "n2,n1:4", ["n2", "n1"]), (gpus, "n2", ["n2"])):
            with self.subTest(options):
                result = self.salloc(options, *self.cuspan("devices", "--json", "--hosts", hosts))
                self.assertEqual([host for host, _ in self.places(result.stdout)], places)
        result = self.salloc(gpus, *self.cuspan("run", "--hosts", "n1,n2", "--", app("vector_add", "shared")), host="n0")
        self.assertEqual(result.stdout, "vector_add: 1048576 elements on 2 devices: PASS\n")
        result = self.salloc(gpus, *self.cuspan("run", "--hosts", "n1,n0", "--", "true"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"cuspan: host n0 is not a node of Slurm job \d+: name nodes of the job, .*CUSPAN_BATCH=off")

    def test_a_job_without_gpus(self):
        result = self.salloc(["--partition=cpu"], *self.cuspan("devices", "--device", "auto"), status=None,
                             CUSPAN_DEVICE="auto")
        self.assertRegex(result.stderr, r"cuspan: Slurm job \d+ has no GPUs: request some \(--gres=gpu:N\), .*CUSPAN_BATCH=off")

    def test_slurm_does_not_answer(self):
        result = self.salloc(["--partition=gpu", "--nodes=2", "--gres=gpu:2"], "env", "SLURM_JOB_ID=4000000",
                             *self.cuspan("run", "--", app("vector_add", "shared")), host="n1")
        self.assertIn("on 2 devices: PASS", result.stdout)
        self.assertIn("cuspan: Slurm job 4000000: scontrol --details show job 4000000: ", result.stderr)
        self.assertIn("this node alone is used", result.stderr)
        result = self.salloc(["--partition=gpu", "--nodes=2", "--gres=gpu:2"], "env", "SLURM_CONF=/nonexistent",
                             *self.cuspan("run", "--", "true"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, "cuspan: Slurm job .*scontrol.*; try again, or set CUSPAN_BATCH=off and ")

    def test_tasks_of_an_array(self):
        """The last task has the array's own id; Slurm answers a query of it with all tasks."""
        script = self.batch_script(self.cuspan_line("devices", "--json"), "sleep 2",
                                   options=["--array=0-1 --partition=gpu --gres=gpu:1"])
        line = SLURM.on("n0", "sbatch", "--parsable", f"--output={self.folder}/output-%a", script, **self.variables())
        array = self.run_command(line, self.environment()).stdout.strip()
        wait_until(lambda: not SLURM.jobs(), lambda: f"array {array} has ended: {SLURM.jobs()}")
        seen = [self.places((self.folder / f"output-{task}").read_text()) for task in (0, 1)]
        self.assertEqual([len(places) for places in seen], [1, 1])
        self.assertNotEqual(seen[0], seen[1])
        self.assert_no_job_left()

    def test_a_variable_of_the_users_opens_no_other_gpus(self):
        """CUDA_VISIBLE_DEVICES in salloc's shell is not set by Slurm; on n2 another job has the first GPU."""
        holder, _ = self.sbatch(self.batch_script("sleep 60"), "--partition=gpu", "--nodelist=n2", "--gres=gpu:1")
        wait_until(lambda: "RUNNING" in SLURM.ask("scontrol", "show", "job", holder), SLURM.jobs)
        line = SLURM.on("n2", "salloc", "--quiet", "--partition=gpu", "--nodelist=n2", "--gres=gpu:1",
                        *self.cuspan("devices", "--json"), **self.variables(CUDA_VISIBLE_DEVICES="0"))
        devices = json.loads(self.run_command(line, self.environment()).stdout)
        self.assertEqual([device["pci_bus_id"] for device in devices], ["00c0:02:00.0"])
        self.run_command(SLURM.on("n0", "scancel", holder))
        self.assert_no_job_left()


class Ranks(SlurmTest):
    """Ranks of an MPI program, started by srun."""
    JOB = ("--partition=gpu", "--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--gres=gpu:2")

    def setUp(self):
        super().setUp()
        self.types = SLURM.ask("srun", "--mpi=list").split()

    def of_a_job(self, mpi, hosts, *command):
        """Runs four ranks with a GPU each, once per list of hosts. They have the job's GPUs in its order."""
        if mpi not in self.types:
            self.skipTest(f"this Slurm has no {mpi}")
        runs = [self.cuspan_line("run", "-np", "4", "--gpus-per-rank", "1", "--app-mpirun", f"'srun --mpi={mpi}'", *where,
                                 "--", *command) for where in hosts]
        job, output = self.sbatch(self.batch_script(self.cuspan_line("devices", "--json") + " > devices", *runs),
                                  f"--chdir={self.folder}", *self.JOB)
        self.wait_for_job(job)
        devices = [uuid for _, uuid in self.places((self.folder / "devices").read_text())]
        self.assertEqual(len(set(devices)), 4)
        lines = [f"rank {rank}: {uuid}" for rank, uuid in enumerate(devices)]
        said = self.said(output)
        self.assertEqual([line for line in said.splitlines() if line.startswith("rank ")], lines * len(hosts), said)
        self.assert_no_job_left()
        return said

    def test_pmix(self):
        """Ranks placed by Slurm, on one node, and on two in another order."""
        hosts = ([], ["--app-hosts", "n1:4"], ["--app-hosts", "n2:1,n1"])
        said = self.of_a_job("pmix", hosts, program("ranks", "shared"), "1")
        self.assertEqual(said.count("world size 4, devices a rank 1, pi 3.1415926536: PASS"), len(hosts), said)

    def test_pmi2(self):
        rank = pathlib.Path(__file__).with_name("pmi2_rank.py")
        self.of_a_job("pmi2", ([], ["--app-hosts", "n2:4"]), sys.executable, "-BS", str(rank))

    def test_ends(self):
        """The run ends with srun's status: the exit status of a rank, or the one for its signal. The other ranks end
        too."""
        job = ["--partition=gpu", "--nodes=2", "--gres=gpu:1"]
        for end, status in (("exit 7", 7), ("kill -KILL $$", 137)):
            with self.subTest(end):
                rank = f"[ $SLURM_PROCID = 1 ] && {end}; [ $SLURM_PROCID = 1 ] || exec sleep 1000"
                self.salloc(job, *self.cuspan("run", "-np", "2", "--app-mpirun", "srun", "--", "sh", "-c", rank),
                            status=max(status, 143))
        # cuspan passes signals to srun, and srun to the ranks.
        ready = self.folder / "ready"
        rank = f"trap 'exit 5' USR1; touch {ready}; while :; do sleep 0.1; done"
        run = self.start(SLURM.on("n1", "salloc", "--quiet", "--partition=gpu", "--gres=gpu:1",
                                  *self.cuspan("run", "-np", "1", "--app-mpirun", "srun", "--", "sh", "-c", rank),
                                  **self.variables()), self.environment())
        wait_until(ready.exists, "the rank is ready")
        os.kill(self.processes("cuspan")[0][0], signal.SIGUSR1)
        self.assertEqual(self.ends(run)[0], 5)
        self.assert_no_job_left()

    def test_outside_a_job(self):
        for variables in ({}, {"SLURM_JOB_ID": "7", "CUSPAN_BATCH": "off"}):
            line = SLURM.on("n0", *self.cuspan("run", "-np", "2", "--app-mpirun", "srun", "--", "true"),
                            **self.variables(**variables))
            result = self.run_command(line, self.environment(), OWN_FAILURE)
            self.assertIn("srun starts ranks only in a Slurm job", result.stderr)


class Leases(SlurmTest):
    def test_a_run_outside_has_a_gpu_of_the_job(self):
        """A run outside of jobs has a GPU given to the job: the job's run waits, fails, or takes others, and prints the
        reason."""
        leases = {"CUSPAN_LEASES": "on", "CUSPAN_LEASE_FOLDER": str(self.folder)}
        outside = self.start_on("n1", "--gpus", "1", "--", "sh", "-c", "echo here; cat", **leases)
        self.assertEqual(outside.stdout.readline(), "here\n")
        job = ["--partition=gpu", "--nodelist=n1", "--gres=gpu:2"]
        told = (r"the batch system gave GPU \S+ of host n1 to job \d+, but run [0-9a-f]{16} of \S+ \(sh, no job\) "
                r"holds a lease of it: end that run, or start it in its own job\b")
        result = self.salloc(job, *self.cuspan("run", "--gpus", "2", "--no-wait", "--", "true"), status=OWN_FAILURE,
                             alone=False, **leases)
        self.assertRegex(result.stderr, "^cuspan: not available now: 2 GPUs of n1: held by .*; " + told)
        result = self.salloc(job, *self.cuspan("run", "--", app("vector_add", "shared")), alone=False, **leases)
        self.assertIn("on 1 device: PASS", result.stdout)
        self.assertRegex(result.stderr, "^cuspan: " + told + "\n$")
        waiting = self.start(SLURM.on("n0", "salloc", "--quiet", *job, *self.cuspan("run", "--gpus", "2", "--", "echo", "mine"),
                                      **self.variables(**leases)), self.environment())
        self.assertRegex(waiting.stderr.readline(), "^cuspan: waiting for 2 GPUs of n1: held by .*; " + told)
        self.assertEqual(self.ends(outside)[0], 0)
        self.assertEqual(self.ends(waiting)[:2], (0, "mine\n"))
        self.assert_no_job_left()

    def test_runs_of_one_job_share_what_it_has(self):
        leases = {"CUSPAN_LEASES": "on", "CUSPAN_LEASE_FOLDER": str(self.folder)}
        devices = self.cuspan_line("run", "--gpus", "1", "--", program("inspect", "shared"), "count")
        script = self.batch_script(f"cd {self.folder}; mkfifo end; " + self.cuspan_line(
            "run", "--gpus", "1", "--", "sh", "-c", "'touch there; cat end'") + " &",
            "until [ -e there ]; do sleep 0.1; done", devices, "echo > end; wait")
        job, output = self.sbatch(script, "--partition=gpu", "--nodelist=n1", "--gres=gpu:2", **leases)
        self.wait_for_job(job)
        self.assertEqual(self.said(output).split(), ["1"])
        self.assert_no_job_left()


class Sharing(SlurmTest):
    def test_two_jobs_see_their_own_gpus(self):
        devices = self.cuspan_line("devices", "--json")
        first, second = self.folder / "first", self.folder / "second"
        # Each waits until both run.
        script = self.batch_script('touch "$1"; until [ -e "$2" ]; do sleep 0.1; done', devices)
        jobs = []
        for gpus, (own, other) in ((1, (first, second)), (2, (second, first))):
            line = SLURM.on("n0", "sbatch", "--parsable", f"--output={self.folder}/output-%j", "--partition=gpu",
                            "--nodelist=n2", f"--gres=gpu:{gpus}", script, own, other, **self.variables())
            jobs.append(self.run_command(list(map(str, line)), self.environment()).stdout.strip())
        seen = []
        for job in jobs:
            self.wait_for_job(job)
            seen.append(self.places((self.folder / f"output-{job}").read_text()))
        self.assertEqual([len(places) for places in seen], [1, 2])
        self.assertEqual(len({uuid for places in seen for _, uuid in places}), 3)
        self.assert_no_job_left()

    def test_steps_side_by_side(self):
        """While a run has all GPUs of the job, other steps of the job start and end; a step with a GPU has this GPU."""
        holds = self.cuspan_line("run", "--", program("holds", "shared"))
        devices = self.cuspan_line("devices", "--json")
        script = self.batch_script(
            f"cd {self.folder} && mkfifo orders", f"{holds} < orders > answers &", "exec 3> orders", "echo use 3 >&3",
            "until grep right answers; do sleep 0.1; done", "srun --nodes=2 --ntasks=2 hostname | sort",
            f"srun --exact --nodes=1 --ntasks=1 --nodelist=n1 --gres=gpu:1 {devices} > devices", "exec 3>&-", "wait")
        job, output = self.sbatch(script, "--partition=gpu", "--nodes=2", "--gres=gpu:2")
        self.wait_for_job(job)
        self.assertEqual(self.said(output).split(), ["right", "n1", "n2"])
        self.assertEqual([host for host, _ in self.places((self.folder / "devices").read_text())], ["n1"])
        self.assert_no_job_left()


class Plugin(SlurmTest):
    """--cuspan-gpus of sbatch and srun."""

    def setUp(self):
        if not (build() / "lib/cuspan/cuspan-spank.so").exists():
            self.skipTest("built without slurm/spank.h")
        super().setUp()

    def srun(self, *arguments, status=0):
        result = self.run_command(SLURM.on("n0", "srun", "--partition=gpu", *arguments, **self.variables()),
                                  self.environment(), status)
        self.assert_no_job_left()
        return result

    def test_a_script(self):
        script = self.batch_script(app("vector_add", "shared"), f"srun --nodes=1 --ntasks=1 {app('vector_add', 'static')}",
                                   options=["--partition=gpu --nodes=2 --gres=gpu:2"])
        for gpus, count in (("3", 3), ("all", 4)):
            with self.subTest(gpus):
                job, output = self.sbatch(script, f"--cuspan-gpus={gpus}")
                self.wait_for_job(job)
                self.assertEqual(self.said(output), f"vector_add: 1048576 elements on {count} devices: PASS\n" * 2)
                self.assert_no_job_left()

    def test_a_step(self):
        result = self.srun("--gres=gpu:2", "--cuspan-gpus=1", app("vector_add", "static"))
        self.assertEqual((result.stdout, result.stderr), ("vector_add: 1048576 elements on 1 device: PASS\n", ""))
        self.assertEqual(self.srun("--gres=gpu:2", "--cuspan-gpus=1", "sh", "-c", "exit 7", status=7).stdout, "")

    def test_ranks_in_a_script(self):
        """The ranks belong to the run starting them, and start no run themselves."""
        if "pmix" not in SLURM.ask("srun", "--mpi=list").split():
            self.skipTest("this Slurm has no pmix")
        script = self.batch_script(self.cuspan_line("run", "-np", "2", "--gpus-per-rank", "1", "--app-mpirun",
                                                    "'srun --mpi=pmix'", "--", program("ranks", "shared"), "1"))
        job, output = self.sbatch(script, "--cuspan-gpus=2", "--partition=gpu", "--nodes=2", "--gres=gpu:1")
        self.wait_for_job(job)
        self.assertEqual(self.said(output).count("world size 2, devices a rank 1, pi 3.1415926536: PASS"), 1)
        self.assert_no_job_left()

    def test_without_the_option_nothing_changes(self):
        self.assertEqual(self.srun("--nodelist=n1", "sh", "-c", "hostname; echo $LD_PRELOAD").stdout.split(), ["n1"])

    def test_mistakes(self):
        for gpus in ("0", "many", "4097", "2x"):
            result = self.srun(f"--cuspan-gpus={gpus}", "hostname", status=None)
            self.assertIn(f"--cuspan-gpus={gpus}: use a number of GPUs from 1 to 4096, or all", result.stderr)
            self.assertEqual(result.stdout, "")
        result = self.srun("--ntasks=2", "--gres=gpu:1", "--cuspan-gpus=1", "hostname", status=None)
        self.assertIn("--cuspan-gpus is for one task", result.stderr)
        self.assertEqual(result.stdout, "")


class Ends(SlurmTest):
    def start_held(self, *options, relay="mpi", before="true"):
        """Starts a job running `before` and then a run with all GPUs of the job; returns its id."""
        script = self.batch_script(before, self.cuspan_line("run", "--", program("long_kernel", "shared"), "64 64 4") + " < /dev/zero")
        job, output = self.sbatch(script, "--partition=gpu", "--nodes=2", "--gres=gpu:2", *options, CUSPAN_RELAY=relay,
                                  CUSPAN_SOFT_RATE="1000")
        wait_until(lambda: len(self.processes("cuspan-proxy")) == 1, lambda: f"the run uses a GPU: {self.processes()}\n"
                   + output.read_text() if output.exists() else SLURM.logs())
        return job

    def test_scancel_in_a_kernel(self):
        for relay in ("mpi", "ucx"):
            with self.subTest(relay):
                job = self.start_held(relay=relay)
                self.run_command(SLURM.on("n0", "scancel", job))
                self.wait_for_job(job)
                self.assert_no_job_left()

    def test_requeued_in_a_kernel(self):
        """The run leaves nothing behind, and the job runs again, to its end."""
        again = self.cuspan_line("run", "--", app("vector_add", "shared"))
        job = self.start_held("--requeue", before=f"[ -n \"$SLURM_RESTART_COUNT\" ] && exec {again}")
        SLURM.ask("scontrol", "requeue", job)
        wait_until(lambda: "JobState=PENDING" in SLURM.ask("scontrol", "show", "job", job), "the job waits again")
        self.assert_nothing_left()
        # Slurm delays requeued jobs by two minutes.
        SLURM.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        self.wait_for_job(job)
        self.assertEqual((self.folder / f"output-{job}").read_text(), "vector_add: 1048576 elements on 4 devices: PASS\n")
        self.assert_no_job_left()

    def test_time_limit(self):
        job = self.start_held("--time=1")
        # The shortest limit is a minute.
        end = time.monotonic() + 2 * DEADLINE_S
        while job in SLURM.jobs() and time.monotonic() < end:
            time.sleep(0.2)
        self.assertIn("TIMEOUT", SLURM.ask("scontrol", "show", "job", job))
        self.assert_no_job_left()

    def lose_a_node(self, relay):
        """Starts a program on n0 with a GPU each of n1 and n2; kills slurmd and the agent of n2."""
        command = SLURM.on("n0", "salloc", "--quiet", "--no-kill", "--partition=cpu", ":", "--no-kill", "--partition=gpu",
                           "--nodes=2", "--gres=gpu:1", *self.cuspan("run", "--"), program("holds", "shared"),
                           **self.variables(CUSPAN_RELAY=relay))
        run = self.start(command, self.environment())
        self.assertEqual([self.ask(run, "use 0"), self.ask(run, "use 1")], ["right", "right"])
        lost = [pid for pid, _ in self.processes_on("n2", "cuspan-agent")]
        self.assertTrue(lost)
        SLURM.kill_daemon("n2", "slurmd")
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(self.ask(run, "use 1"), "right")
        return run

    def test_a_node_that_is_lost_costs_its_gpus(self):
        run = self.lose_a_node("ucx")
        self.assertEqual(self.ask(run, "use 0"), "right")
        self.ends(run)
        SLURM.restore()
        self.assert_no_job_left()

    def test_over_mpi_a_node_that_is_lost_ends_the_run(self):
        run = self.lose_a_node("mpi")
        self.ends(run)
        SLURM.restore()
        self.assert_no_job_left()
