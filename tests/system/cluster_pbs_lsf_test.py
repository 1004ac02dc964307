"""Runs inside jobs of PBS, Torque and LSF, emulated after their manuals, since none of them is installed. A script
starts processes on other nodes. It takes the same arguments as the system's command, and treats input, output and
environment in the same way."""
import json
import os

from box import SCRIPT, Box, BoxTest
from harness import OF_MPICH, OWN_FAILURE, app, build
from slurm_cluster import NOT_OF_A_JOB

DEVICES = (0, 2, 3)
BOX = None


def setUpModule():
    global BOX
    BOX = Box(DEVICES)


def tearDownModule():
    BOX.down()


# Starts a command on a node of the job, with the GPUs made visible by the system's daemon there.
REACH = r"""#!/bin/bash
set -eu
reach() {
  local host=$1 variables=()
  env >"%(folder)s/env-$host"
  if [[ -e %(folder)s/visible-$host ]]; then variables+=("CUDA_VISIBLE_DEVICES=$(cat "%(folder)s/visible-$host")"); fi
  shift
  exec %(script)s --name %(box)s remote-shell "$host" env "${variables[@]}" "$@"
}
"""
# tm_spawn: passes the words to execvp, without input; the output goes to the job's output.
OF_PBS = REACH + r"""
%(usage)s
grep -qx -- "$host" "$PBS_NODEFILE" || { echo "$0: host \"$host\" is not a node in job <$PBS_JOBID>" >&2; exit 255; }
reach "$host" "$(printf '%%q ' "$@")" </dev/null >>%(folder)s/job-output 2>&1
"""
PBS_TMRSH = OF_PBS.replace("%(usage)s", '[[ $1 != -* && $# -ge 2 ]] || exit 255; host=$1; shift')
PBSDSH = OF_PBS.replace("%(usage)s", '[[ $1 == -h && $# -ge 3 ]] || exit 255; host=$2; shift 2')
# blaunch: a shell on the node parses the words, as with rsh and ssh.
BLAUNCH = REACH + r"""
[[ $1 != -* && $# -ge 2 && -n $LSB_JOBID ]] || exit 255
host=$1; shift
reach "$host" "$(printf 'sh -c %%q' "$*")"
"""


class Jobs(BoxTest):
    def setUp(self):
        super().setUp()
        self.box = BOX
        self.bin = self.folder / "bin"
        self.bin.mkdir()

    def launcher(self, name, text):
        path = self.bin / name
        path.write_text(text % {"folder": self.folder, "script": SCRIPT, "box": self.box.name})
        path.chmod(0o755)

    def visible(self, **nodes):
        for host, devices in nodes.items():
            (self.folder / f"visible-{host}").write_text(devices)

    def listing(self, name, *lines):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    def in_job(self, host, job, *arguments, status=0, **more):
        """Runs cuspan on a node, with the variables of a job."""
        variables = {"PATH": f"{self.bin}:{os.environ['PATH']}", "CUSPAN_SOFT_VISIBLE": "chosen", **job}
        words = ["env", *(word for name in NOT_OF_A_JOB for word in ("-u", name)),
                 *(f"{name}={value}" for name, value in variables.items())]
        result = self.run_command(self.box.on(host, *words, *self.cuspan(*arguments)), self.environment(**more), status)
        self.assert_nothing_left()
        return result

    def hosts(self, host, job, *arguments, **more):
        """Hosts of the devices of a run, and the finished process."""
        result = self.in_job(host, job, "devices", "--json", *arguments, **more)
        return [device["host"] for device in json.loads(result.stdout)], result

    @staticmethod
    def uuids(result):
        """UUIDs in the output of `cuspan devices --json`."""
        return [device["uuid"] for device in json.loads(result.stdout)]

    def of_node(self, host):
        """UUIDs of all devices of a node."""
        return self.uuids(self.in_job(host, {"CUSPAN_SOFT_VISIBLE": "all"}, "devices", "--json"))

    def pbs(self, *nodes, **more):
        return {"PBS_JOBID": "12.server", "PBS_ENVIRONMENT": "PBS_BATCH",
                "PBS_NODEFILE": self.listing("nodes", *nodes), **more}

    def assert_no_secrets(self, host):
        given = (self.folder / f"env-{host}").read_text()
        self.assertNotIn("CUSPAN_", given)
        self.assertNotIn("CUDA_VISIBLE_DEVICES", given)

    def test_pbs(self):
        """The command runs on a node without GPUs; PBS makes none visible there."""
        self.launcher("pbs_tmrsh", PBS_TMRSH)
        self.visible(n1="1", n2="0,2")
        job = self.pbs("n0", "n1", "n1", "n2", CUDA_VISIBLE_DEVICES="")
        self.assertEqual(self.hosts("n0", job)[0], ["n1", "n2", "n2"])
        result = self.in_job("n0", job, "run", "--", app("vector_add", "shared"))
        self.assertEqual((result.stdout, result.stderr), ("vector_add: 1048576 elements on 3 devices: PASS\n", ""))
        self.assert_no_secrets("n1")

    def test_pbs_on_a_node_with_gpus(self):
        self.launcher("pbs_tmrsh", PBS_TMRSH)
        self.visible(n2="0,2")
        self.assertEqual(self.hosts("n1", self.pbs("n1.box", "n2", CUDA_VISIBLE_DEVICES="1"))[0], ["n1", "n2", "n2"])

    def test_torque(self):
        """Torque's list of GPUs decides, not the visible ones."""
        self.launcher("pbsdsh", PBSDSH)
        self.visible(n2="0,1,2")
        job = self.pbs("n1", "n2", "n2", PBS_VERSION="TORQUE-6.1.2", CUDA_VISIBLE_DEVICES="1,0",
                       PBS_GPUFILE=self.listing("gpus", "n1-gpu1", "n2-gpu0", "n2-gpu2"))
        result = self.in_job("n1", job, "devices", "--json")
        self.assertEqual(self.uuids(result), [self.of_node("n1")[1], self.of_node("n2")[0], self.of_node("n2")[2]])
        self.assertEqual(result.stderr, "")
        result = self.in_job("n1", job, "run", "--", app("vector_add", "static"))
        self.assertEqual(result.stdout, "vector_add: 1048576 elements on 3 devices: PASS\n")
        self.assert_no_secrets("n2")

    def test_a_named_remote_shell_keeps_to_the_list(self):
        self.launcher("far", BLAUNCH.replace("-n $LSB_JOBID", "-n $PBS_JOBID"))
        job = self.pbs("n1", "n2", PBS_GPUFILE=self.listing("gpus", "n1-gpu1", "n2-gpu2"))
        result = self.in_job("n1", job, "devices", "--json", "--remote-shell", str(self.bin / "far"))
        self.assertEqual(self.uuids(result), [self.of_node("n1")[1], self.of_node("n2")[2]])

    def test_lsf(self):
        self.launcher("blaunch", BLAUNCH)
        self.visible(n2="2")
        job = {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "n1 4 n2 2", "CUDA_VISIBLE_DEVICES1": "0", "CUDA_VISIBLE_DEVICES2": "1"}
        relays = ["mpi", "ucx"] if (build() / "bin/cuspan-agent-ucx").exists() else ["mpi"]
        for relay in relays:
            with self.subTest(relay):
                result = self.in_job("n1", job, "run", "--", app("vector_add", "shared"), CUSPAN_RELAY=relay)
                self.assertEqual(result.stdout, "vector_add: 1048576 elements on 3 devices: PASS\n")
                self.assert_no_secrets("n2")

    def test_where_nothing_says_which_gpus(self):
        """A line names the node in question."""
        self.launcher("blaunch", BLAUNCH)
        self.visible(n1="0")
        told = {"LSB_JOBID": "7", "LSB_HOSTS": "n1 n2", "CUDA_VISIBLE_DEVICES": "0"}
        limits = "limit them with --hosts HOST:GPUS,… or --gpus N"
        hosts, result = self.hosts("n1", told, "--device", "auto")
        self.assertEqual(hosts, ["n1", "n2", "n2", "n2"])
        # Hydra's shell adds lines of its own.
        if not OF_MPICH:
            self.assertIn("cuspan: host n2: CUDA_VISIBLE_DEVICES is not set there, so all accessible GPUs are used: "
                          f"{limits}\n", result.stderr)
        self.assertNotIn("its GPUs are not known", result.stderr)
        del told["CUDA_VISIBLE_DEVICES"]
        hosts, result = self.hosts("n1", told, "--device", "auto")
        self.assertEqual(hosts, ["n1", "n1", "n2", "n2", "n2"])
        self.assertIn("cuspan: LSF job 7: its GPUs are not known, so all accessible GPUs of its nodes are used: "
                      f"{limits}\n", result.stderr)
        self.assertNotIn("is not set there", result.stderr)

    def test_named_hosts_and_the_switch_come_first(self):
        job = self.pbs("n1", "n2", CUDA_VISIBLE_DEVICES="1")
        self.assertEqual(self.hosts("n1", job, "--hosts", "localhost")[0], ["n1"])
        self.assertEqual(self.hosts("n1", {**job, "CUSPAN_BATCH": "off"})[0], ["n1"])

    def test_what_is_wrong_is_named(self):
        job = self.pbs("n1", "n2", CUDA_VISIBLE_DEVICES="1")
        cases = [(job, (), "pbs_tmrsh: command not found; add the folder of this command to PATH"),
                 ({**job, "PBS_NODEFILE": self.listing("none")}, (), "names no host; name hosts with --hosts"),
                 ({**job, "CUSPAN_BATCH": "of"}, (), "CUSPAN_BATCH must be auto, job or off, not 'of'")]
        for variables, arguments, message in cases:
            with self.subTest(message):
                self.assertIn(message, self.in_job("n1", variables, "run", *arguments, "--", "true",
                                                   status=OWN_FAILURE).stderr)
        self.launcher("pbs_tmrsh", PBS_TMRSH)
        result = self.in_job("n1", job, "run", "--relay", "ucx", "--", "true", status=OWN_FAILURE)
        self.assertIn("--relay ucx needs a remote shell forwarding its standard input", result.stderr)
        # The agent does not start on a node of the job.
        result = self.in_job("n1", job, "run", "--remote-prefix", "/nonexistent", "--", "true", status=OWN_FAILURE)
        self.assertIn("/nonexistent", result.stderr)

    def test_a_node_whose_file_is_elsewhere(self):
        hosts, result = self.hosts("n1", {"PBS_JOBID": "12.server", "PBS_NODEFILE": "/nonexistent/12.server"})
        self.assertEqual(set(hosts), {"n1"})
        self.assertEqual(result.stderr, "cuspan: PBS job 12.server: PBS_NODEFILE names /nonexistent/12.server, but this node "
                                        "has no such file; this node alone is used: name others with --hosts, or set "
                                        "CUSPAN_BATCH=off\n")
