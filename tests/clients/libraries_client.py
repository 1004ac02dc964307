"""The math libraries of the toolkit whose kernels' PTX the software GPU can run, or that begin without one:
what makes a handle, sets and asks its properties, plans, and ends it. One device.

Usage: libraries_client.py FOLDER, FOLDER having one of the libraries at least; those that are not there are
left out.
"""

import ctypes
import pathlib
import sys
from ctypes import byref, c_int, c_longlong, c_size_t, c_ulonglong, c_void_p

FOLDER = pathlib.Path(sys.argv[1])
FOUND = []


def library(name):
    """A function that calls the library's functions and expects 0; None where the library is not there."""
    path = FOLDER / name
    if not path.exists():
        return None
    FOUND.append(name)
    loaded = ctypes.CDLL(str(path))

    def call(function, *arguments):
        result = getattr(loaded, function)(*arguments)
        assert result == 0, f"{function}: {result}"

    return call


def use_cufft(call):
    complex_to_complex, length, batch = 0x29, 1024, 4
    plan, work, version = c_int(), c_size_t(1), c_int()
    call("cufftGetVersion", byref(version))
    assert version.value >= 10000
    call("cufftCreate", byref(plan))
    call("cufftSetAutoAllocation", plan, 0)
    call("cufftMakePlan1d", plan, length, complex_to_complex, batch, byref(work))
    size = c_size_t()
    call("cufftGetSize", plan, byref(size))
    assert size.value == work.value
    call("cufftSetStream", plan, None)
    call("cufftDestroy", plan)
    lengths = (c_longlong * 2)(30, 1001)
    call("cufftCreate", byref(plan))
    call("cufftMakePlanMany64", plan, 2, lengths, None, c_longlong(1), c_longlong(0), None, c_longlong(1),
         c_longlong(0), complex_to_complex, c_longlong(1), byref(work))
    call("cufftGetSize", plan, byref(size))
    assert size.value == work.value
    call("cufftDestroy", plan)


def use_curand(call):
    for kind in (100, 121, 141, 161, 201):  # Default, XORWOW, MTGP32, Philox and Sobol'.
        generator = c_void_p()
        call("curandCreateGenerator", byref(generator), kind)
        call("curandSetStream", generator, None)
        if kind != 141:  # It has no offset.
            call("curandSetGeneratorOffset", generator, c_ulonglong(0))
        if kind < 200:
            call("curandSetPseudoRandomGeneratorSeed", generator, c_ulonglong(7))
        else:
            call("curandSetQuasiRandomGeneratorDimensions", generator, 5)
        call("curandDestroyGenerator", generator)


def use_cudnn(call):
    handle, stream, descriptor = c_void_p(), c_void_p(1), c_void_p()
    call("cudnnCreate", byref(handle))
    call("cudnnSetStream", handle, None)
    call("cudnnGetStream", handle, byref(stream))
    assert not stream.value
    call("cudnnCreateTensorDescriptor", byref(descriptor))
    call("cudnnSetTensor4dDescriptor", descriptor, 0, 0, 2, 3, 8, 9)  # NCHW, float.
    size = c_size_t()
    call("cudnnGetTensorSizeInBytes", descriptor, byref(size))
    assert size.value == 4 * 2 * 3 * 8 * 9
    call("cudnnDestroyTensorDescriptor", descriptor)
    call("cudnnDestroy", handle)


for name, use in (("libcufft.so.12", use_cufft), ("libcurand.so.10", use_curand), ("libcudnn.so.9", use_cudnn)):
    if call := library(name):
        use(call)
assert FOUND, f"{FOLDER} has none of the libraries"
print("right")
