"""Binaries of all kinds: packing and linking of the device code, and location of the CUDA runtime."""
import os

from harness import SystemTest, build, own_lines

# Programs of tests/system/programs/kinds; its CMakeLists.txt describes them.
RUNS = ("plain", "shared", "stripped", "compressed_none", "compressed_size", "compressed_speed", "compressed_balance",
        "compressed_all", "debug", "ptx_only", "several", "relocatable", "relocatable_stripped", "link_time_optimised",
        "per_thread", "needs", "needs_stripped")


def kind(name):
    return str(build() / "tests/system/programs/kinds" / name)


class Kinds(SystemTest):
    def check_pass(self, *command):
        result = self.run_command(self.cuspan("run", "--", *command))
        self.assertEqual(result.stdout, "PASS\n", result.stderr)
        self.assertEqual(own_lines(result.stderr), [])

    def test_sass_only(self):
        # A real GPU runs it; the software GPU refuses it with a reason.
        result = self.run_command(self.cuspan("run", "--", kind("sass_only")), status=1)
        self.assertIn("CUDA error 209 (cudaErrorNoKernelImageForDevice)", result.stdout)
        self.assertRegex(result.stderr, "the fat binary holds .* the software GPU runs PTX")

    def test_last_errors(self):
        for library in ("liblast_errors.so", "liblast_errors_stripped.so", "liblast_errors_shared.so"):
            with self.subTest(library=library):
                self.check_pass(kind("last_errors"), kind(library))

    def test_lazy_stubs(self):
        for name, release in (("libcudart.so.11.0", "11"), ("libcudart.so.12", "12"), ("libcudart.so.13", "13")):
            with self.subTest(name=name):
                self.check_pass(kind("lazy"), name, release)

    def test_loaded_libraries(self):
        self.check_pass(kind("loads"), *map(kind, ("libadds.so", "libadds_stripped.so", "libadds_shared.so")))


def _add_cases():
    for name in RUNS:
        def case(self, name=name):
            if name == "link_time_optimised" and not os.path.exists(kind(name)):
                self.skipTest("this toolkit does not optimise at link time")
            self.check_pass(kind(name))
        setattr(Kinds, f"test_{name}", case)


_add_cases()
