"""Arrays in files whose lines are read when kernels ask for them, in all places and by both ways of reading."""
import ctypes
import struct

from harness import LOCAL
from store_case import NATIVE, StoreCase

# The system calls of io_uring on x86-64 (linux/unistd.h), and what a filter of seccomp needs (linux/seccomp.h).
IO_URING_SETUP = 425
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7fff0000
SECCOMP_RET_ERRNO = 0x00050000
EPERM = 1


def forbid_io_uring():
    """Lets io_uring_setup fail with EPERM in this process and its children, as container engines do."""
    def instruction(code, jump_true, jump_false, value):
        return struct.pack("HBBI", code, jump_true, jump_false, value)
    program = b"".join((instruction(0x20, 0, 0, 0),  # The number of the system call.
                        instruction(0x15, 0, 1, IO_URING_SETUP),
                        instruction(0x06, 0, 0, SECCOMP_RET_ERRNO | EPERM),
                        instruction(0x06, 0, 0, SECCOMP_RET_ALLOW)))
    code = ctypes.create_string_buffer(program)
    filter_program = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


class Served(StoreCase):
    def passes(self, place, test, *arguments, **variables):
        with self.subTest(place=place, test=test, arguments=arguments, **variables):
            self.assert_passes(self.run_store(place, test, self.folder, *arguments, **variables),
                               f"store {test}: PASS\n")

    def test_lines_of_all_sizes(self):
        for i, line in enumerate((512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)):
            places = self.places()
            self.passes(places[i % len(places)], "served", line, CUSPAN_FILE_RESIDENT="off")
            self.passes(places[(i + 1) % len(places)], "served", line)

    def test_both_ways_of_reading(self):
        for way in ("uring", "pread"):
            for threads in ("1", "16"):
                self.passes(NATIVE, "served", 4096, CUSPAN_FILE_IO=way, CUSPAN_STORE_THREADS=threads)
            for place in self.places():
                self.passes(place, "cold", 4096, CUSPAN_FILE_IO=way)

    def test_files_that_become_resident(self):
        for place in self.places():
            self.passes(place, "resident", 4096, CUSPAN_FILE_RESIDENT="mapped")
        self.passes(LOCAL, "resident", 65536, CUSPAN_FILE_RESIDENT="copied")
        self.passes(LOCAL, "resident", 512)

    def test_too_little_memory_for_files(self):
        for place in self.places():
            self.passes(place, "served", 4096, CUSPAN_FILE_MEMORY="2M")

    def test_io_uring_forbidden(self):
        for place in self.places():
            with self.subTest(place=place):
                result = self.run_store(place, "cold", self.folder, 4096, preexec_fn=forbid_io_uring)
                self.assert_passes(result, "store cold: PASS\n")
        result = self.run_store(NATIVE, "cold", self.folder, 4096, preexec_fn=forbid_io_uring, CUSPAN_FILE_IO="uring")
        self.assertIn("io_uring can not be used: Operation not permitted: files are read by threads", result.stderr)

    def test_wrong_settings(self):
        for name, value, message in (("CUSPAN_FILE_IO", "fast", "CUSPAN_FILE_IO=fast is not auto, uring or pread"),
                                     ("CUSPAN_STORE_THREADS", "0", "CUSPAN_STORE_THREADS"),
                                     ("CUSPAN_STORE_THREADS", "many", "CUSPAN_STORE_THREADS")):
            with self.subTest(name=name, value=value):
                result = self.run_store(NATIVE, "cold", self.folder, 4096, **{name: value})
                self.assertIn(message, result.stderr)

    def test_truncated_files(self):
        for place in self.places():
            for line in (512, 65536):
                with self.subTest(place=place, line=line):
                    result = self.run_store(place, "damaged", self.folder, line, CUSPAN_FILE_RESIDENT="off")
                    self.assertTrue(result.stdout.startswith("check: 2\n"), result.stdout)
                    self.assertIn("has changed since it was opened", result.stdout)
                    self.assertTrue(result.stdout.endswith("store damaged: PASS\n"), result.stdout)
