#!/usr/bin/env python3
"""Compares what driver_bad_input printed natively with what it printed through cuspan.

Usage: bad_input.py NATIVE THROUGH

Each call must have had the same result. DIFFERENCES are the calls of which cuspan answers otherwise, and why;
SOFTWARE_DIFFERENCES those in which the software GPU is not what its driver would be on hardware.
"""
import collections
import pathlib
import sys

PROGRAM = "driver_bad_input"

DIFFERENCES = {
    # A fault takes all contexts of a process; here each has a process of its own.
    "after a fault: cuCtxCreate(&current, nullptr, 0, 0)": "0 CUDA_SUCCESS",
    "after a fault: cuMemAlloc(&more, 4096) #2": "0 CUDA_SUCCESS",
    # The driver reads a folder as a file of the largest size there is.
    'modules: cuModuleLoad(&module, "/")': "304 CUDA_ERROR_OPERATING_SYSTEM",
    # Taken off its wrapper here, and refused for what is inside.
    "images: cuModuleLoadData(&module, &wrapped)": "209 CUDA_ERROR_NO_BINARY_FOR_GPU",
    # 2^64 + 4 bytes are 4 for the driver.
    "sets: cuMemsetD32(live, 1, ~std::size_t{0} / 4 + 2)": "1 CUDA_ERROR_INVALID_VALUE",
    # Larger than what is allocated: no use for what a proxy may not read.
    "textures: Texture(Linear(memory, 2 << 20))": "1 CUDA_ERROR_INVALID_VALUE",
    # The driver takes what is no mode; nobody knows for which.
    "streams: cuThreadExchangeStreamCaptureMode(&mode)": "1 CUDA_ERROR_INVALID_VALUE",
}

SOFTWARE_DIFFERENCES = {
    # It runs no machine code, whatever the ELF file says.
    "images: cuModuleLoadData(&module, header)": "209 CUDA_ERROR_NO_BINARY_FOR_GPU",
    # It has no clusters.
    "functions: cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2)":
        "801 CUDA_ERROR_NOT_SUPPORTED",
    # The driver counts these sizes in 32 bits.
    "arrays: Create(16, kHuge, CU_AD_FORMAT_FLOAT, 1)": "1 CUDA_ERROR_INVALID_VALUE",
    "arrays: Create(Shape(16, 16, kHuge))": "1 CUDA_ERROR_INVALID_VALUE",
    # No texture of nothing.
    "textures: Texture(Linear(memory, 0))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Linear(memory, 2))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Rows(memory, 0, 16, 512))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Rows(memory, 16, 0, 512))": "1 CUDA_ERROR_INVALID_VALUE",
}


def results(text):
    """What each call returned; those of the same text after the first one are `text #2`, and so on."""
    counts = collections.Counter()
    found = {}
    for line in text.splitlines():
        call, equals, result = line.rpartition(" = ")
        if not equals:
            continue
        counts[call] += 1
        found[call if counts[call] == 1 else f"{call} #{counts[call]}"] = result
    return found


def compare(native, through, known):
    """A line for each call that has another result than it should have; `known` are the differences to be."""
    expected, got = results(native), results(through)
    if not expected:
        return ["no call was made natively"]
    lines = [f"{call}: natively {result}, through cuspan {got.get(call, 'not made')}"
             for call, result in expected.items() if got.get(call) != known.get(call, result)]
    lines += [f"{call}: not made natively" for call in got if call not in expected]
    return lines


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    native, through = (pathlib.Path(name).read_text() for name in sys.argv[1:])
    lines = compare(native, through, DIFFERENCES)
    if lines:
        sys.exit("\n".join(lines))
    print(f"{len(results(native))} calls: PASS")


if __name__ == "__main__":
    main()
