"""The math libraries of the toolkit: makes a handle, sets and queries properties, plans, asks for workspace sizes, and
ends it. No kernel runs. One device; most libraries have PTX for compute capability 12.0 only.

Usage: libraries_client.py FOLDER [LIBRARY]. FOLDER has at least one of the libraries; missing ones are left out.
With LIBRARY, such as libcublas.so.13, only a handle of this library is made and ended.
"""

import ctypes
import pathlib
import sys
from ctypes import byref, c_float, c_int, c_int64, c_longlong, c_size_t, c_ulonglong, c_void_p

FOLDER, START_ONLY = pathlib.Path(sys.argv[1]), sys.argv[2:]


def library(name):
    """A function calling the library's functions and expecting result 0; None if the library is missing."""
    path = FOLDER / name
    if not path.exists():
        return None
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
        if kind != 141:  # MTGP32 has no offset.
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
    filters, convolution, output = c_void_p(), c_void_p(), c_void_p()
    call("cudnnCreateFilterDescriptor", byref(filters))
    call("cudnnSetFilter4dDescriptor", filters, 0, 0, 4, 3, 3, 3)
    call("cudnnCreateConvolutionDescriptor", byref(convolution))
    call("cudnnSetConvolution2dDescriptor", convolution, 1, 1, 1, 1, 1, 1, 1, 0)  # CUDNN_CROSS_CORRELATION.
    shape = [c_int() for _ in range(4)]
    call("cudnnGetConvolution2dForwardOutputDim", convolution, descriptor, filters, *map(byref, shape))
    assert [length.value for length in shape] == [2, 4, 8, 9]
    call("cudnnCreateTensorDescriptor", byref(output))
    call("cudnnSetTensor4dDescriptor", output, 0, 0, 2, 4, 8, 9)
    for algorithm in (0, 1):  # Implicit GEMM, and with precomputed indices.
        call("cudnnGetConvolutionForwardWorkspaceSize", handle, descriptor, filters, convolution, output, algorithm,
             byref(size))
    for kind, made in (("Tensor", descriptor), ("Filter", filters), ("Convolution", convolution), ("Tensor", output)):
        call(f"cudnnDestroy{kind}Descriptor", made)
    call("cudnnDestroy", handle)


REAL_32, COMPUTE_32 = 0, 68  # CUDA_R_32F and CUBLAS_COMPUTE_32F.


def use_cublas(call):
    handle, version, stream, mode = c_void_p(), c_int(), c_void_p(1), c_int()
    call("cublasCreate_v2", byref(handle))
    call("cublasGetVersion_v2", handle, byref(version))
    assert version.value >= 120000
    call("cublasSetStream_v2", handle, None)
    call("cublasGetStream_v2", handle, byref(stream))
    assert not stream.value
    for name, value in (("MathMode", 3), ("PointerMode", 1), ("AtomicsMode", 1)):
        suffix = "_v2" if name == "PointerMode" else ""
        call(f"cublasSet{name}{suffix}", handle, value)
        call(f"cublasGet{name}{suffix}", handle, byref(mode))
        assert mode.value == value, name
    call("cublasSetWorkspace_v2", handle, None, c_size_t(0))
    call("cublasDestroy_v2", handle)


def use_cublas_lt(call):
    handle, operation, preference = c_void_p(), c_void_p(), c_void_p()
    call("cublasLtCreate", byref(handle))
    call("cublasLtMatmulDescCreate", byref(operation), COMPUTE_32, REAL_32)
    layouts = [c_void_p() for _ in range(3)]
    for layout, (rows, columns) in zip(layouts, ((64, 32), (32, 48), (64, 48))):
        call("cublasLtMatrixLayoutCreate", byref(layout), REAL_32, c_ulonglong(rows), c_ulonglong(columns),
             c_int64(rows))
        written, value = c_size_t(), c_ulonglong()
        call("cublasLtMatrixLayoutGetAttribute", layout, 3, byref(value), c_size_t(8), byref(written))  # Columns.
        assert (written.value, value.value) == (8, columns)
    call("cublasLtMatmulPreferenceCreate", byref(preference))
    most = c_ulonglong(1 << 20)
    call("cublasLtMatmulPreferenceSetAttribute", preference, 1, byref(most), c_size_t(8))  # Workspace, at most.
    heuristics, found = (c_ulonglong * 12 * 4)(), c_int()  # 96 bytes each.
    a, b, c = layouts
    call("cublasLtMatmulAlgoGetHeuristic", handle, operation, a, b, c, c, preference, 4, heuristics, byref(found))
    assert found.value > 0
    call("cublasLtMatmulPreferenceDestroy", preference)
    for layout in layouts:
        call("cublasLtMatrixLayoutDestroy", layout)
    call("cublasLtMatmulDescDestroy", operation)
    call("cublasLtDestroy", handle)


def use_cusparse(call):
    handle, version, stream, mode = c_void_p(), c_int(), c_void_p(1), c_int()
    call("cusparseCreate", byref(handle))
    call("cusparseGetVersion", handle, byref(version))
    assert version.value >= 12000
    call("cusparseSetStream", handle, None)
    call("cusparseGetStream", handle, byref(stream))
    assert not stream.value
    call("cusparseSetPointerMode", handle, 1)
    call("cusparseGetPointerMode", handle, byref(mode))
    assert mode.value == 1
    call("cusparseSetPointerMode", handle, 0)
    matrix, x, y, size = c_void_p(), c_void_p(), c_void_p(), c_size_t()
    somewhere, one = c_void_p(4096), c_float(1)  # Addresses never read.
    index_32 = 2
    call("cusparseCreateCsr", byref(matrix), c_int64(8), c_int64(9), c_int64(10), somewhere, somewhere, somewhere,
         index_32, index_32, 0, REAL_32)
    call("cusparseCreateDnVec", byref(x), c_int64(9), somewhere, REAL_32)
    call("cusparseCreateDnVec", byref(y), c_int64(8), somewhere, REAL_32)
    call("cusparseSpMV_bufferSize", handle, 0, byref(one), matrix, x, byref(one), y, REAL_32, 0, byref(size))
    rows, columns, entries = c_int64(), c_int64(), c_int64()
    call("cusparseSpMatGetSize", matrix, byref(rows), byref(columns), byref(entries))
    assert (rows.value, columns.value, entries.value) == (8, 9, 10)
    call("cusparseDestroySpMat", matrix)
    call("cusparseDestroyDnVec", x)
    call("cusparseDestroyDnVec", y)
    call("cusparseDestroy", handle)


def use_cusolver(call):
    handle, stream, size, parameters = c_void_p(), c_void_p(1), c_int(), c_void_p()
    call("cusolverDnCreate", byref(handle))
    call("cusolverDnSetStream", handle, None)
    call("cusolverDnGetStream", handle, byref(stream))
    assert not stream.value
    somewhere, length, lower = c_void_p(4096), 96, 0
    for name in ("cusolverDnSpotrf", "cusolverDnDpotrf"):
        size.value = -1
        call(f"{name}_bufferSize", handle, lower, length, somewhere, length, byref(size))
        assert size.value >= 0
    for name in ("cusolverDnSgetrf", "cusolverDnSgeqrf"):
        call(f"{name}_bufferSize", handle, length, length, somewhere, length, byref(size))
        assert size.value > 0
    call("cusolverDnCreateParams", byref(parameters))
    on_device, on_host = c_size_t(), c_size_t()
    call("cusolverDnXpotrf_bufferSize", handle, parameters, lower, c_int64(length), REAL_32, somewhere,
         c_int64(length), REAL_32, byref(on_device), byref(on_host))
    call("cusolverDnDestroyParams", parameters)
    call("cusolverDnDestroy", handle)


# File, test, and the functions creating and destroying a handle.
LIBRARIES = (
    ("libcufft.so.12", use_cufft, "cufftCreate", "cufftDestroy"),
    ("libcurand.so.10", use_curand, "curandCreateGenerator", "curandDestroyGenerator"),
    ("libcudnn.so.9", use_cudnn, "cudnnCreate", "cudnnDestroy"),
    ("libcublas.so.13", use_cublas, "cublasCreate_v2", "cublasDestroy_v2"),
    ("libcublasLt.so.13", use_cublas_lt, "cublasLtCreate", "cublasLtDestroy"),
    ("libcusparse.so.12", use_cusparse, "cusparseCreate", "cusparseDestroy"),
    ("libcusolver.so.12", use_cusolver, "cusolverDnCreate", "cusolverDnDestroy"),
)
found = False
for name, use, create, destroy in LIBRARIES:
    if not (call := library(name)):
        continue
    if not START_ONLY:
        use(call)
    elif name == START_ONLY[0]:
        handle = c_void_p()
        call(create, byref(handle), 100)  # cuRAND takes a generator type (default: 100); others ignore it.
        call(destroy, handle)
    else:
        continue
    found = True
assert found, f"{FOLDER} has none of the libraries"
print("right")
