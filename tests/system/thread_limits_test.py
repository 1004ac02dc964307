"""A thread or memory limit reached at any moment: the run ends with a CUDA error and a line, and nothing aborts."""
import os
import re
import shutil
import subprocess
import unittest

from harness import SystemTest, app

# A user without other processes.
USER = 61234
# Threads of a run of one software GPU with two workers, at most.
MOST_THREADS = 48
ABORTED = re.compile(r"terminate called|std::|Aborted|core dumped")


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "limits of threads do not hold for root, who alone can become another user")
class Threads(SystemTest):
    def check(self, *options):
        self.folder.chmod(0o755)
        self.temporary.chmod(0o777)
        environment = self.environment(CUSPAN_SOFT_THREADS="2", CUSPAN_SOFT_CACHE="off", HOME=str(self.temporary))
        right = []
        for most in range(1, MOST_THREADS + 1):
            with self.subTest(threads=most):
                result = subprocess.run(
                    ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "prlimit", f"--nproc={most}",
                     *self.cuspan("run", *options, "--", app("vector_add", "static"))],
                    env=environment, capture_output=True, text=True, cwd=self.folder, stdin=subprocess.DEVNULL, check=False)
                said = result.stdout + result.stderr
                self.assertNotRegex(said, ABORTED)
                self.assertGreaterEqual(result.returncode, 0, f"it was killed:\n{said}")
                if result.returncode == 0:
                    self.assertIn("PASS", said)
                    right.append(most)
                else:
                    self.assertRegex(said, "cannot be started|cannot start|Resource temporarily unavailable|cannot fork")
        self.assertTrue(right, "no limit was high enough")
        self.assert_nothing_left()

    def test_on_one_node(self):
        self.check()
