"""A thousand small elementwise operations."""

import cupy

from report import median_time, say_time, say_value

x = cupy.linspace(0, 1, 1000, dtype=cupy.float32)


def unit():
    global x
    x = x * 1.0001
    x = x - x * 0.0001


wait = cupy.cuda.Device().synchronize
say_time("CuPy 1,000 operations", 1000 / 3 * median_time(unit, wait, 334))
say_value("CuPy 1,000 operations", x.sum())
