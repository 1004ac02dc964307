"""JAX: finds the run's devices and copies. It looks for their device files before it calls CUDA. The software GPU
refuses its kernels with a message, since they are machine code."""
import jax
import numpy
from jax_cuda13_plugin import _versions

devices = jax.devices()
assert [device.platform for device in devices] == ["gpu", "gpu"], devices
assert jax.default_backend() == "gpu"
x = numpy.linspace(-3, 5, 300_000, dtype=numpy.float32)
parts = [jax.device_put(x + number, device) for number, device in enumerate(devices)]
for number, part in enumerate(parts):
    assert part.devices() == {devices[number]}
    numpy.testing.assert_array_equal(numpy.asarray(part), x + number)
numpy.testing.assert_array_equal(numpy.asarray(jax.device_put(parts[0], devices[1])), x)
# The runtime found by its lazy stubs has the release used for its build.
assert _versions.cuda_runtime_get_version() // 1000 == _versions.cuda_runtime_build_version() // 1000
try:
    jax.jit(lambda values: values * 2)(parts[0]).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in str(error), error
else:
    raise AssertionError("the software GPU runs machine code")
print("right")
