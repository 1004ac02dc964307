"""The tests pass without their optional tools."""
import os
import subprocess
import sys
import tempfile

from cases import FOLDER, SKIPPED
from harness import SystemTest
from hidden_tools import path_without

# Modules using each tool.
USERS = {"fish": ["completion_test"], "zsh": ["completion_test"], "groff": ["man_pages_test"],
         "mandoc": ["man_pages_test"], "ompi_info": ["lanes_test.Layers"], "promtool": ["metrics_test"],
         "prometheus": ["cluster_metrics_test"], "srun": ["cluster_slurm_test"], "wg": ["cluster_secure_test"]}


class OptionalTools(SystemTest):
    def test_each_is_hidden(self):
        for tool, modules in USERS.items():
            with self.subTest(tool), tempfile.TemporaryDirectory() as folder:
                result = subprocess.run([sys.executable, "-BS", str(FOLDER / "cases.py"), "run", *modules], text=True, check=False,
                                        env={**os.environ, "PATH": path_without([tool], folder)}, capture_output=True)
                self.assertIn(result.returncode, (0, SKIPPED), f"without {tool}:\n{result.stderr}")
                self.assertIn("skipped", result.stderr)
