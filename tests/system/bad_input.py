#!/usr/bin/env python3
"""Compares the output of driver_bad_input natively and through cuspan.

Usage: bad_input.py NATIVE THROUGH

Each call must have the same result. DIFFERENCES lists the calls with other results through cuspan, and the reasons.
SOFTWARE_DIFFERENCES lists the differences between the software GPU and the driver of a real GPU.
"""
import collections
import pathlib
import sys

PROGRAM = "driver_bad_input"

DIFFERENCES = {
    # Natively a fault destroys all contexts of the process; cuspan has a process for each.
    "after a fault: cuCtxCreate(&current, nullptr, 0, 0)": "0 CUDA_SUCCESS",
    "after a fault: cuMemAlloc(&more, 4096) #2": "0 CUDA_SUCCESS",
    # The driver treats a folder as a file of the largest possible size.
    'modules: cuModuleLoad(&module, "/")': "304 CUDA_ERROR_OPERATING_SYSTEM",
    # cuspan unwraps the image and refuses its content.
    "images: cuModuleLoadData(&module, &wrapped)": "209 CUDA_ERROR_NO_BINARY_FOR_GPU",
    # The driver reduces 2^64 + 4 bytes to 4.
    "sets: cuMemsetD32(live, 1, ~std::size_t{0} / 4 + 2)": "1 CUDA_ERROR_INVALID_VALUE",
    # Larger than its allocation: useless, since a proxy may not read beyond it.
    "textures: Texture(Linear(memory, 2 << 20))": "1 CUDA_ERROR_INVALID_VALUE",
    # The driver accepts an invalid mode with unknown meaning.
    "streams: cuThreadExchangeStreamCaptureMode(&mode)": "1 CUDA_ERROR_INVALID_VALUE",
}

SOFTWARE_DIFFERENCES = {
    # The software GPU refuses machine code, without parsing the ELF file.
    "images: cuModuleLoadData(&module, header)": "209 CUDA_ERROR_NO_BINARY_FOR_GPU",
    # It does not support clusters.
    "functions: cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2)":
        "801 CUDA_ERROR_NOT_SUPPORTED",
    # The driver counts these sizes in 32 bits.
    "arrays: Create(16, kHuge, CU_AD_FORMAT_FLOAT, 1)": "1 CUDA_ERROR_INVALID_VALUE",
    "arrays: Create(Shape(16, 16, kHuge))": "1 CUDA_ERROR_INVALID_VALUE",
    # It refuses empty textures.
    "textures: Texture(Linear(memory, 0))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Linear(memory, 2))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Rows(memory, 0, 16, 512))": "1 CUDA_ERROR_INVALID_VALUE",
    "textures: Texture(Rows(memory, 16, 0, 512))": "1 CUDA_ERROR_INVALID_VALUE",
}


def results(text):
    """Results by call. Repeated calls with the same text are named `text #2`, and so on."""
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
    """A line for each call with an unexpected result; `known` are the expected differences."""
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
