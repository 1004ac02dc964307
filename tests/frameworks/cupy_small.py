"""A thousand small elementwise operations."""

import cupy

from report import measure, say_value

x = cupy.linspace(0, 1, 1000, dtype=cupy.float32)


def unit():
    global x
    x = x * 1.0001
    x = x - x * 0.0001


wait = cupy.cuda.Device().synchronize
measure("CuPy 1,000 operations", unit, wait, 334, scale=1000 / 3)
say_value("CuPy 1,000 operations", x.sum())
