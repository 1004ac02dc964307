"""cuda-core and cuda-bindings: NVRTC, memory from a pool, streams, events, a copy between devices."""

import numpy
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

N = 3000
SOURCE = r"""
extern "C" __global__ void multiples(float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * i;
}
"""


def call(result, *values):
    assert result == driver.CUresult.CUDA_SUCCESS, result
    return values[0] if values else None


call(*driver.cuInit(0))
assert call(*driver.cuDeviceGetCount()) == 2
buffers, streams = [], []
for number in range(2):
    device = Device(number)
    device.set_current()
    assert int(call(*driver.cuCtxGetDevice())) == number
    stream = device.create_stream()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    kernel = program.compile("ptx").get_kernel("multiples")
    buffer = device.allocate(4 * N, stream=stream)
    launch(stream, LaunchConfig(grid=24, block=128), kernel, buffer, numpy.float32(number + 3), numpy.int32(N))
    event = stream.record()
    pinned = LegacyPinnedMemoryResource().allocate(4 * N)
    stream.wait(event)
    buffer.copy_to(pinned, stream=stream)
    stream.sync()
    assert event.is_done
    found = numpy.from_dlpack(pinned).view(numpy.float32)
    numpy.testing.assert_array_equal(found, numpy.arange(N, dtype=numpy.float32) * (number + 3))
    buffers.append(buffer)
    streams.append(stream)
call(*driver.cuMemcpy(int(buffers[1].handle), int(buffers[0].handle), 4 * N))
found = numpy.empty(N, numpy.float32)
call(*driver.cuMemcpyDtoH(found.ctypes.data, int(buffers[1].handle), 4 * N))
numpy.testing.assert_array_equal(found, numpy.arange(N, dtype=numpy.float32) * 3)
for buffer, stream in zip(buffers, streams):
    buffer.close(stream)
print("right")
