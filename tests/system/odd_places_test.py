"""Runs with a usual feature of Linux missing or refused: each prints one clear line."""
import ctypes
import os
import signal
import struct
import subprocess
import unittest

from harness import OWN_FAILURE, SystemTest, app, build, own_lines, program

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
# System call numbers of x86-64: asm/unistd_64.h.
ACCEPT4, PRLIMIT64 = 288, 302
EPERM = 1


def refuse(call):
    """Makes a system call fail with EPERM in this process and its children: seccomp(2)."""
    library = ctypes.CDLL(None, use_errno=True)
    # Loads the call's number; refuses this one, allows others: linux/bpf_common.h, linux/seccomp.h.
    code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, call, 0x06, 0, 0, 0x00050000 | EPERM, 0x06, 0, 0, 0x7fff0000)
    buffer = ctypes.create_string_buffer(code)
    filter_ = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
    if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class OddPlaces(SystemTest):
    def test_without_proc(self):
        for command in (self.cuspan("run", "--", "/bin/true"), self.cuspan("devices")):
            result = self.run_command(self.mounted('mount -t tmpfs none /proc && exec "$@"', command), status=OWN_FAILURE)
            self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
            self.assertIn("mount -t proc proc /proc", result.stderr)

    def test_no_shared_memory_for_ucx(self):
        if not (build() / "bin/cuspan-agent-ucx").exists():
            self.skipTest("cuspan was built without UCX")
        command = self.cuspan("run", "--hosts", "localhost:1", "--same-node", "never", "--relay", "ucx", "--", "/bin/true")
        result = self.run_command(self.mounted('mount -t tmpfs -o size=1m none /dev/shm && exec "$@"', command), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"/dev/shm has \d+ KiB free, and UCX needs 8 MiB: free some space there")

    def test_a_daemon_after_the_run(self):
        """A daemon started by a run is cut off at the run's end, even while it waits."""
        reading, writing = os.pipe()
        out = self.folder / "daemon"
        script = f'"$0" <&{reading} >{out} 2>&1 &'
        self.run_command(self.cuspan("run", "--", "sh", "-c", script, program("holds", "shared")), pass_fds=[reading])
        os.close(reading)
        os.write(writing, b"use 0\n")
        os.close(writing)
        self.wait_for_end("holds")
        self.assertIn("the run has ended", out.read_text(encoding="utf-8"))

    def wait_for_end(self, name):
        for pid, _ in self.processes(name):
            subprocess.run(["tail", f"--pid={pid}", "-f", "/dev/null"], check=True)

    def refused(self, call, command):
        try:
            return self.start(command, preexec_fn=lambda: refuse(call))
        except subprocess.SubprocessError:
            self.skipTest("system calls cannot be filtered here")

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of calls are those of x86-64")
    def test_no_connection_can_be_accepted(self):
        process = self.refused(ACCEPT4, self.cuspan("run", "--", "/bin/true"))
        self.assertRegex(process.stderr.readline(), r"accept4: Operation not permitted: a filter of system calls \(seccomp\)")
        process.send_signal(signal.SIGINT)
        self.ends(process)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of calls are those of x86-64")
    def test_limits_cannot_be_read(self):
        process = self.refused(PRLIMIT64, self.cuspan("run", "--", app("vector_add", "shared")))
        status, out, errors = self.ends(process)
        self.assertEqual(status, 0, errors)
        self.assertIn("PASS", out)
        self.assertNotIn("of 0 file descriptors", errors)
