"""NCCL over devices of several hosts: traffic between ranks does not go through the program's host."""
import re
import subprocess

from box import Box, BoxTest
from harness import app, own_lines, program

OTHERS = "n1,n2,n3"


def setUpModule():
    BoxTest.box = Box([0, 2, 3, 3])


def tearDownModule():
    if BoxTest.box:
        BoxTest.box.down()


class Collectives(BoxTest):
    def bytes_through(self, host):
        """Bytes received by a host over the network."""
        name = f"cuspan-{self.box.name}-{host}"
        lines = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/dev"], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        return sum(int(line.split(":")[1].split()[0]) for line in lines if ":" in line and not line.strip().startswith("lo"))

    def test_of_three_hosts(self):
        for gpus, kind in ((8, "static"), (5, "shared")):
            with self.subTest(gpus=gpus):
                result = self.run_on("n0", "--gpus", str(gpus), "--hosts", OTHERS, "--", app("collectives", kind), "1001")
                self.assertIn(f"{gpus} devices, PASS", result.stdout)
                self.assertEqual(own_lines(result.stderr), [])
        result = self.run_on("n0", "--gpus", "8", "--hosts", OTHERS, "--", app("communicators", "static"))
        self.assertIn("8 devices, PASS", result.stdout)
        self.assert_nothing_left()

    def test_nothing_passes_through_the_programs_host(self):
        """A ring of 64 rounds over two hosts."""
        count, rounds = 1 << 18, 64
        before = self.bytes_through("n0")
        result = self.run_on("n0", "--gpus", "2", "--hosts", "n1:1,n2:1", "--", program("reduces", "static"), str(count),
                             str(rounds))
        self.assertIn("PASS", result.stdout)
        # Via this host, each device's traffic would be count * rounds * 4 bytes.
        self.assertLess(self.bytes_through("n0") - before, count * rounds)
        self.assert_nothing_left()

    def test_ranks_on_two_hosts(self):
        """Each rank has its own device. The communicator's id comes from another host."""
        result = self.run_on("n0", "--gpus", "3", "--hosts", "n1:1,n2:1,n3:1", "--", program("lost_rank", "shared"), "3", "during")
        heard = re.findall(r"^rank (\d): remote process exited", result.stdout, re.MULTILINE)
        self.assertEqual(sorted(heard), ["0", "1"], result.stdout)
        self.assert_nothing_left()
