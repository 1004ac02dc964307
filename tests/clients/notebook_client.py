"""Notebooks: two kernels using CUDA with CuPy at the same time, one of them restarted."""

import os
import pathlib
import sys

import jupyter_client

# Jupyter finds kernels by their files in the wheel's folder.
share = pathlib.Path(jupyter_client.__file__).parents[1] / "share/jupyter"
os.environ.update(JUPYTER_PATH=str(share), CUPY_COMPILE_WITH_PTX="1", CUPY_ACCELERATORS="")

CELL = """
import cupy
numbers = cupy.arange(10, dtype=cupy.float32) * 2 + {0}
print(int(cupy.asnumpy(numbers)[3]), cupy.cuda.runtime.getDeviceCount())
"""


class Notebook:
    def __init__(self):
        self.manager = jupyter_client.KernelManager(kernel_name="python3")
        self.manager.start_kernel(stderr=sys.stderr)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def run(self, code):
        said = []
        reply = self.client.execute_interactive(
            code, timeout=120, output_hook=lambda message: said.append(message["content"].get("text", "")))
        assert reply["content"]["status"] == "ok", reply["content"]["evalue"]
        return "".join(said).strip()

    def restart(self):
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready(timeout=120)

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel()


first, second = Notebook(), Notebook()
try:
    assert first.run(CELL.format(0)) == "6 2"
    assert second.run(CELL.format(1)) == "7 2"
    first.restart()
    assert first.run("print('numbers' in dir())") == "False"
    assert first.run(CELL.format(5)) == "11 2"
    assert second.run("print(int(cupy.asnumpy(numbers)[4]))") == "9"
finally:
    first.end()
    second.end()
print("right")
