"""A program belongs to its run after any change to its environment by the process starting it."""
import os
import sys
import unittest

from harness import SystemTest, app, build, own_lines

# Ways for a program of the run to start another one; it prints PASS. {} is its path.
PYTHON = sys.executable
COMMANDS = {
    "no environment": ["env", "-i", "{}"],
    "no preload": ["env", "-u", "LD_PRELOAD", "{}"],
    "another preload": ["env", "LD_PRELOAD=libm.so.6", "{}"],
    "another path": ["env", "LD_LIBRARY_PATH=/nowhere", "{}"],
    "neither": ["env", "-u", "LD_PRELOAD", "-u", "LD_LIBRARY_PATH", "{}"],
    "no secret": ["env", "-u", "CUSPAN_SECRET", "{}"],
    "in the shell": ["sh", "-c", "unset LD_PRELOAD CUSPAN_SOCKET; LD_LIBRARY_PATH=/nowhere {}"],
    "twice": ["env", "-i", "sh", "-c", "env -i {}"],
    "subprocess": [PYTHON, "-c", "import subprocess; subprocess.run(['{}'], env={{}}, check=True)"],
    "in a new session": [PYTHON, "-c", "import subprocess; subprocess.run(['{}'], env={{}}, check=True, "
                         "start_new_session=True)"],
    "posix_spawn": [PYTHON, "-c", "import os; os.waitpid(os.posix_spawn('{}', ['{}'], {{}}), 0)"],
    "execve": [PYTHON, "-c", "import os; os.execve('{}', ['{}'], {{'A': 'b'}})"],
    "fexecve": [PYTHON, "-c", "import os; os.execve(os.open('{}', os.O_RDONLY), ['{}'], {{}})"],
    "execvpe": [PYTHON, "-c", "import os; os.execvpe('{}', ['{}'], {{}})"],
    "its own, cleared": [PYTHON, "-c", "import os; os.environ.clear(); os.execv('{}', ['{}'])"],
    "a large one": [PYTHON, "-c", "import os; os.execve('{}', ['{}'], {{f'V{{i}}': 'x' * 100 for i in range(5000)}})"],
}
PROGRAMS = {"static": ("vector_add", "static"), "shared": ("vector_add", "shared"), "driver": ("driver_launches", "static")}


class Environments(SystemTest):
    def check(self, name, program):
        path = app(*program)
        command = [word.format(path, path) for word in COMMANDS[name]]
        result = self.run_command(self.cuspan("run", "--", *command))
        self.assertIn("PASS", result.stdout, result.stderr)
        self.assertEqual(own_lines(result.stderr), [])

    def test_what_was_set_is_kept(self):
        shown = self.run_command(self.cuspan("run", "--", "env", "LD_PRELOAD=libm.so.6", "LD_LIBRARY_PATH=/nowhere", "env"))
        variables = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
        library = build() / "lib/cuspan"
        self.assertEqual(variables["LD_PRELOAD"], f"{library / 'libcuspan.so'}:libm.so.6")
        self.assertEqual(variables["LD_LIBRARY_PATH"], f"{library / 'runtime'}:/nowhere")

    def test_settings_of_the_run_come_back(self):
        shown = self.run_command(self.cuspan("run", "--strict", "--", "env", "-i", "A=1", "env"))
        names = {line.partition("=")[0] for line in shown.stdout.splitlines()}
        self.assertLessEqual({"A", "CUSPAN_STRICT", "CUSPAN_SOCKET", "CUSPAN_SECRET", "LD_PRELOAD", "LD_LIBRARY_PATH"}, names)
        # Settings in the program's own environment are kept.
        shown = self.run_command(self.cuspan("run", "--strict", "--", "env", "-i", "CUSPAN_STRICT=off", "env"))
        self.assertIn("CUSPAN_STRICT=off\n", shown.stdout)
        self.assertNotIn("CUSPAN_STRICT=on\n", shown.stdout)

    def test_a_process_that_clears_its_environment_uses_the_devices(self):
        code = ("import os, ctypes; os.environ.clear(); "
                "print(ctypes.CDLL('libcuda.so.1').cuInit(0))")
        self.assertEqual(self.run_command(self.cuspan("run", "--", PYTHON, "-c", code)).stdout, "0\n")

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_another_user_gets_nothing(self):
        code = "import os; os.setgid(65534); os.setuid(65534); os.execve('/usr/bin/env', ['env'], {'A': 'b'})"
        self.assertEqual(self.run_command(self.cuspan("run", "--", PYTHON, "-c", code)).stdout, "A=b\n")

    def test_a_process_can_leave_the_run(self):
        """CUSPAN_SOCKET is empty: nothing is added to the environment."""
        shown = self.run_command(self.cuspan("run", "--", "env", "-i", "CUSPAN_SOCKET=", "env"))
        self.assertEqual(shown.stdout, "CUSPAN_SOCKET=\n")


class DroppedPreload(SystemTest):
    """A process without the library, for example a static one, starts programs with all of its environment except
    LD_PRELOAD."""
    SOURCE = """
    #include <string.h>
    #include <unistd.h>
    int main(int count, char** words, char** environment) {
      char* kept[1000] = {0};
      for (int i = 0, n = 0; environment[i] != 0 && n < 999; ++i)
        if (strncmp(environment[i], "LD_PRELOAD=", 11) != 0) kept[n++] = environment[i];
      return count > 1 ? execve(words[1], words + 1, kept) : 1;
    }
    """

    def starts(self, *command, status=0):
        source = self.folder / "starts.c"
        source.write_text(self.SOURCE, encoding="utf-8")
        self.run_command(["gcc", "-static", str(source), "-o", str(self.folder / "starts")])
        return self.run_command(self.cuspan("run", "--", str(self.folder / "starts"), *command), status=status)

    def test_a_shared_runtime(self):
        self.assertIn("PASS", self.starts(app("vector_add", "shared")).stdout)

    def test_the_driver_by_name(self):
        code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
        self.assertEqual(self.starts(PYTHON, "-c", code).stdout, "0\n")

    def test_management_by_name(self):
        code = "import ctypes; print(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
        self.assertEqual(self.starts(PYTHON, "-c", code).stdout, "0\n")

    def test_a_static_runtime_hears_why(self):
        result = self.starts(app("vector_add", "static"), status=None)
        self.assertRegex(result.stderr, r"cuspan: .*/vector_add ran before cuspan's library was loaded, because a parent process")


class AddressSanitizer(SystemTest):
    """Programs compiled with -fsanitize=address; the sanitizer's runtime must be the first library of the process."""
    SOURCE = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char** argv) {
      void* driver = dlopen("libcuda.so.1", RTLD_NOW);
      int (*init)(unsigned) = driver != NULL ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
      printf("cuInit: %d\\n", init != NULL ? init(0) : -1);
      fflush(stdout);
      char* memory = malloc(4);
      memory[argc > 1 ? 4 : 0] = 1;
      free(memory);
      return 0;
    }
    """

    def built(self, *flags):
        source = self.folder / "program.c"
        source.write_text(self.SOURCE, encoding="utf-8")
        self.run_command(["gcc", "-g", *flags, str(source), "-o", str(self.folder / "program"), "-ldl"])
        return str(self.folder / "program")

    def test_it_runs_and_still_finds_errors(self):
        for flags in (["-fsanitize=address"], ["-fsanitize=address", "-static-libasan"], ["-fsanitize=undefined"],
                      ["-fsanitize=leak"]):
            program = self.built(*flags)
            with self.subTest(flags=flags):
                for command in ([program], ["sh", "-c", program], ["env", "-i", program]):
                    result = self.run_command(self.cuspan("run", "--", *command), self.environment(ASAN_OPTIONS="detect_leaks=0"))
                    self.assertEqual((result.stdout, own_lines(result.stderr)), ("cuInit: 0\n", []))
                if "address" in flags[0]:
                    result = self.run_command(self.cuspan("run", "--", program, "beyond"), status=None)
                    self.assertIn("heap-buffer-overflow", result.stderr)


def _add_cases():
    for name in COMMANDS:
        for kind, program in PROGRAMS.items():
            def case(self, name=name, program=program):
                self.check(name, program)
            setattr(Environments, f"test_{name.replace(' ', '_').replace(',', '')}_{kind}", case)


_add_cases()
