"""Warp: compiled kernels, vectors, atomics, a captured graph, copies between devices."""

import numpy
import warp as wp

wp.config.cuda_output = "ptx"
wp.config.quiet = True
wp.init()

N = 3000


@wp.kernel
def lengths(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(points[i])
    wp.atomic_add(total, 0, 1.0)


@wp.kernel
def grow(values: wp.array(dtype=float)):
    i = wp.tid()
    values[i] = values[i] * 2.0


devices = wp.get_cuda_devices()
assert len(devices) == 2
points = numpy.random.default_rng(0).normal(size=(N, 3)).astype(numpy.float32)
expected = numpy.linalg.norm(points, axis=1)
results = []
for device in devices:
    with wp.ScopedDevice(device):
        out, total = wp.zeros(N, dtype=float), wp.zeros(1, dtype=float)
        wp.launch(lengths, dim=N, inputs=[wp.array(points, dtype=wp.vec3), out, total])
        wp.load_module(device=device)
        with wp.ScopedCapture() as capture:
            wp.launch(grow, dim=N, inputs=[out])
        for _ in range(3):
            wp.capture_launch(capture.graph)
        numpy.testing.assert_allclose(out.numpy(), 8 * expected, rtol=1e-5)
        assert total.numpy()[0] == N
        results.append(out)
moved = wp.zeros(N, dtype=float, device=devices[1])
wp.copy(moved, results[0])
numpy.testing.assert_array_equal(moved.numpy(), results[1].numpy())
print("right")
