"""Several hosts over UCX: differences from MPI, and a part of the other tests. SYSTEM_TEST_RELAY=ucx runs all tests
over UCX."""
import unittest

import cluster_test
from harness import build


def setUpModule():
    if not (build() / "bin/cuspan-agent-ucx").exists():
        raise unittest.SkipTest("cuspan was built without UCX")
    cluster_test.setUpModule()


tearDownModule = cluster_test.tearDownModule


def share(tests, *names):
    """A subclass with only these tests of another class."""
    return type(tests.__name__, (tests,), {"relay": "ucx", **{
        name: None for name in unittest.TestLoader().getTestCaseNames(tests) if name not in names}})


Devices = share(cluster_test.Devices, "test_of_three_hosts_at_once", "test_copies_between_hosts")
Faults = share(cluster_test.Faults, "test_agent_killed", "test_host_cut_off", "test_launcher_killed_while_agents_start")
