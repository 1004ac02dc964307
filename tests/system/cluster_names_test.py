"""Hosts with names equal up to the first dot, or with one name being the short form of another: each is one host."""
import json
import unittest

from box import Box, BoxTest
from harness import OF_MPICH, OWN_FAILURE, Statistics, app, build, own_lines


def setUpModule():
    BoxTest.box = Box([0, 1, 2, 1], ["n0", "g.a", "g.b", "g"])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class Names(BoxTest):
    def hosts_of_run(self, host, hosts, devices):
        """Host of each device of a run started on `host`."""
        result = self.run_on(host, "--hosts", hosts, "--stats", "--", app("multi_device", "shared"))
        self.assertRegex(result.stdout, rf"\b{devices} devices?: PASS")
        self.assertEqual(own_lines(result.stderr), [])
        return [row["host"] for row in Statistics(result.stderr).rows]

    def hosts_of_doctor(self, host, hosts):
        command = self.box.on(host, *self.cuspan("doctor", "--json", "--hosts", hosts))
        report = json.loads(self.run_command(command, self.environment()).stdout)
        return {visited["host"]: len(visited["gpus"]) for visited in report["hosts"]}

    def test_two_domains(self):
        self.assertEqual(self.hosts_of_run("n0", "g.b,g.a", 3), ["g.b", "g.b", "g.a"])
        self.assertEqual(self.hosts_of_doctor("n0", "g.b,g.a"), {"n0": 0, "g.b": 2, "g.a": 1})
        self.assert_nothing_left()

    def test_own_domain_and_another(self):
        self.assertEqual(self.hosts_of_run("g.a", "g.b,g.a", 3), ["g.b", "g.b", "g.a"])
        self.assertEqual(self.hosts_of_doctor("g.a", "g.b,g.a"), {"g.a": 1, "g.b": 2})
        self.assert_nothing_left()

    def test_full_name_that_begins_with_the_own_one(self):
        self.assertEqual(self.hosts_of_run("g", "g.b,g", 3), ["g.b", "g.b", "g"])
        self.assertEqual(self.hosts_of_doctor("g", "g.b,g"), {"g": 1, "g.b": 2})
        self.assert_nothing_left()

    def test_short_names_beside_an_own_full_one(self):
        listed = self.run_command(self.box.on("g.b", *self.cuspan("devices", "--json", "--hosts", "g.b,n0")),
                                  self.environment())
        self.assertEqual([device["host"] for device in json.loads(listed.stdout)], ["g.b", "g.b"])
        self.assertEqual(self.hosts_of_run("g.b", "g,g.a", 2), ["g", "g.a"])
        self.assert_nothing_left()

    def test_short_form_of_the_own_name_is_another_host(self):
        """If no other host has a full name, Open MPI compares only the first label."""
        if self.relay == "mpi" and not OF_MPICH:
            result = self.run_on("g.b", "--hosts", "g", "--", app("vector_add", "shared"), status=OWN_FAILURE)
            refused = "Open MPI confuses host g with this host, g.b: use its full name"
            self.assertIn(refused, result.stderr)
            told = self.run_command(self.box.on("g.b", *self.cuspan("doctor", "--hosts", "g")), self.environment(), status=1)
            self.assertIn(refused, told.stdout)
        else:
            self.assertEqual(self.hosts_of_run("g.b", "g", 1), ["g"])
        self.assert_nothing_left()

    def test_ranks(self):
        """The ranks' own mpirun keeps the names too, since it passes the secret of the run to them."""
        result = self.run_on("n0", "--hosts", "g.a:1,g.b:1", "-np", "2", "--app-hosts", "g.b,g.a", "--", "hostname")
        self.assertEqual(sorted(result.stdout.split()), ["g.a", "g.b"])
        self.assert_nothing_left()


class NamesOverUcx(Names):
    relay = "ucx"

    @classmethod
    def setUpClass(cls):
        if not (build() / "bin/cuspan-agent-ucx").exists():
            raise unittest.SkipTest("cuspan was built without UCX")
