"""Job control of a run: each row of the table in docs/user-guide.md."""
import os
import pty
import select
import signal
import subprocess
import time

from harness import DEADLINE_S, LOCAL, SystemTest, program, state_of, wait_until, ways


def stops():
    """A script: uses the device, prints its pid and stops itself; prints "on" when it continues, and exits with status
    5."""
    return f"{program('ends', 'static')} exit 0 && echo $$ && kill -STOP $$; echo on; exit 5"


def lives():
    """The same, but it waits for a line instead of stopping itself."""
    return f"{program('ends', 'static')} exit 0 && echo $$; read line; echo $line; exit 5"


class JobControl(SystemTest):
    def run_as_job(self, script, way=LOCAL, shell=True):
        """Starts a run as a shell with job control does, in a process group of its own; or, without a shell to continue
        a stopped job, in a session of its own. Returns the run and the pid of its program."""
        path, self.relay = way
        own = {"process_group": 0} if shell else {"start_new_session": True}
        process = self.start(self.cuspan("run", "--same-node", path, "--", "bash", "-c", script), **own)
        self.assertEqual(self.answer(process), "used")
        return process, int(self.answer(process))

    def stopped(self, *pids):
        wait_until(lambda: all(state_of(pid) == "T" for pid in pids), lambda: f"stopped: {[state_of(pid) for pid in pids]}")

    def running(self, *pids):
        wait_until(lambda: all(state_of(pid) in ("R", "S", "D") for pid in pids),
                   lambda: f"running: {[state_of(pid) for pid in pids]}")

    def ended(self, process, status, output=None):
        result, out, err = self.ends(process)
        self.assertEqual((result, err), (status, ""))
        if output is not None:
            self.assertEqual(out, output)
        self.assert_nothing_left()

    def each_way(self):
        for way in ways():
            with self.subTest(same_node=way[0], relay=way[1]):
                yield way

    # --- A program stopped by itself, with a shell around the run

    def test_continued_alone(self):
        """SIGCONT to the program: both continue."""
        for way in self.each_way():
            process, app = self.run_as_job(stops(), way)
            self.stopped(app, process.pid)
            os.kill(app, signal.SIGCONT)
            self.ended(process, 5, "on\n")

    def test_continued_by_its_launcher(self):
        """SIGCONT to cuspan: both continue."""
        process, app = self.run_as_job(stops())
        self.stopped(app, process.pid)
        process.send_signal(signal.SIGCONT)
        self.ended(process, 5, "on\n")

    def test_continued_as_a_job(self):
        """SIGCONT to the job, as sent by `fg` and `bg`."""
        process, app = self.run_as_job(stops())
        self.stopped(app, process.pid)
        os.killpg(process.pid, signal.SIGCONT)
        self.ended(process, 5, "on\n")

    def test_killed_while_it_is_stopped(self):
        """SIGKILL to the program: the run ends, and its devices are free."""
        for way in self.each_way():
            process, app = self.run_as_job(stops(), way)
            self.stopped(app, process.pid)
            os.kill(app, signal.SIGKILL)
            self.ended(process, -signal.SIGKILL)

    def test_terminated_while_it_is_stopped(self):
        """SIGTERM and SIGHUP to cuspan: the program is continued to handle it, and all ends."""
        for way in self.each_way():
            for number in (signal.SIGTERM, signal.SIGHUP):
                process, app = self.run_as_job(stops(), way)
                self.stopped(app, process.pid)
                process.send_signal(number)
                self.ended(process, -number)

    def test_stopped_again_and_again(self):
        process, app = self.run_as_job(lives())
        for _ in range(5):
            os.kill(app, signal.SIGSTOP)
            self.stopped(app, process.pid)
            os.kill(app, signal.SIGCONT)
            self.running(app, process.pid)
        self.tell(process, "that was all")
        self.ended(process, 5, "that was all\n")

    # --- Stop signals

    def test_the_job_is_stopped(self):
        """Ctrl-Z, and a program in the background reading or writing the terminal."""
        for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            process, app = self.run_as_job(lives())
            os.killpg(process.pid, number)
            self.stopped(app, process.pid)
            os.killpg(process.pid, signal.SIGCONT)
            self.running(app, process.pid)
            self.tell(process, "on")
            self.ended(process, 5, "on\n")

    def test_the_job_is_stopped_and_its_program_killed(self):
        process, app = self.run_as_job(lives())
        os.killpg(process.pid, signal.SIGTSTP)
        self.stopped(app, process.pid)
        os.kill(app, signal.SIGKILL)
        self.ended(process, -signal.SIGKILL)

    def test_the_launcher_is_told_to_stop(self):
        """cuspan passes SIGTSTP on, and stops with the program."""
        process, app = self.run_as_job(lives())
        process.send_signal(signal.SIGTSTP)
        self.stopped(app, process.pid)
        process.send_signal(signal.SIGCONT)
        self.tell(process, "on")
        self.ended(process, 5, "on\n")

    def test_a_program_that_does_not_stop(self):
        """If the program ignores SIGTSTP, cuspan does not stop either."""
        process, app = self.run_as_job("trap '' TSTP; " + lives())
        os.killpg(process.pid, signal.SIGTSTP)
        process.send_signal(signal.SIGTSTP)
        self.tell(process, "on")
        self.ended(process, 5, "on\n")
        self.assertIsNone(state_of(app))

    def test_the_launcher_alone_is_stopped(self):
        """SIGSTOP cannot be passed on: the program continues, and its end is reported when cuspan continues."""
        process, app = self.run_as_job(lives())
        process.send_signal(signal.SIGSTOP)
        self.stopped(process.pid)
        self.tell(process, "on")
        self.assertEqual(self.answer(process), "on")
        wait_until(lambda: state_of(app) in ("Z", None), "the program has ended")
        process.send_signal(signal.SIGCONT)
        self.ended(process, 5)

    # --- A run without a shell to continue it

    def test_without_a_shell_only_the_program_stops(self):
        ends = {"continued": lambda process, app: os.kill(app, signal.SIGCONT),
                "continued by its launcher": lambda process, app: process.send_signal(signal.SIGCONT),
                "killed": lambda process, app: os.kill(app, signal.SIGKILL),
                "terminated": lambda process, app: process.terminate()}
        status = {"killed": -signal.SIGKILL, "terminated": -signal.SIGTERM}
        for how, end in ends.items():
            with self.subTest(how):
                process, app = self.run_as_job(stops(), shell=False)
                self.stopped(app)
                self.running(process.pid)
                end(process, app)
                self.ended(process, status.get(how, 5))

    # --- A shell

    def test_a_shell_stops_a_run_and_lets_it_go_on(self):
        """Ctrl-Z, `jobs`, `fg` and `kill` of bash at a terminal."""
        cuspan = " ".join(self.cuspan("run", "--", "sh", "-c", "'echo begins; exec cat'"))
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], self.environment(PS1="$ ", TERM="dumb"))
        shell = Terminal(terminal)
        self.addCleanup(shell.close, pid)
        shell.type(cuspan)
        shell.expect("begins\r\n")
        shell.type("one")
        shell.expect("one\r\none")
        for word in ("two", "three"):
            shell.press("\x1a")
            shell.expect("Stopped")
            app = self.processes("cat")[0][0]
            self.stopped(app, self.processes("cuspan")[0][0])
            shell.type("fg")
            self.running(app)
            shell.type(word)
            shell.expect(f"{word}\r\n{word}")
        shell.press("\x1a")
        shell.expect("Stopped")
        shell.type("kill %1; wait; echo status $?")
        shell.expect("status ")
        wait_until(lambda: not self.processes("cuspan"), "the run has ended")
        shell.type("exit")
        os.waitpid(pid, 0)
        self.assert_nothing_left()


class Terminal:
    """Master side of a terminal."""
    def __init__(self, fd):
        self.fd, self.seen = fd, ""

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def type(self, line):
        self.press(line + "\n")

    def expect(self, text):
        end = time.monotonic() + DEADLINE_S
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            data = os.read(self.fd, 4096) if ready else b""
            if not data:
                raise AssertionError(f"{text!r} never came; what came is {self.seen!r}")
            self.seen += data.decode()
        self.seen = self.seen.partition(text)[2]

    def close(self, pid):
        os.close(self.fd)
        subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
