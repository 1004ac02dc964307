#!/usr/bin/env python3
"""Compares the output of cufile_bad_input through cuspan with that of NVIDIA's libraries on an H200.

Usage: cufile_bad_input.py THROUGH

cufile_bad_input_1_20_h200.txt and cufile_bad_input_1_15_h200.txt are the outputs with the libraries of those releases.
cufile_bad_input_differences.txt has the calls with other results through cuspan than with 1.20; a comment above them
is the reason. cuspan has the results of 1.20, also where 1.15 differs.
"""
import pathlib
import sys

import bad_input

FOLDER = pathlib.Path(__file__).resolve().parent
NEW, OLD = (FOLDER / f"cufile_bad_input_1_{minor}_h200.txt" for minor in (20, 15))
# Groups that were not run to the end natively: calls hang if their stream waits for the program.
NOT_NATIVE = ("async late: ", "async fixed: ")


def differences():
    """Results through cuspan by call, where they differ from those of 1.20."""
    text = (FOLDER / "cufile_bad_input_differences.txt").read_text(encoding="utf-8")
    return bad_input.results("\n".join(line for line in text.splitlines() if not line.startswith("#")))


def compare(through):
    """A line for each call with an unexpected result."""
    known = differences()
    lines = [line for line in bad_input.compare(NEW.read_text(encoding="utf-8"), through, known)
             if not (line.startswith(NOT_NATIVE) and line.endswith("not made natively"))]
    new, old = (bad_input.results(path.read_text(encoding="utf-8")) for path in (NEW, OLD))
    got = bad_input.results(through)
    return lines + [f"{call}: with 1.15 {result}, through cuspan {got.get(call)}" for call, result in old.items()
                    if call not in known and got.get(call) not in (result, new.get(call))]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    through = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    lines = compare(through)
    if lines:
        sys.exit("\n".join(lines))
    print(f"{len(bad_input.results(through))} calls: PASS")


if __name__ == "__main__":
    main()
