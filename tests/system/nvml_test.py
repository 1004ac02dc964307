"""NVIDIA's management library (NVML) in a run, without CUDA."""
import sys

from harness import SystemTest, build

# Queries all devices by NVML, forks, and uses CUDA in the child; the parent has not initialised CUDA.
PROGRAM = """
import ctypes, os
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
nvml = ctypes.CDLL("libnvidia-ml.so.1")
count, celsius, handle = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
print("devices", count.value)
def temperature(device):
    assert nvml.nvmlDeviceGetHandleByIndex_v2(device, ctypes.byref(handle)) == 0
    return nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(celsius))
print("before", *map(temperature, range(count.value)), flush=True)
if os.fork() == 0:
    cuda = ctypes.CDLL("libcudart.so.13")
    print("child", *map(temperature, range(count.value)))
    print("cuda", cuda.cudaGetDeviceCount(ctypes.byref(count)), count.value, flush=True)
    os._exit(0)
assert os.wait()[1] == 0
print("after", *map(temperature, range(count.value)))
assert nvml.nvmlShutdown() == 0
"""

# Forks as often as possible while a thread initialises and shuts down NVML.
FORKING = """
import ctypes, os, threading
nvml = ctypes.CDLL("libnvidia-ml.so.1")
celsius, handle = ctypes.c_uint(), ctypes.c_void_p()
def use():
    for _ in range(20):
        assert nvml.nvmlInit_v2() == 0
        assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
        assert nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(celsius)) == 3
        assert nvml.nvmlShutdown() == 0
    print("used")
thread = threading.Thread(target=use)
thread.start()
while thread.is_alive():
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
print("forked")
"""


class Nvml(SystemTest):
    def test_it_is_apart_from_cuda(self):
        for path in ("auto", "never"):
            with self.subTest(path=path):
                result = self.run_command(
                    self.cuspan("run", "--gpus", "2", "--same-node", path, "--stats", "--", sys.executable, "-c", PROGRAM),
                    self.environment(2))
                self.assertEqual(result.stdout.splitlines(),
                                 ["devices 2", "before 3 3", "child 3 3", "cuda 0 1", "after 3 3"])
                # No process has used a device.
                self.assertNotIn("cuspan software GPU", result.stderr)
                self.assert_nothing_left()

    def test_a_thread_uses_it_while_another_forks(self):
        result = self.run_command(self.cuspan("run", "--", sys.executable, "-c", FORKING))
        self.assertEqual(result.stdout.split(), ["used", "forked"])
        self.assert_nothing_left()

    def test_a_library_that_is_named_by_its_path_shows_the_devices_of_the_run(self):
        library = build() / "tests/unit/interpose/load/programs/libnvidia-ml.so.1"
        if not library.is_file():
            self.skipTest("it is not built")
        program = PROGRAM.replace('"libnvidia-ml.so.1"', repr(str(library))).partition("def")[0]
        result = self.run_command(self.cuspan("run", "--gpus", "2", "--", sys.executable, "-c", program),
                                  self.environment(2))
        self.assertEqual(result.stdout, "devices 2\n")
