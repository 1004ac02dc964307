"""The program is undisturbed: its terminal, input, output, status, signals and children are its own."""
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from harness import DEADLINE_S, KINDS, SystemTest, app, own_lines, program, state_of, wait_until

# The only changes visible to a program.
OUR_VARIABLES = {"CUFILE_ENV_PATH_JSON", "LD_PRELOAD", "LD_LIBRARY_PATH", "CUSPAN_SOCKET", "CUSPAN_SECRET"}
OUR_FIRST_DESCRIPTOR = 500
# Signals 32 and 33 are used by the C library once a process has created a thread.
C_LIBRARY_SIGNALS = 1 << 31 | 1 << 32


class Filters(SystemTest):
    """Programs between pipes."""

    def test_100000_lines(self):
        lines = "".join(f"line {i} of the input, with letters\n" for i in range(100_000))
        for kind in KINDS:
            with self.subTest(kind=kind):
                result = self.run_command(self.cuspan("run", "--", app("filter", kind)), input=lines)
                self.assertEqual(result.stdout, lines.upper())
                self.assertEqual(own_lines(result.stderr), [])
                self.assertIn("100000 lines", result.stderr)

    def test_100000_lines_through_mpirun(self):
        lines = "".join(f"line {i} of the input, with letters\n" for i in range(100_000))
        result = self.run_command(self.mpirun(1, "agents", [app("filter", "static")]), input=lines)
        self.assertEqual(result.stdout, lines.upper())

    def test_bytes_that_are_no_text(self):
        data = bytes(range(256)) * 1000
        result = subprocess.run(self.cuspan("run", "--", app("filter", "shared")), env=self.environment(), input=data,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, data.upper())

    def test_piped_into_head(self):
        run = " ".join(self.cuspan("run", "--", app("filter", "shared")))
        script = f"yes 'some line' | {run} | head -n 3; echo status ${{PIPESTATUS[1]}} > status"
        result = self.run_command(["bash", "-c", script])
        self.assertEqual(result.stdout, "SOME LINE\n" * 3)
        self.assertEqual(own_lines(result.stderr), [])
        # SIGPIPE ends it, as without cuspan.
        self.assertEqual((self.folder / "status").read_text(), f"status {128 + signal.SIGPIPE}\n")
        self.assert_nothing_left()

    def test_closed_input_and_output(self):
        run = " ".join(self.cuspan("run", "--", program("ends", "shared"), "exit", "4"))
        self.run_command(["bash", "-c", f"{run} <&- >&- 2>&-; test $? = 4"])
        self.assert_nothing_left()

    def test_output_in_its_order(self):
        """Both streams in one pipe: cuspan neither adds output nor delays any."""
        run = " ".join(self.cuspan("run", "--", "sh", "-c", "'echo 1; echo 2 >&2; echo 3; echo 4 >&2'"))
        self.assertEqual(self.run_command(["sh", "-c", f"{run} 2>&1"]).stdout, "1\n2\n3\n4\n")


class Ends(SystemTest):
    """cuspan ends in the same way as the program."""

    def check(self, arguments, status):
        for kind in KINDS:
            with self.subTest(kind=kind):
                result = self.run_command(self.cuspan("run", "--", program("ends", kind), *arguments), status=status)
                self.assertIn("used\n", result.stdout)
                self.assertEqual(own_lines(result.stderr), [])
                self.assert_nothing_left()

    def test_exit(self):
        for status in (0, 1, 77, 255):
            self.check(["exit", str(status)], status)

    def test_underscore_exit(self):
        self.check(["_exit", "5"], 5)

    def test_quick_exit(self):
        self.check(["quick_exit", "6"], 6)

    def test_abort(self):
        self.check(["abort"], -signal.SIGABRT)

    def test_segmentation_fault(self):
        self.check(["segv"], -signal.SIGSEGV)

    def test_killed_by_itself(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.check(["kill", str(int(number))], -number)

    def test_exec(self):
        self.check(["exec", "9"], 9)

    def test_exit_while_a_thread_works(self):
        self.check(["thread", "8"], 8)

    def test_through_mpirun(self):
        for how, status in ((["exit", "3"], 3), (["_exit", "5"], 5)):
            self.run_command(self.mpirun(1, "same-node", [program("ends", "static"), *how]), status=status)

    def test_never_uses_cuda(self):
        for kind in KINDS:
            result = self.run_command(self.cuspan("run", "--", app("never_cuda", kind), "a b", "", "--"))
            self.assertIn("argument 1: a b\nargument 2: \nargument 3: --\n", result.stdout)
            self.assertEqual(result.stderr, "")

    def test_no_cuda_program_at_all(self):
        result = self.run_command(self.cuspan("run", "--", "sh", "-c", "cat; exit 12"), input="through\n", status=12)
        self.assertEqual((result.stdout, result.stderr), ("through\n", ""))


class Signals(SystemTest):
    """Signals sent to cuspan reach the program."""

    def test_they_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            script = f"trap 'echo got {int(number)}; exit 3' {int(number)}; echo ready; while :; do sleep 0.05; done"
            process = self.start(self.cuspan("run", "--", "bash", "-c", script))
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(number)
            self.assertEqual(self.ends(process)[:2], (3, f"got {int(number)}\n"))

    def test_ignored_signals_stay_ignored(self):
        run = " ".join(self.cuspan("run", "--", program("inspect", "shared"), "cuda"))
        result = self.run_command(["sh", "-c", f"trap '' HUP; {run}"])
        ignored = int(re.search(r"SigIgn:\s*(\w+)", result.stdout).group(1), 16)
        self.assertTrue(ignored >> (signal.SIGHUP - 1) & 1)


class Sight(SystemTest):
    """Only the documented changes are visible to the program."""

    def inspect(self, command):
        seen = {"variable": {}, "descriptor": set(), "signals": set()}
        for line in self.run_command(command, pass_fds=self.passed).stdout.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "variable":
                name, _, value = rest.partition("=")
                seen["variable"][name] = value
            elif kind == "descriptor":
                seen["descriptor"].add(int(rest))
            elif kind == "signals":
                mask, value = rest.split()
                seen["signals"].add((mask, int(value, 16) & ~C_LIBRARY_SIGNALS))
            else:
                seen[kind] = rest
        return seen

    def check(self, launch, kind, cuda):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        self.passed = (read_end, write_end)
        alone = self.inspect([program("inspect", kind)])
        with_us = self.inspect(launch([program("inspect", kind), *(["cuda"] if cuda else [])]))
        new = {name for name in with_us["variable"] if name not in alone["variable"]}
        self.assertLessEqual(new, OUR_VARIABLES)
        self.assertEqual({name for name in alone["variable"] if name not in with_us["variable"]}, set())
        changed = {name for name, value in alone["variable"].items() if with_us["variable"][name] != value}
        self.assertLessEqual(changed, OUR_VARIABLES)
        self.assertEqual({fd for fd in with_us["descriptor"] if fd < OUR_FIRST_DESCRIPTOR},
                         {fd for fd in alone["descriptor"] if fd < OUR_FIRST_DESCRIPTOR})
        self.assertEqual(with_us["signals"], alone["signals"])
        self.assertEqual(with_us["children"], "none")
        return with_us

    def test_through_cuspan_run(self):
        for kind in KINDS:
            for cuda in (False, True):
                for path in ("auto", "never"):
                    with self.subTest(kind=kind, cuda=cuda, path=path):
                        seen = self.check(lambda command, path=path: self.cuspan("run", "--same-node", path, "--", *command),
                                          kind, cuda)
                        # The terminal's signals reach both the program and cuspan.
                        self.assertEqual((seen["group"], seen["session"]), ("1", "1"))

    def test_variables_through_mpirun(self):
        result = self.run_command(self.mpirun(1, "agents", ["env", "-0"]))
        names = {line.partition("=")[0] for line in result.stdout.split("\0") if line}
        self.assertEqual({name for name in names if re.match("OMPI_(?!ALLOW)|PMIX_|PRTE_|ORTE_", name)}, set())
        # The harness requests statistics; this sets CUSPAN_STATS.
        self.assertLessEqual({name for name in names if name.startswith("CUSPAN_")},
                             OUR_VARIABLES | set(self.environment()) | {"CUSPAN_STATS"})

    def test_the_users_own_settings_are_kept(self):
        environment = self.environment(LD_PRELOAD="libm.so.6", LD_LIBRARY_PATH="/nowhere/one:/nowhere/two")
        result = self.run_command(self.cuspan("run", "--", "env"), environment)
        variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        self.assertEqual(variables["LD_PRELOAD"].split(":")[-1], "libm.so.6")
        self.assertTrue(variables["LD_LIBRARY_PATH"].endswith(":/nowhere/one:/nowhere/two"))

    def test_runs_inside_runs(self):
        """The inner run has its own devices, and none of the outer run's settings."""
        result = self.run_command(self.cuspan("run", "--", *self.cuspan("run", "--", "env")))
        variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        self.assertEqual(variables["LD_PRELOAD"].count("libcuspan.so"), 1)
        self.run_command(self.cuspan("run", "--", *self.cuspan("run", "--", app("vector_add", "static"))))
        self.assert_nothing_left()


class Children(SystemTest):
    """Programs starting programs."""

    def test_forks_and_waits_for_all(self):
        for kind in KINDS:
            for path in ("auto", "never"):
                with self.subTest(kind=kind, path=path):
                    result = self.run_command(self.cuspan("run", "--same-node", path, "--", program("forks", kind)))
                    self.assertIn("PASS", result.stdout)
        self.assert_nothing_left()

    def test_a_script_runs_programs_in_turn_and_at_once(self):
        script = self.folder / "script.sh"
        script.write_text("#!/bin/sh\n"
                          f"{app('vector_add', 'shared')} || exit 1\n"
                          f"{app('reduction', 'static')} || exit 2\n"
                          f"{app('vector_add', 'static')} & first=$!\n"
                          f"{app('matmul', 'shared')} & second=$!\n"
                          "wait $first || exit 3\nwait $second || exit 4\necho all done\n", encoding="utf-8")
        script.chmod(0o755)
        for path in ("auto", "never"):
            with self.subTest(path=path):
                result = self.run_command(self.cuspan("run", "--gpus", "2", "--same-node", path, "--", str(script)),
                                          self.environment(2))
                self.assertEqual(result.stdout.count("PASS"), 4)
                self.assertTrue(result.stdout.endswith("all done\n"))
        self.assert_nothing_left()

    def test_a_background_child_outlives_the_program(self):
        """Like in a shell, the run ends with the program it started; its devices are then gone."""
        result = self.run_command(self.cuspan("run", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"))
        # The child may not be sleeping yet.
        self.assertIn(state_of(int(result.stdout)), ("R", "S", "D"), "a child that is no affair of ours was ended")
        os.kill(int(result.stdout), signal.SIGKILL)
        self.assert_nothing_left()

    def test_mpirun_by_system(self):
        for launch in (lambda command: self.cuspan("run", "--", *command),
                       lambda command: self.cuspan("run", "--same-node", "never", "--", *command),
                       lambda command: self.mpirun(1, "agents", command)):
            result = self.run_command(launch([program("runs_mpirun", "static")]))
            for line in ("before: PASS", "rank 0 of 2: PASS", "rank 1 of 2: PASS", "mpirun: 0, after: PASS"):
                self.assertIn(line, result.stdout)


class Terminal(SystemTest):
    """An interactive program at a terminal."""

    def open(self, *arguments):
        return self.open_command(program("terminal", "static"), *arguments)

    def open_command(self, *command):
        """Starts a command in the foreground of its own terminal, like a terminal window."""
        self.master, slave = pty.openpty()
        self.addCleanup(self.hang_up)
        self.seen = ""

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(self.cuspan("run", "--", *command), env=self.environment(), stdin=slave,
                                   stdout=slave, stderr=slave, preexec_fn=take_terminal)
        os.close(slave)
        self.addCleanup(self.finish, process)
        return process

    def expect(self, text):
        """Reads the terminal until `text` appears; returns the output before it."""
        end = time.monotonic() + DEADLINE_S
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            try:
                data = os.read(self.master, 4096) if ready else b""
            except OSError:  # The terminal is closed.
                data = b""
            if not data:
                self.fail(f"{text!r} never came; what came is {self.seen!r}")
            self.seen += data.decode()
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.master, text.encode())

    def hang_up(self):
        if self.master is not None:
            os.close(self.master)
        self.master = None

    def ended(self, process):
        wait_until(lambda: process.poll() is not None, "the program ends")
        return process.returncode

    def test_all_three_are_terminals(self):
        process = self.open()
        self.expect("terminals: 1 1 1")
        self.expect("foreground: 1")
        self.expect("device: PASS")
        self.expect("ready")
        self.type("35\n")
        self.expect("answer 42 cudaSuccess")
        self.type("\x04")  # Ctrl-D
        self.expect("end of input")
        self.assertEqual(self.ended(process), 0)
        self.assert_nothing_left()

    def test_control_c_ends_it(self):
        process = self.open()
        self.expect("ready")
        self.type("\x03")
        self.assertEqual(self.ended(process), -signal.SIGINT)
        self.assert_nothing_left()

    def test_control_c_is_the_programs(self):
        process = self.open("catch")
        self.expect("ready")
        for count in (1, 2):
            self.type("\x03")
            self.expect(f"interrupted {count}, device: PASS")
        self.type("1\n")
        self.expect("answer 8 cudaSuccess")
        self.type("\x04")
        self.expect("end of input")
        self.assertEqual(self.ended(process), 0)
        self.assert_nothing_left()

    def test_control_backslash(self):
        process = self.open()
        self.expect("ready")
        self.type("\x1c")
        self.assertEqual(self.ended(process), -signal.SIGQUIT)

    def test_hang_up(self):
        """The kernel signals only the leader of the session; without cuspan this is the program."""
        process = self.open_command("sh", "-c", "echo ready; exec sleep 600")
        self.expect("ready")
        self.hang_up()
        self.assertEqual(self.ended(process), -signal.SIGHUP)
        self.assert_nothing_left()

    def test_stopped_without_a_shell(self):
        process = self.open()
        self.expect("ready")
        app_pid = wait_until(lambda: self.processes("terminal"), "the program is there")[0][0]
        # Without a shell to continue cuspan, only the program stops.
        os.kill(app_pid, signal.SIGSTOP)
        wait_until(lambda: state_of(app_pid) == "T", "the program is stopped")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: state_of(app_pid) not in ("T", None), "the program goes on with cuspan")
        self.type("1\n")
        self.expect("answer 8 cudaSuccess")
        self.type("\x04")
        self.expect("end of input")
        self.assertEqual(self.ended(process), 0)
