"""CuPy: a RawKernel, elementwise and reduction kernels, broadcasting, streams, copies between devices."""

import os

# The software GPU runs neither machine code nor CUB as contained in CuPy's wheel.
os.environ.update(CUPY_COMPILE_WITH_PTX="1", CUPY_ACCELERATORS="")

import cupy  # noqa: E402
import numpy  # noqa: E402

root = cupy.RawKernel(
    r"""
    extern "C" __global__ void root(const float* x, float* y, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = 2 * sqrtf(x[i]);
    }
    """,
    "root",
)
distance = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "distance")
longest = cupy.ReductionKernel("T x", "T y", "abs(x)", "max(a, b)", "y = a", "0", "longest")

assert cupy.cuda.runtime.getDeviceCount() == 2
x = numpy.linspace(-3, 5, 3000, dtype=numpy.float32)
parts = []
for number in range(2):
    with cupy.cuda.Device(number), cupy.cuda.Stream(non_blocking=True) as stream:
        on_device = cupy.asarray(x)
        y = cupy.empty_like(on_device)
        root((24,), (128,), (cupy.abs(on_device), y, numpy.int32(x.size)))
        numpy.testing.assert_allclose(y.get(), 2 * numpy.sqrt(numpy.abs(x)), rtol=1e-6)
        numpy.testing.assert_allclose(distance(on_device, y).get(), (x - 2 * numpy.sqrt(numpy.abs(x))) ** 2, rtol=1e-5)
        assert float(longest(on_device)) == 5
        table, expected = on_device.reshape(50, 60), x.reshape(50, 60)
        sums, expected = (table + table[:, :1]).sum(axis=0), (expected + expected[:, :1]).sum(axis=0)
        numpy.testing.assert_allclose(sums.get(), expected, rtol=1e-4, atol=1e-4)
        stream.synchronize()
        parts.append(y)
with cupy.cuda.Device(1):
    moved = cupy.empty_like(parts[0])
    moved.data.copy_from_device(parts[0].data, parts[0].nbytes)
    numpy.testing.assert_array_equal(moved.get(), parts[1].get())
print("right")
