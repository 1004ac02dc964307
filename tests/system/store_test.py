"""Arrays in files, read by kernels: natively on the software GPU, on one node and through agents."""
from harness import LOCAL, OWN_FAILURE, build, program, ways
from store_case import NATIVE, StoreCase, image

LINES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
RESIDENT = ("mapped", "copied")
# CUSPAN_BACKING_HOST_CACHED.
HOST_CACHED = 2

# CUSPAN_STORE_… of each call, the same at all places.
BAD = """\
a line of 256 bytes: 1
a line of 128 KiB: 1
a line of 3,000 bytes: 1
no line: 1
three lines: 1
more lines than a word can number: 1
more than the device has: 6
a device that does not exist: 1
a negative device: 1
four lines: 0
its end: 0
no place for a cache: 1
no sizes: 1
the end of no cache: 2
the end of a cache that is none: 2
a cache: 0
a path that does not exist: 5
an empty path: 1
a directory: 7
a device file: 7
a negative descriptor: 5
a descriptor for writing: 4
a closed descriptor: 5
a pipe: 7
elements of 0 bytes: 1
elements of 3 bytes: 1
elements of 1,024 bytes: 1
elements of an unknown kind: 1
a format that does not exist: 1
a backing that does not exist: 1
an offset between elements: 1
an offset behind the end: 1
an offset at the end: 0
its end: 0
five dimensions: 1
more elements than the file has: 1
a shape that overflows: 1
a shape of nothing: 0
its end: 0
no .npy file: 1
a file with a part of an element: 1
elements of another size: 1
elements of another kind: 1
big-endian elements: 7
structures: 7
objects: 7
dates: 7
Fortran's order: 7
five dimensions in a file: 7
a file that is too short: 1
a shape in a file that overflows: 1
no shape: 1
an open dictionary: 1
an open string: 1
a negative size: 1
an unknown key: 1
no element: 0
its end: 0
a scalar: 0
its end: 0
the start of a header: 1
the start of a header: 1
the start of a header: 1
the start of a header: 1
no place for an array: 1
no file: 1
no cache: 2
an array: 0
no place for a view: 1
no place for statistics: 1
the end of a cache in use: 1
the end of an array: 0
the end of it again: 2
a closed array's view: 2
a closed array's check: 2
a closed array's statistics: 2
the end of a cache: 0
an array in a cache that has ended: 2
store bad: PASS
"""

CHANGES = """\
nothing: 0
truncated: 2
longer: 2
another time: 2
another mode: 2
unlinked: 2
store changes: PASS
"""

RESETS = """\
a check after a reset: 6
a close after a reset: 2
the cache's end after a reset: 0
a check after a reset: 6
store resets: PASS
"""


class Store(StoreCase):
    def test_reads(self):
        for i, line in enumerate(LINES):
            # Each place has some of the sizes, and all sizes have a place.
            places = self.places()
            for place in (places[i % len(places)], places[(i + 1) % len(places)]):
                with self.subTest(place=place, line=line):
                    resident = RESIDENT[i // 2 % 2]
                    self.assert_passes(self.run_store(place, "reads", self.folder, line, CUSPAN_FILE_RESIDENT=resident),
                                       "store reads: PASS\n")

    def test_backings(self):
        for place in self.places():
            for resident in RESIDENT:
                with self.subTest(place=place, resident=resident):
                    self.assert_passes(self.run_store(place, "backings", self.folder, CUSPAN_FILE_RESIDENT=resident),
                                       "store backings: PASS\n")

    def test_files_of_numpy(self):
        for place in self.places():
            for file_root in (True, False):
                with self.subTest(place=place, file_root=file_root):
                    self.assert_passes(self.run_store(place, "npy", self.folder, file_root=file_root),
                                       "store npy: PASS\n")

    def test_bad_calls(self):
        for place in self.places():
            for file_root in (True, False):
                with self.subTest(place=place, file_root=file_root):
                    self.assert_passes(self.run_store(place, "bad", self.folder, file_root=file_root), BAD)

    def test_files_that_change(self):
        for place in self.places():
            for file_root in (True, False):
                with self.subTest(place=place, file_root=file_root):
                    self.assert_passes(self.run_store(place, "changes", self.folder, file_root=file_root), CHANGES)

    def test_resets_of_the_device(self):
        for place in ways():
            with self.subTest(place=place):
                self.assert_passes(self.run_store(place, "resets", self.folder), RESETS)

    def test_growth(self):
        for place in self.places():
            with self.subTest(place=place):
                self.assert_passes(self.run_store(place, "growth", self.folder, 200), "store growth: PASS\n")

    def sum_of(self, place, words, **variables):
        """The line printed about a file of `words` words."""
        path = self.folder / "words"
        path.write_bytes(b"".join(i.to_bytes(4, "little") for i in range(words)))
        return self.run_store(place, "sum", path, 4096, 65536, HOST_CACHED, **variables)

    def test_settings(self):
        total = sum(range(65536))
        for place in (NATIVE, LOCAL):
            for variables, copied in (({"CUSPAN_FILE_RESIDENT": "mapped"}, 0),
                                      ({"CUSPAN_FILE_RESIDENT": "copied"}, 1),
                                      ({"CUSPAN_FILE_MEMORY": "256K"}, 1),
                                      # The software GPU can not page-lock files.
                                      ({"CUSPAN_FILE_RESIDENT": "auto"}, 1)):
                with self.subTest(place=place, **variables):
                    result = self.sum_of(place, 65536, **variables)
                    self.assert_passes(result, f"sum {total}, backing 2, copied {copied}\nstore sum: PASS\n")
            with self.subTest(place=place, resident="off"):
                result = self.sum_of(place, 65536, status=1, CUSPAN_FILE_RESIDENT="off")
                self.assertIn("CUSPAN_FILE_RESIDENT=off: no bytes of files are page-locked", result.stderr)

    def test_too_little_memory_for_files(self):
        for place in (NATIVE, LOCAL):
            with self.subTest(place=place):
                result = self.sum_of(place, 65536, status=1, CUSPAN_FILE_MEMORY="255K")
                self.assertIn("a file of 262144 bytes does not fit into the 261120 bytes for files", result.stderr)

    def test_a_wrong_setting_of_the_run(self):
        result = self.run_command(self.cuspan("run", "--file-memory", "much", "--", "true"), status=OWN_FAILURE)
        self.assertEqual(result.stderr, "cuspan: --file-memory much: write a size such as 40G, or auto\n")

    def test_option_for_the_memory(self):
        path = self.folder / "words"
        path.write_bytes(bytes(1 << 20))
        command = [program("store", "store"), image(), "sum", str(path), "4096", "65536", str(HOST_CACHED)]
        for size, status in (("1M", 0), ("1023K", 1)):
            with self.subTest(size=size):
                self.run_command(self.cuspan("run", "--file-memory", size, "--", *command), status=status)

    def test_files_of_functions_outside_of_runs(self):
        environment = self.environment(1, LD_LIBRARY_PATH=f"{build()}/lib:{build()}/lib/cuspan/soft")
        script = ("import ctypes\nlibrary = ctypes.CDLL('libcuspan-store.so.0')\n"
                  "library.cuspanFileLastMessage.restype = ctypes.c_char_p\n"
                  "print(library.cuspanFileOpenFd(None, 0, 0), library.cuspanFileLastMessage().decode())")
        result = self.run_command(["python3", "-c", script], environment)
        self.assertEqual(result.stdout, "7 files of cuspan/file.h need a run: start the program by cuspan run\n")
