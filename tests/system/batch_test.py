"""CUSPAN_BATCH=off: a run ignores the batch job."""
from harness import SystemTest

FOUND = 1  # Exit status of the doctor.
# Variables of Slurm, PBS, LSF and Grid Engine, set in their jobs.
MARKS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")


class Off(SystemTest):
    def check(self, *arguments, status=0):
        """Requires the same output of a command with CUSPAN_BATCH=off in each job as outside of jobs."""
        def said(**job):
            environment = self.environment(CUSPAN_BATCH="off")
            for mark in ("CUSPAN_RELAY", *MARKS):
                environment.pop(mark, None)
            result = self.run_command(self.cuspan(*arguments), {**environment, **job}, status=status)
            return result.stdout, result.stderr
        outside = said()
        for mark in MARKS:
            with self.subTest(mark=mark):
                self.assertEqual(said(**{mark: "7"}), outside)

    def test_the_relay(self):
        self.check("run", "--dry-run", "--relay", "auto", "--hosts", "h1", "--gpus", "1", "--", "true")

    def test_mpi(self):
        self.check("run", "--dry-run", "--relay", "mpi", "--hosts", "h1", "--gpus", "1", "--", "true")

    def test_ranks(self):
        self.check("run", "--dry-run", "--relay", "auto", "--hosts", "h1", "-np", "2", "--", "true")

    def test_the_doctor(self):
        self.check("doctor", "--relay", "auto", "--hosts", "no-such-host.invalid", status=FOUND)
        self.check("doctor", "--relay", "mpi", "--hosts", "no-such-host.invalid", status=FOUND)
