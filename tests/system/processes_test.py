"""Resources left by a program's own processes and threads."""
import sys

from harness import SystemTest, own_lines, program

RESETS = 28

# Counts the sockets opened by CUDA in a process and in its child.
FORKS = """
import ctypes, os, sys
def sockets():
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if os.path.islink(link) and "socket:" in os.readlink(link)}
before = sockets()
version = ctypes.c_int()
cuda = ctypes.CDLL("libcuda.so.1")
if sys.argv[1] == "cuda":
    assert cuda.cuDriverGetVersion(ctypes.byref(version)) == 0
if sys.argv[1] == "init":
    assert cuda.cuInit(0) == 0
if sys.argv[1] == "nvml":
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    handle, celsius = ctypes.c_void_p(), ctypes.c_uint()
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(celsius))
print("parent", len(sockets() - before), flush=True)
if os.fork() == 0:
    print("child", len(sockets() - before), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
assert cuda.cuInit(0) == 0
"""


# Closes the driver library and calls it, like Open MPI's CUDA support at its end.
CLOSED = """
import _ctypes, ctypes
cuda = ctypes.CDLL("libcuda.so.1")
init, get_count, count = cuda.cuInit, cuda.cuDeviceGetCount, ctypes.c_int()
_ctypes.dlclose(cuda._handle)
print(init(0), get_count(ctypes.byref(count)), count.value)
"""


class Processes(SystemTest):
    def test_a_library_that_was_closed_still_answers(self):
        result = self.run_command(self.cuspan("run", "--", sys.executable, "-c", CLOSED))
        self.assertEqual(result.stdout, "0 0 1\n")

    def test_event_of_a_process_that_ends(self):
        """A wait for the event ends, even before the process is reaped, and the event can be recorded again."""
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--", program("shared_event_ends", "shared"))
                result = self.run_command(command)
                self.assertEqual(result.stdout, "PASS\n")
                # The software GPU may also print a line about the running kernel.
                self.assertRegex(own_lines(result.stderr)[0], "^cuspan: process [0-9]+ exited before an event")
        self.assert_nothing_left()

    def test_a_forked_child_holds_nothing_of_its_parents(self):
        for use in ("cuda", "init", "nvml"):
            with self.subTest(use=use):
                result = self.run_command(self.cuspan("run", "--", sys.executable, "-c", FORKS, use))
                self.assertEqual(result.stdout, "parent 1\nchild 0\n")
        self.assert_nothing_left()

    def test_many_resets(self):
        """Threads with an old use of a device do not keep resources of later resets."""
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--", program("resets_often", "shared"), str(RESETS))
                result = self.run_command(command)
                few, many = ([int(word) for word in line.split()] for line in result.stdout.splitlines())
                self.assertLessEqual(many[0], few[0] + 8, f"mappings: {few} {many}")
                self.assertLessEqual(many[1], few[1] + 2, f"descriptors: {few} {many}")
                self.assertLess(many[2] - few[2], 4096, f"KiB: {few} {many}")
                self.assertEqual(own_lines(result.stderr), [])
        self.assert_nothing_left()
