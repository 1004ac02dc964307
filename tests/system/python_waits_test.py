"""Source lines of a Python program waiting for its GPUs."""
import re
import sys

from harness import SystemTest

# Copies from a device by calls releasing Python's lock (GIL), or keeping it.
PROGRAM = """
import ctypes, os
BYTES = 32 << 20
place, there = ctypes.create_string_buffer(BYTES), ctypes.c_void_p()
copy = place, there, ctypes.c_size_t(BYTES), 2
giving_up, keeping = ctypes.CDLL("libcudart.so.13"), ctypes.PyDLL("libcudart.so.13")
assert giving_up.cudaMalloc(ctypes.byref(there), ctypes.c_size_t(BYTES)) == 0
def gives_up():
    assert giving_up.cudaMemcpy(*copy) == 0
def keeps():
    assert keeping.cudaMemcpy(*copy) == 0
for _ in range(40):
    gives_up()
    keeps()
threads = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print("samplers", threads.count("cuspan-python\\n"))
"""

# Ends while the sampling thread may be active, once in a forked child and once in its parent.
ENDING = """
import ctypes, os, threading
cuda = ctypes.CDLL("libcudart.so.13")
place, there = ctypes.create_string_buffer(1 << 20), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(there), ctypes.c_size_t(1 << 20)) == 0
def copy():
    while True:
        cuda.cudaMemcpy(place, there, ctypes.c_size_t(1 << 20), 2)
threading.Thread(target=copy, daemon=True).start()
threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()
child = os.fork()
if child != 0:
    assert os.waitpid(child, 0)[1] == 0
    print("ends")
"""


class PythonWaits(SystemTest):
    def run_program(self, text, *options):
        return self.run_command(self.cuspan("run", *options, "--", sys.executable, "-c", text), self.environment(1))

    def test_lines_and_times(self):
        for path in ("auto", "never"):
            with self.subTest(path=path):
                result = self.run_program(PROGRAM, "--stats", "--same-node", path)
                self.assertEqual(result.stdout, "samplers 1\n")
                waits = re.search("^session 1 device 0, waited on: (.*)$", result.stderr, re.MULTILINE)
                self.assertIsNotNone(waits, result.stderr)
                seconds = {line: float(time) for line, time in re.findall(r"(<string>:\d+ \(\w+\)) ([0-9]+\.[0-9]{3}) s", waits[1])}
                for line in ("<string>:9 (gives_up)", "<string>:11 (keeps)"):
                    self.assertGreater(seconds.get(line, 0), 0, waits[1])
                self.assert_nothing_left()

    def test_nobody_asks_without_statistics(self):
        self.assertEqual(self.run_program(PROGRAM).stdout, "samplers 0\n")

    def test_the_program_ends_while_it_is_asked(self):
        for _ in range(10):
            self.assertEqual(self.run_program(ENDING, "--stats").stdout, "ends\n")
        self.assert_nothing_left()
