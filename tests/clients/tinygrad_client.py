"""tinygrad: products, reductions, and a step of gradient descent captured as a graph.

Usage: tinygrad_client.py CUDA|CUDA:PTX: compiled by NVRTC, or written as PTX by tinygrad.
"""

import os
import sys

os.environ["DEV"] = sys.argv[1]

import numpy  # noqa: E402
from tinygrad import Device, Tensor, TinyJit  # noqa: E402

assert Device.DEFAULT == "CUDA"
random = numpy.random.default_rng(0)
a = random.normal(size=(64, 48)).astype(numpy.float32)
b = random.normal(size=(48, 32)).astype(numpy.float32)
found = (Tensor(a) @ Tensor(b) + 1).relu().sum(axis=0)
numpy.testing.assert_allclose(found.numpy(), numpy.maximum(a @ b + 1, 0).sum(axis=0), rtol=1e-4)

weights = Tensor(b).contiguous().realize()
inputs = Tensor(a).realize()


@TinyJit
def step():
    error = ((inputs @ weights) ** 2).mean()
    gradient = error.gradient(weights)[0]
    Tensor.realize(error, gradient)
    weights.assign(weights - 0.1 * gradient).realize()
    return error


errors = [step().item() for _ in range(6)]
expected = []
for _ in range(6):
    product = a @ b
    expected.append((product**2).mean())
    b = b - 0.1 * (a.T @ product) * 2 / product.size
numpy.testing.assert_allclose(errors, expected, rtol=1e-4)
print("right")
