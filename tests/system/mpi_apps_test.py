"""MPI programs: their ranks keep their own MPI_COMM_WORLD and use the run's devices."""
from harness import NOT_FOUND, OWN_FAILURE, SystemTest, own_lines, program

# Allows more ranks than processors.
MPIRUN = "mpirun --oversubscribe --bind-to none"


class MpiApps(SystemTest):
    def ranks(self, *options, devices=4, kind="static", each="1", status=0, **variables):
        return self.run_command(self.cuspan("run", *options, "--app-mpirun", MPIRUN, "--",
                                            program("ranks", kind), each),
                                self.environment(devices, **variables), status=status)

    def test_a_device_for_each_rank(self):
        for path in ("auto", "never"):
            with self.subTest(path=path):
                result = self.ranks("-np", "4", "--gpus-per-rank", "1", "--stats", "--same-node", path)
                self.assertIn("world size 4, devices a rank 1, pi 3.14159265", result.stdout)
                self.assertIn("PASS", result.stdout)
                devices = [line.split()[1] for line in result.stderr.splitlines()
                           if line[:1].isdigit() and (" same-node " in line or f" {self.relay} " in line)]
                self.assertEqual(sorted(devices), ["0", "1", "2", "3"])
                self.assert_nothing_left()

    def test_two_devices_for_each_rank(self):
        result = self.ranks("--np", "2", "--gpus-per-rank", "2", each="2", kind="shared")
        self.assertIn("world size 2, devices a rank 2", result.stdout)

    def test_all_devices_for_each_rank(self):
        result = self.ranks("-n", "3", "--gpus", "2", each="2")
        self.assertIn("world size 3, devices a rank 2", result.stdout)

    def test_its_own_mpirun(self):
        command = [*MPIRUN.split(), "-np", "2", program("ranks", "static"), "2"]
        result = self.run_command(self.cuspan("run", "--gpus", "2", "--", *command), self.environment(2))
        self.assertIn("world size 2, devices a rank 2", result.stdout)
        result = self.run_command(self.cuspan("run", "--gpus-per-rank", "1", *command[:-1], "1"), self.environment(2))
        self.assertIn("world size 2, devices a rank 1", result.stdout)

    def test_a_rank_without_a_device(self):
        command = [*MPIRUN.split(), "-np", "2", program("ranks", "static")]
        result = self.run_command(self.cuspan("run", "--gpus", "1", "--gpus-per-rank", "1", "--", *command),
                                  status=1)
        self.assertIn("rank 1 has no GPU: the run has 1, and each rank has 1 of its own", result.stderr)

    def test_a_share_that_is_no_number(self):
        result = self.run_command(self.cuspan("run", "--", "true"), self.environment(CUSPAN_GPUS_PER_RANK="one"),
                                  status=OWN_FAILURE)
        self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
        self.assertIn("CUSPAN_GPUS_PER_RANK", result.stderr)

    def test_no_such_mpirun(self):
        for hosts in ((), ("--app-hosts", "localhost")):
            result = self.run_command(self.cuspan("run", "-np", "1", *hosts, "--app-mpirun", "./none", "--", "true"),
                                      status=NOT_FOUND)
            self.assertIn("./none", result.stderr)

    def test_as_many_devices_as_ranks_need(self):
        """The run has no more devices than its ranks need, even if the node has more."""
        result = self.run_command(self.cuspan("run", "--dry-run", "-np", "2", "--gpus-per-rank", "1", "--", "true"),
                                  self.environment(4))
        self.assertIn(" --gpus 2", result.stdout)
        result = self.run_command(self.cuspan("run", "--dry-run", "-np", "2", "--gpus-per-rank", "1", "--gpus", "all",
                                              "--", "true"), self.environment(4))
        self.assertIn(" --gpus all", result.stdout)

    def test_more_than_the_run_has(self):
        result = self.ranks("-np", "4", "--gpus-per-rank", "1", "--gpus", "2", status=OWN_FAILURE)
        self.assertIn("4 ranks with 1 GPUs each need 4 GPUs, but the run has 2", result.stderr)

    def test_visible_devices(self):
        """CUDA_VISIBLE_DEVICES set by the program's script selects from the run's devices, by CUDA's rules."""
        def count(choice):
            script = f"export CUDA_VISIBLE_DEVICES={choice}; exec \"$0\" \"$@\""
            return self.run_command(self.cuspan("run", "--", "bash", "-c", script, program("inspect", "static"),
                                                "count"), self.environment(3), status=0)
        self.assertEqual(count("2,0").stdout, "2\n")
        self.assertEqual(count("1,7,0").stdout, "1\n")
        self.assertIn("cudaErrorNoDevice", count("").stderr)
        self.assertIn("cudaErrorInvalidDevice", count("1,1").stderr)

    def test_visible_devices_of_the_node(self):
        """CUDA_VISIBLE_DEVICES set at the start of cuspan selects devices of this node, not of the program."""
        result = self.run_command(self.cuspan("run", "--", program("inspect", "static"), "count"),
                                  self.environment(2, CUDA_VISIBLE_DEVICES="7"))
        self.assertEqual(result.stdout.strip(), "2")

    def test_software_gpus_may_be_those_that_are_given_out(self):
        result = self.run_command(self.cuspan("run", "--", program("inspect", "static"), "count"),
                                  self.environment(2, CUDA_VISIBLE_DEVICES="1", CUSPAN_SOFT_VISIBLE="chosen"))
        self.assertEqual(result.stdout.strip(), "1")

    def test_dry_run(self):
        self.relay = "mpi"
        result = self.run_command(self.cuspan("run", "--dry-run", "-np", "4", "--gpus-per-rank", "1", "--hosts",
                                              "n1:2,n2:2", "--app-hosts", "c1:2,c2:2", "--remote-shell", "my-ssh", "--",
                                              "sleep", "a b"), status=0)
        self.assertEqual(own_lines(result.stderr), [])
        for host in ("host n1: at most 2 of its GPUs", "host n2: at most 2 of its GPUs", "host c1: no GPU",
                     "host c2: no GPU"):
            self.assertIn(host, result.stdout)
        agents, app = result.stdout.splitlines()[-2:]
        self.assertTrue(agents.startswith("agents: mpirun "), agents)
        self.assertIn("--gpus 4", agents)
        self.assertTrue(app.startswith("program: mpirun -np 4 --host c1:2,c2:2 -x LD_PRELOAD"), app)
        self.assertTrue(app.endswith("sleep 'a b'"), app)
        self.assertFalse(self.processes())
