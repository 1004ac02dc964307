"""Output of the programs of this folder for rounds.py, a line each: "time", row, seconds; "value", row, number;
"ready", row, waiting for an answer of rounds.py. Started by hand, a program measures each row once.
"""

import os
import statistics
import sys
import time

IN_ROUNDS = "CUSPAN_TEST_ROUNDS" in os.environ  # Set by rounds.py.


def say_time(row, seconds):
    """Prints the time of one unit of the row's work (a step, a token, a launch), in seconds."""
    print(f"time\t{row}\t{seconds:.9f}", flush=True)


def say_value(row, value):
    """Prints a result of the row's work: a number. It must be the same bit for bit natively and through cuspan. If the
    native runs differ, it must be within their spread."""
    print(f"value\t{row}\t{float(value).hex()}", flush=True)


def measure(row, unit, wait, units, blocks=3, scale=1):
    """Prints the time of one call of unit(), times `scale`: the median of blocks of `units` calls, after one uncounted
    block. wait() returns when the device has finished all work. If the program runs in several ways at once, only
    one of these measures at a time: each prints "ready" and measures once per "go" on its input.
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
