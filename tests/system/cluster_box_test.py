"""deploy/cluster-in-a-box.sh itself: several boxes, up and down, and its messages."""
import os
import subprocess
import unittest
import uuid

from box import IMPOSSIBLE, SCRIPT
from harness import wait_until


class Script(unittest.TestCase):
    def setUp(self):
        self.first, self.second = (f"t{uuid.uuid4().hex[:10]}" for _ in range(2))
        for name in (self.first, self.second):
            self.addCleanup(subprocess.run, [SCRIPT, "--name", name, "down"], capture_output=True, check=False)

    def call(self, name, *arguments, status=0, **options):
        result = subprocess.run([SCRIPT, "--name", name, *arguments], capture_output=True, text=True, check=False,
                                stdin=subprocess.DEVNULL, **options)
        if result.returncode == IMPOSSIBLE and status != IMPOSSIBLE:
            self.skipTest(f"no cluster in a box: {result.stderr.strip()}")
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout + result.stderr

    def namespaces(self, name):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        return {line.split()[0] for line in listed.splitlines() if line.startswith(f"cuspan-{name}")}

    def test_mistakes(self):
        for arguments in (["fly"], ["up", "--hosts", "0"], ["up", "--hosts", "a,a"], ["up", "--hosts", "1st"],
                          ["up", "--subnet", "10.0.0.0/8"], ["up", "--devices", "1,2,3", "--hosts", "2"],
                          ["up", "--devices", "65"], ["up", "--rate", "fast"], ["up", "--keep", "a b"], ["up", "--hosts"],
                          ["shape"], ["link", "n0"], ["stall", "n0", "long"], ["run"], ["run", "n0"], ["status", "now"]):
            with self.subTest(arguments=arguments):
                self.assertIn("--help", self.call(self.first, *arguments, status=2))
        self.assertIn("Exit status", self.call(self.first, "--help"))
        self.assertEqual(self.namespaces(self.first), set())

    def test_what_is_not_there(self):
        self.assertIn("up", self.call(self.first, "status", status=1))
        self.call(self.first, "up", "--hosts", "1")
        self.assertIn("n0", self.call(self.first, "link", "n1", "down", status=1))
        self.assertIn("n0", self.call(self.first, "run", "n1", "true", status=1))

    @unittest.skipIf(os.geteuid() != 0, "needs root to be somebody else")
    def test_not_root(self):
        text = self.call(self.first, "up", status=IMPOSSIBLE, user=65534)
        self.assertIn("sudo", text)

    def test_two_at_once(self):
        """Two boxes may have the same hosts and addresses, and are isolated from each other."""
        for name in (self.first, self.second):
            self.call(name, "up", "--hosts", "2", "--devices", "0,3")
        self.call(self.first, "link", "n1", "down")
        self.assertRegex(self.call(self.first, "status"), r"n1 +10\.77\.0\.2 +down +unlimited +0 +3")
        self.assertRegex(self.call(self.second, "status"), r"n1 +10\.77\.0\.2 +up +unlimited +0 +3")
        # The port is closed; the refusal comes from the running host.
        reach = "hostname; exec 3<>/dev/tcp/n1/9 || true"
        self.assertRegex(self.call(self.second, "run", "n0", "--", "bash", "-c", reach), "^n0\n(.|\n)*Connection refused")
        self.call(self.first, "down")
        self.assertEqual(self.namespaces(self.first), set())
        self.assertEqual(len(self.namespaces(self.second)), 3)

    def test_up_again(self):
        for _ in range(2):
            self.call(self.first, "up", "--hosts", "web,db")
        self.assertIn("other hosts", self.call(self.first, "up", "--hosts", "3", status=1))
        # A namespace is missing, as after a crash or a restart of the machine.
        subprocess.run(["ip", "netns", "del", f"cuspan-{self.first}-db"], check=True)
        self.call(self.first, "up", "--hosts", "web,db")
        self.assertEqual(self.call(self.first, "run", "db", "hostname"), "db\n")

    def test_down_ends_what_runs(self):
        self.call(self.first, "up", "--hosts", "1")
        # This process ignores SIGTERM.
        stubborn = subprocess.Popen([SCRIPT, "--name", self.first, "run", "n0", "--", "sh", "-c",
                                     "trap '' TERM; echo there; while :; do sleep 60; done"], stdout=subprocess.PIPE)
        self.addCleanup(stubborn.stdout.close)
        self.assertEqual(stubborn.stdout.readline(), b"there\n")
        for _ in range(2):
            self.call(self.first, "down")
        self.assertEqual(self.namespaces(self.first), set())
        self.assertFalse(os.path.exists(f"/run/cuspan-box/{self.first}"))
        wait_until(lambda: stubborn.poll() is not None, "its process has ended")
