#!/usr/bin/env python3
"""Compares the results of two devices for every form of PTX instructions.

  compare_results.py FIRST.json SECOND.json

The files are written by ptx_forms --json. If the PTX ISA defines a result to the bit, both must be equal. If it
states an error bound, the results may differ by twice this bound, since each device may be off by it. Prints the
differences by form. Exits with 0 if there are no differences.
"""
import json
import math
import struct
import sys

# Fraction digits, and exponent bits.
LAYOUTS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}


def value_of(kind, bits):
    """Converts `bits` to a number."""
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if kind == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << (16 if kind == "bf16" else 0)))[0]


def agree(kind, first, second, form):
    """True if two results of a form, as bits, are both within its bound."""
    if first == second:
        return True
    if not (form["ulps"] or form["relative"] or form["absolute"]):
        return False
    if kind in PAIRS:
        return (agree(PAIRS[kind], first & 0xffff, second & 0xffff, form) and
                agree(PAIRS[kind], first >> 16, second >> 16, form))
    if kind not in LAYOUTS:
        return False
    digits, exponent_bits = LAYOUTS[kind]
    lowest = 2 - 2 ** (exponent_bits - 1)
    x, y = value_of(kind, first), value_of(kind, second)
    if math.isnan(x) or math.isnan(y):
        return False
    if math.isinf(x) or math.isinf(y):
        # Near an overflow the largest numbers are a step or so away.
        if x == -y or not form["ulps"]:
            return False
        infinity = (2 ** exponent_bits - 1) << digits
        sign = 1 << (digits + exponent_bits)
        return first & sign == second & sign and all(
            (bits & (sign - 1)) >= infinity - 2 * form["ulps"] for bits in (first, second))
    error, size = abs(x - y), max(abs(x), abs(y))
    if error <= 2 * form["absolute"] or error <= 2 * form["relative"] * size:
        return True
    exponent = max(math.frexp(size)[1] - 1, lowest) if size else lowest
    return error <= 2 * form["ulps"] * 2.0 ** (exponent - digits)


def differences(first, second):
    """Returns texts of the first few differences between two results of a form, and their number."""
    if {k: first[k] for k in first if k != "results"} != \
            {k: second[k] for k in second if k != "results"}:
        return ["the files are of different versions of the test"], 1
    if first["results"] == second["results"]:
        return [], 0
    kinds = first["kinds"].split()
    ours, theirs = first["results"].split(), second["results"].split()
    if len(ours) != len(theirs):
        return [f"{len(ours)} results against {len(theirs)}"], 1
    found = [(i, a, b) for i, (a, b) in enumerate(zip(ours, theirs))
             if a != b and not agree(kinds[i % len(kinds)], int(a, 16), int(b, 16), first)]
    return [f"result {i}: {a} against {b}" for i, a, b in found[:3]], len(found)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            files.append(json.load(file))
    first, second = (file["forms"] for file in files)
    names = [file["device"] for file in files]
    equal = bits = differing = 0
    for form in first:
        if form not in second:
            continue
        texts, count = differences(first[form], second[form])
        if count:
            differing += 1
            print(f"DIFFERS {form}: {count} of {len(first[form]['results'].split())}")
            for text in texts:
                print(f"     {text}")
        else:
            equal += 1
            bits += first[form]["results"] == second[form]["results"]
    for ours, theirs, name in ((first, second, names[0]), (second, first, names[1])):
        for form in ours:
            if form not in theirs:
                print(f"only on {name}: {form}")
    print(f"{names[0]} and {names[1]}: {equal} forms agree, {bits} of them to the bit; "
          f"{differing} differ")
    return 1 if differing or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
