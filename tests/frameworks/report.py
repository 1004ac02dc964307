"""What the programs of this folder print, one line a result, for table.py to read."""

import statistics
import time


def say_time(row, seconds):
    """The time of one unit of the row's work (a step, a token, a launch), in seconds."""
    print(f"time\t{row}\t{seconds:.9f}", flush=True)


def say_value(row, value):
    """A result of the row's work: a number. Bit for bit the same natively and through cuspan, or
    within the spread of the native runs where those differ among each other."""
    print(f"value\t{row}\t{float(value).hex()}", flush=True)


def median_time(unit, wait, units, blocks=5, warm=1):
    """The median over blocks of the time of one call of unit(), after `warm` blocks that do not
    count. wait() returns when the device has done everything."""
    times = []
    for block in range(warm + blocks):
        wait()
        start = time.perf_counter()
        for _ in range(units):
            unit()
        wait()
        if block >= warm:
            times.append((time.perf_counter() - start) / units)
    return statistics.median(times)
