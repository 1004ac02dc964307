"""What the programs of this folder print, a line each, for rounds.py: "time", the row, seconds; "value", the row,
a number; "ready", the row, which rounds.py answers. Run by hand they measure each row once.
"""

import os
import statistics
import sys
import time

IN_ROUNDS = "CUSPAN_TEST_ROUNDS" in os.environ  # Set by rounds.py.


def say_time(row, seconds):
    """The time of one unit of the row's work (a step, a token, a launch), in seconds."""
    print(f"time\t{row}\t{seconds:.9f}", flush=True)


def say_value(row, value):
    """A result of the row's work: a number. Bit for bit the same natively and through cuspan, or
    within the spread of the native runs where those differ among each other."""
    print(f"value\t{row}\t{float(value).hex()}", flush=True)


def measure(row, unit, wait, units, blocks=3, scale=1):
    """Says the time of one call of unit(), times `scale`: the median over blocks of `units` calls, after one block
    that does not count. wait() returns when the device has done everything. Of the same program run in several ways
    only one measures at a time: each says that it is ready, and measures as often as it is told "go".
    """

    def block():
        wait()
        start = time.perf_counter()
        for _ in range(units):
            unit()
        wait()
        return (time.perf_counter() - start) / units

    block()
    if not IN_ROUNDS:
        say_time(row, scale * statistics.median(block() for _ in range(blocks)))
        return
    print(f"ready\t{row}", flush=True)
    while sys.stdin.readline().strip() == "go":
        say_time(row, scale * statistics.median(block() for _ in range(blocks)))
