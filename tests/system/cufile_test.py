"""Programs of NVIDIA's cuFile, on one node and through agents. NVIDIA's library itself never runs."""
import os
import pathlib
import re
import signal
import subprocess
import unittest

import bad_input
import cufile_bad_input
from harness import KINDS, LOCAL, SystemTest, app, build, own_lines, program, ways

HEADERS = os.environ.get("CUSPAN_HEADERS", "")
WHEEL = pathlib.Path(HEADERS, "nvidia/cu13")
# Version of our own library, and of the wheel's, as cuFileGetVersion returns them.
OWN, OF_WHEEL = 1150, 1200
GROUPS = ("sizes", "writes", "buffers", "host", "batches", "streams", "vectors", "threads", "devices", "late", "growth")
# Time for a program to end; a longer wait counts as hanging.
LIMIT_S = 20


def passed(version):
    """Output of tests/apps/cufile."""
    return "\n".join([f"version {version}", *(f"{group}: 0 failures so far" for group in GROUPS), "cufile: PASS", ""])


@unittest.skipUnless(HEADERS, "tests/clients/install.sh headers.txt has not run")
class Cufile(SystemTest):
    def command(self, way, kind, *arguments, gpus="1"):
        path, self.relay = way
        return self.cuspan("run", "--gpus", gpus, "--same-node", path, "--", app("cufile", kind), str(self.folder),
                           *arguments)

    def test_all_ways(self):
        for way in ways():
            for kind in KINDS:
                with self.subTest(way=way, kind=kind):
                    result = self.run_command(self.command(way, kind, gpus="2"), self.environment(2))
                    self.assertEqual((result.stdout, own_lines(result.stderr)), (passed(OWN), []))

    def test_library_of_the_wheel_by_its_path(self):
        result = self.run_command(self.command(LOCAL, "static", str(WHEEL / "lib/libcufile.so.0")))
        self.assertEqual((result.stdout, own_lines(result.stderr)), (passed(OF_WHEEL), []))

    def test_all_names_of_the_header(self):
        text = (WHEEL / "include/cufile.h").read_text(encoding="utf-8")
        names = sorted(set(re.findall(r"\b(cuFile[A-Z]\w+) ?\(", text)) | {"cuFileDriverClose_v2"})
        self.assertEqual(len(names), 50)
        for kind, version in (("shared", OWN), ("path", OF_WHEEL)):
            with self.subTest(kind=kind):
                result = self.run_command(self.cuspan("run", "--", program("cufile_names", kind), *names))
                self.assertEqual((result.stdout, result.stderr), (f"0, version {version}\n", ""))

    def test_settings(self):
        settings = self.folder / "cufile.json"
        for text, line in (
                ("{\"properties\": {\"io_batchsize\": 64}} // as in NVIDIA's file", ""),
                ("{\"properties\": {\"io_batchsize\": 1000}}", "/properties/io_batchsize in .* has no value of its kind and range"),
                ("[", "are no JSON object: defaults are used"),
                (self.folder, "cufile.json, cannot be read"),
                (None, "cufile.json, cannot be read")):
            with self.subTest(text=text):
                if settings.is_dir():
                    settings.rmdir()
                settings.unlink(missing_ok=True)
                if text == self.folder:
                    settings.mkdir()
                elif text is not None:
                    settings.write_text(text, encoding="utf-8")
                environment = self.environment(1, CUFILE_ENV_PATH_JSON=str(settings))
                result = self.run_command(self.command(LOCAL, "shared", "libcufile.so.0", "batches"), environment)
                self.assertRegex(result.stderr, f"^(cuspan: .*{line}.*\n)$" if line else "^$")

    def test_settings_of_the_run(self):
        shown = self.run_command(self.cuspan("run", "--", "sh", "-c", 'cat "$CUFILE_ENV_PATH_JSON"')).stdout
        self.assertIn("allow_compat_mode", shown)

    def test_outside_of_a_run(self):
        libraries = {"LD_LIBRARY_PATH": str(build() / "lib/cuspan/runtime")}
        result = self.run_command([app("cufile", "static"), str(self.folder)], self.environment(1, **libraries), status=1)
        self.assertIn("CUSPAN_SOCKET and CUSPAN_SECRET are not set", result.stderr)

    def test_the_proxy_is_killed(self):
        for way in ways():
            with self.subTest(way=way):
                self.kill_leftovers()
                process = self.start(self.command(way, "shared", "libcufile.so.0", "endless"))
                self.assertRegex(self.answer(process), "version")
                self.assertEqual(self.answer(process), "at work")
                for pid, _ in self.processes("cuspan-proxy"):
                    os.kill(pid, signal.SIGKILL)
                try:
                    output, errors = process.communicate(timeout=LIMIT_S)
                except subprocess.TimeoutExpired:
                    self.fail(f"after {LIMIT_S} s there are still {self.processes()}")
                self.assertEqual(output, "ended\n", errors)
                self.assert_nothing_left()


@unittest.skipUnless(HEADERS, "tests/clients/install.sh headers.txt has not run")
class BadInput(SystemTest):
    def run_program(self, way, *arguments):
        path, self.relay = way
        command = self.cuspan("run", "--gpus", "1", "--same-node", path, "--", app("cufile_bad_input", "static"), *arguments)
        return self.run_command(command, self.environment(1)).stdout

    def test_results_are_those_of_nvidias_libraries(self):
        for way in ways():
            with self.subTest(way=way):
                self.assertEqual(cufile_bad_input.compare(self.run_program(way)), [])

    def test_differences_are_of_calls_that_are_made(self):
        native = bad_input.results(cufile_bad_input.NEW.read_text(encoding="utf-8"))
        self.assertGreater(len(native), 1500)
        for call, result in cufile_bad_input.differences().items():
            self.assertNotEqual(native.get(call, result), result, call)

    def test_nothing_ends_the_program(self):
        self.assertIn("cufile_bad_input: PASS", self.run_program(LOCAL, "--fatal"))
