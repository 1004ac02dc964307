"""Python's CUDA clients from their wheels, with two devices, results against NumPy (tests/clients)."""
import os
import pathlib
import sys
import tempfile

from harness import SystemTest

CLIENTS = pathlib.Path(__file__).resolve().parent.parent / "clients"
LIBRARIES = pathlib.Path(os.environ.get("CUSPAN_TOOLKIT", "")) / "lib64"


class Clients(SystemTest):
    def use(self, name, *arguments):
        site = os.environ.get("CUSPAN_CLIENTS")
        if not site:
            self.skipTest("CMake's CUSPAN_CLIENTS does not name what tests/clients/install.sh made")
        home = tempfile.TemporaryDirectory()  # For what clients compile and keep.
        self.addCleanup(home.cleanup)
        environment = self.environment(2, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE="1", HOME=home.name,
                                       XDG_CACHE_HOME=home.name)
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = ["--same-node", path, "--gpus", "2", "--", sys.executable, str(CLIENTS / f"{name}_client.py")]
                result = self.run_command(self.cuspan("run", *command, *arguments), environment)
                self.assertEqual(result.stdout, "right\n", result.stderr)
        self.assert_nothing_left()

    def test_numba(self):
        self.use("numba")

    def test_cupy(self):
        self.use("cupy")

    def test_warp(self):
        self.use("warp")

    def test_tinygrad(self):
        self.use("tinygrad", "CUDA")

    def test_tinygrad_own_ptx(self):
        self.use("tinygrad", "CUDA:PTX")

    def test_cuda_core(self):
        self.use("cuda_core")

    def test_libraries(self):
        if not any(any(LIBRARIES.glob(f"{name}.so.*")) for name in ("libcufft", "libcurand", "libcudnn")):
            self.skipTest("the CUDA Toolkit that was found has no math libraries, as the one made of wheels")
        self.use("libraries", str(LIBRARIES))
