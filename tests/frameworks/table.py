#!/usr/bin/env python3
"""Makes one table of the native results and those through cuspan, printed by the programs of this folder.

Usage: table.py FILE

A line of FILE: "time" or "value", the way of running, the row, and the figure, separated by tabs. In brackets: the
median over the rounds of the ratio to the native time of the same round. The ratio of the second native run shows
the variation of the machine itself. Exit status 1: a value differs from the native one. If all native runs agree, it
must be the same bit for bit. Otherwise its distance to the nearest native value must not exceed the spread of the
native values.
"""

import collections
import statistics
import sys

from rounds import WAYS

NATIVE = WAYS[:2]


def read(path):
    """Figures by kind, row, and way, in the order of the rows."""
    figures = {"time": {}, "value": {}}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            kind, way, row, figure = line.rstrip("\n").split("\t")
            number = float.fromhex(figure) if kind == "value" else float(figure)
            figures[kind].setdefault(row, collections.defaultdict(list))[way].append(number)
    return figures


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def cell(native, times):
    """The median time, and in brackets the median of the rounds' ratios."""
    if not times:
        return "failed"
    if not native:
        return duration(statistics.median(times))
    ratio = statistics.median(time / other for time, other in zip(times, native))
    return f"{duration(statistics.median(times))} ({ratio:.2f})"


def differences(rows):
    for row, ways in rows.items():
        native = [value for way in NATIVE for value in ways[way]]
        if not native:
            continue
        spread = max(native) - min(native)
        for way in WAYS[len(NATIVE):]:
            for value in ways[way]:
                if min(abs(value - one) for one in native) > spread or value != value:
                    yield f"{row}, {way}: {value!r}, natively {', '.join(map(repr, sorted(set(native))))}"


def main():
    figures = read(sys.argv[1])
    print(f"| what | {' | '.join(WAYS)} |\n|{'---|' * (1 + len(WAYS))}")
    for row, ways in figures["time"].items():
        native = ways["native"]
        print(f"| {row} | {cell([], native)} | {' | '.join(cell(native, ways[way]) for way in WAYS[1:])} |")
    found = list(differences(figures["value"]))
    for difference in found:
        print(f"DIFFERENT  {difference}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
