"""Programs on hosts other than the run's: ranks of an MPI program find the agent of their node, and use devices of this
node and of all others."""
from box import Box, BoxTest
from harness import Statistics, app, program

MPIRUN = "mpirun --oversubscribe --bind-to none"


def setUpModule():
    BoxTest.box = Box([0, 0, 2, 2])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class Elsewhere(BoxTest):
    def ranks(self, hosts, ranks, *command, gpus=("n2", "n3")):
        return self.run_on("n0", "-np", str(ranks), "--hosts", ",".join(f"{host}:2" for host in gpus), "--app-hosts",
                           hosts, "--stats", "--app-mpirun", MPIRUN, *command)

    def test_ranks_on_two_hosts_devices_on_two_others(self):
        result = self.ranks("n0:2,n1:2", 4, "--gpus-per-rank", "1", "--", program("ranks", "static"), "1")
        self.assertIn("world size 4, devices a rank 1, pi 3.14159265", result.stdout)
        self.assertIn("PASS", result.stdout)
        statistics = Statistics(result.stderr)
        self.assertEqual(statistics.devices(), {0, 1, 2, 3})
        self.assertEqual(statistics.paths(), {self.relay})
        self.assertEqual({row["host"] for row in statistics.rows}, {"n2", "n3"})
        # A session's number contains its agent's rank: 0 for the host of the run, 3 for n1.
        self.assertEqual({int(row["session"]) // 1_000_000 for row in statistics.rows}, {0, 3})
        self.assert_nothing_left()

    def test_ranks_where_the_devices_are(self):
        result = self.ranks("n2:2,n3:2", 4, "--gpus-per-rank", "1", "--", program("ranks", "shared"), "1")
        self.assertIn("PASS", result.stdout)
        self.assertEqual(Statistics(result.stderr).paths(), {"same-node"})
        self.assert_nothing_left()

    def test_a_program_elsewhere_has_all_devices(self):
        for host, paths, name, arguments in (("n1", {self.relay}, "transfers", ["64", "4"]),
                                             ("n2", {self.relay, "same-node"}, "peer_copies", ["16", "4"])):
            with self.subTest(host=host, program=name):
                result = self.ranks(host, 1, "--", app(name, "static"), *arguments)
                self.assertIn("4 devices", result.stdout)
                self.assertIn("PASS", result.stdout)
                self.assertEqual(Statistics(result.stderr).paths(), paths)
        self.assert_nothing_left()
