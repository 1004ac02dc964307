"""numba-cuda: kernels with shared memory, atomics and a device function, streams, events, pinned memory."""

import numpy
from cuda.bindings._internal import nvjitlink

# If nvJitLink is installed, it links to machine code, not supported by the software GPU. Without it, the driver's
# linker gets the PTX.
nvjitlink._inspect_function_pointer = lambda name: 0

from numba import cuda, float32  # noqa: E402

N, BLOCK = 5000, 128
GRID = (N + BLOCK - 1) // BLOCK


@cuda.jit(device=True)
def fused(a, x, y):
    return a * x + y


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = fused(a, x[i], y[i])


@cuda.jit
def total(x, out):
    tile = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = BLOCK // 2
    while step:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


assert len(cuda.gpus) == 2
for device in cuda.gpus:
    with device:
        x = numpy.arange(N, dtype=numpy.float32) % 100
        stream = cuda.stream()
        start, end = cuda.event(), cuda.event()
        pinned = cuda.pinned_array(N, numpy.float32)
        pinned[:] = 1
        on_device, y, sum_y = (cuda.to_device(a, stream) for a in (x, pinned, numpy.zeros(1, numpy.float32)))
        start.record(stream)
        saxpy[GRID, BLOCK, stream](2, on_device, y)
        total[GRID, BLOCK, stream](y, sum_y)
        end.record(stream)
        y.copy_to_host(pinned, stream)
        stream.synchronize()
        assert cuda.event_elapsed_time(start, end) >= 0
        numpy.testing.assert_array_equal(pinned, 2 * x + 1)
        assert sum_y.copy_to_host()[0] == (2 * x + 1).sum(dtype=numpy.float64)
print("right")
