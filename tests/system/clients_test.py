"""Python's CUDA clients from their wheels, with two devices, results against NumPy (tests/clients)."""
import os
import pathlib
import sys
import sysconfig
import tempfile
import unittest

from harness import Statistics, SystemTest

CLIENTS = pathlib.Path(__file__).resolve().parent.parent / "clients"
TOOLKIT = pathlib.Path(os.environ.get("CUSPAN_TOOLKIT", "")) / "lib64"
LIBRARIES = [library for library in ("libcufft.so.12", "libcurand.so.10", "libcudnn.so.9", "libcublas.so.13",
                                     "libcublasLt.so.13", "libcusparse.so.12", "libcusolver.so.12")
             if (TOOLKIT / library).exists()]
NO_LIBRARIES = "the CUDA Toolkit that was found has no math libraries, as the one made of wheels"
MOST_PTX = "12.0"  # Most of the libraries have PTX for this capability only.


class Clients(SystemTest):
    def use(self, name, *arguments, capability="9.0", wheels="CUSPAN_CLIENTS", libraries_of=None):
        site = os.environ.get(wheels)
        if not site:
            self.skipTest(f"CMake's {wheels} does not name what tests/clients/install.sh made")
        # The packages search beside Python's own packages and in the toolkit; the wheels' libraries are in neither.
        libraries = ":".join(str(folder) for folder in pathlib.Path(os.environ.get(libraries_of or wheels, site)).glob("nvidia/*/lib"))
        home = tempfile.TemporaryDirectory()  # Caches of the clients.
        self.addCleanup(home.cleanup)
        environment = self.environment(2, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE="1", HOME=home.name,
                                       XDG_CACHE_HOME=home.name, CUSPAN_SOFT_CAPABILITY=capability, LD_LIBRARY_PATH=libraries,
                                       CUDA_HOME=str(TOOLKIT.parent), CUDA_PATH=str(TOOLKIT.parent))
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

    def test_notebooks(self):
        self.use("notebook")

    def test_warp(self):
        self.use("warp")

    def test_tinygrad(self):
        self.use("tinygrad", "CUDA")

    def test_tinygrad_own_ptx(self):
        self.use("tinygrad", "CUDA:PTX")

    def test_cuda_core(self):
        self.use("cuda_core")

    def test_torch(self):
        self.use("torch", "native", wheels="CUSPAN_TORCH")

    def test_jax(self):
        self.use("jax", wheels="CUSPAN_JAX", libraries_of="CUSPAN_TORCH")

    def test_torch_with_expandable_segments(self):
        self.use("torch", "expandable", wheels="CUSPAN_TORCH")

    def test_torch_with_cuda_malloc_async(self):
        self.use("torch", "async", wheels="CUSPAN_TORCH")

    def test_torch_ranks(self):
        self.use("torch_ranks", wheels="CUSPAN_TORCH")

    def test_triton(self):
        if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
            self.skipTest("Triton compiles its launcher against Python.h, which is not installed")
        self.use("triton", wheels="CUSPAN_TORCH")

    @unittest.skipUnless(LIBRARIES, NO_LIBRARIES)
    def test_libraries(self):
        self.use("libraries", str(TOOLKIT), capability=MOST_PTX)

    @unittest.skipUnless(LIBRARIES, NO_LIBRARIES)
    def test_the_start_of_a_library_waits_for_few_calls(self):
        used = 0  # Some open the device late.
        for library in LIBRARIES:
            with self.subTest(library=library):
                result = self.run_command(
                    self.cuspan("run", "--stats", "--", sys.executable, str(CLIENTS / "libraries_client.py"), str(TOOLKIT),
                                library), self.environment(1, CUSPAN_SOFT_CAPABILITY=MOST_PTX))
                for row in Statistics(result.stderr).rows:
                    used += 1
                    self.assertLessEqual(int(row["calls"]), 10, result.stderr)
        self.assertGreater(used, 0)
