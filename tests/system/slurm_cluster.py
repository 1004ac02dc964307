"""A Slurm cluster for system tests: Debian's slurmctld, slurmd and munged, on the hosts of a cluster in a box."""
import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import build, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scontrol", "squeue", "scancel")
# Only limits jobs: the hosts share the machine's CPUs.
CPUS = 8
# Addresses of the box's hosts, in the order of their names.
ADDRESS = "10.77.0.{}"
# Slurm numbers GPUs by device files: each is a copy of the null device, accessible to all users.
NULL_DEVICE = os.makedev(1, 3)

# Variables set by the box for mpirun; in a job, mpirun uses Slurm instead.
NOT_OF_A_JOB = ("OMPI_MCA_plm", "OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC")


class SlurmCluster:
    """Partitions: `cpu`, the hosts without GPUs; `gpu`, the others; and `all`. Software GPUs are their GRES."""

    def __init__(self, box, devices):
        missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
        if missing:
            raise unittest.SkipTest(f"no Slurm: {', '.join(missing)} not found")
        self.box = box
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.daemons = {}
        try:
            self.configure(devices)
            self.start()
        except PermissionError as error:
            self.down()
            raise unittest.SkipTest(f"no device files here: {error}") from error
        except BaseException:
            self.down()
            raise

    def configure(self, devices):
        folder = self.folder
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "key").chmod(0o400)
        (folder / "state").mkdir()
        nodes, gres, partitions = [], [], {"cpu": [], "gpu": [], "all": []}
        for number, (host, gpus) in enumerate(zip(self.box.hosts, devices)):
            (folder / f"spool-{host}").mkdir()
            (folder / f"tmp-{host}").mkdir()
            for gpu in range(gpus):
                os.mknod(folder / f"{host}-gpu{gpu}", 0o20666, NULL_DEVICE)
            nodes.append(f"NodeName={host} NodeAddr={ADDRESS.format(number + 1)} CPUs={CPUS} RealMemory=2000"
                         + (f" Gres=gpu:{gpus}" if gpus else ""))
            if gpus:
                gres.append(f"NodeName={host} Name=gpu File={folder}/{host}-gpu[0-{gpus - 1}]")
            partitions["gpu" if gpus else "cpu"].append(host)
            partitions["all"].append(host)
        (folder / "gres.conf").write_text("\n".join(gres) + "\n")
        # A host of the box has no control groups of its own; this plugin does not look for them.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        # Same plugin configuration as on a real site.
        plugin = build() / "lib/cuspan/cuspan-spank.so"
        (folder / "plugstack.conf").write_text(f"optional {plugin}\n" if plugin.exists() else "")
        (folder / "slurm.conf").write_text("\n".join([
            "ClusterName=box", f"SlurmctldHost={self.box.hosts[0]}({ADDRESS.format(1)})", "SlurmUser=root",
            "SlurmdUser=root", "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.socket",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd-%n.pid",
            f"TmpFS={folder}/tmp-%n", f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/slurmd-%n.log",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SwitchType=switch/none", "MpiDefault=none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "GresTypes=gpu", "ReturnToService=2",
            "SlurmdTimeout=10", "KillWait=10", "TCPTimeout=2", "SlurmdParameters=config_overrides",
            f"PlugStackConfig={folder}/plugstack.conf",
            "SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0", *nodes,
            *(f"PartitionName={name} Nodes={','.join(hosts)} Default={'YES' if name == 'cpu' else 'NO'}"
              for name, hosts in partitions.items() if hosts)]) + "\n")

    def start(self):
        subprocess.run(["munged", f"--key-file={self.folder}/key", f"--socket={self.folder}/munge.socket",
                        f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                        f"--seed-file={self.folder}/munged.seed", "--force", "--num-threads=2"], check=True,
                       capture_output=True)
        self.start_daemon(self.box.hosts[0], "slurmctld")
        self.restore()

    def restore(self):
        """Cancels all jobs and starts missing slurmds."""
        wait_until(lambda: self.try_to_ask("scontrol", "ping").returncode == 0, "slurmctld answers")
        for job in self.jobs():
            self.try_to_ask("scancel", job)
        for host in self.box.hosts:
            if ("slurmd", host) not in self.daemons:
                self.start_daemon(host, "slurmd", "-N", host)
        wait_until(lambda: self.states() == dict.fromkeys(self.box.hosts, "idle"),
                   lambda: f"all nodes are idle: {self.states()}, {self.jobs()}\n{self.logs()}")

    def start_daemon(self, host, name, *arguments):
        command = self.box.on(host, name, "-D", "-f", str(self.folder / "slurm.conf"), *arguments)
        # A session of its own: signals ending the test's session do not end the daemon first.
        self.daemons[name, host] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                    stderr=subprocess.DEVNULL, start_new_session=True)

    def kill_daemon(self, host, name):
        """Kills it, like a crash."""
        daemon = self.daemons.pop((name, host))
        daemon.kill()
        daemon.wait()

    def on(self, host, *command, **variables):
        """Command line to run a command on a host as a user of the cluster."""
        words = ["env", *(f"--unset={name}" for name in NOT_OF_A_JOB), f"SLURM_CONF={self.folder}/slurm.conf",
                 *(f"{name}={value}" for name, value in variables.items())]
        return self.box.on(host, *words, *command)

    def try_to_ask(self, *command):
        return subprocess.run(self.on(self.box.hosts[0], *command), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)

    def ask(self, *command):
        """Output of a command; repeated until it succeeds, since a busy controller may not answer at first."""
        results = []

        def answered():
            results.append(self.try_to_ask(*command))
            return results[-1].returncode == 0
        wait_until(answered, lambda: f"{command} succeeds: {results[-1].stderr}")
        return results[-1].stdout

    def states(self):
        """State of each node, from sinfo; empty while the controller does not answer."""
        answer = self.try_to_ask("sinfo", "-h", "-p", "all", "-N", "-o", "%N %T").stdout
        return dict(line.split() for line in answer.splitlines())

    def jobs(self):
        return self.ask("squeue", "-h", "-o", "%i").split()

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def down(self):
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        with contextlib.suppress(OSError, ValueError):
            munged = int((self.folder / "munged.pid").read_text())
            os.kill(munged, signal.SIGTERM)
            wait_until(lambda: not pathlib.Path(f"/proc/{munged}").exists(), "munged has ended")
        shutil.rmtree(self.folder, ignore_errors=True)
