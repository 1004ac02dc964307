// Libraries of device code loaded by the program from memory or a file.
#include "interpose/calls/library.h"

#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// The runtime's options have the same numbers as the driver's.
static_assert(static_cast<int>(cudaJitOverrideDirectiveValues) == CU_JIT_OVERRIDE_DIRECTIVE_VALUES);
static_assert(static_cast<int>(cudaJitMaxThreadsPerBlock) == CU_JIT_MAX_THREADS_PER_BLOCK);
static_assert(static_cast<int>(cudaLibraryBinaryIsPreserved) == CU_LIBRARY_BINARY_IS_PRESERVED);

Error ReadLoadOptions(const cudaJitOption* jit, void** jit_values, unsigned jit_count,
                      const cudaLibraryOption* library, void** library_values,
                      unsigned library_count, LoadOptions* out) {
  CUSPAN_RETURN_IF_FAILED(
      ReadOptions(reinterpret_cast<const CUjit_option*>(jit), jit_values, jit_count, &out->jit));
  return ReadOptions(reinterpret_cast<const CUlibraryOption*>(library), library_values,
                     library_count, &out->library);
}

// CUDA's errors for an unknown name have the same number.
static_assert(static_cast<int>(cudaErrorSymbolNotFound) == static_cast<int>(CUDA_ERROR_NOT_FOUND));

cudaKernel_t HandleOfKernel(const FunctionRecord* kernel) {
  return HandleOf<cudaKernel_t>(NumberOf(kernel->handle));
}

Error GetAddress(void** address, std::size_t* bytes, cudaLibrary_t library, const char* name,
                 bool managed) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return cudaErrorInvalidValue;
  LoadedVariable variable{};
  CUSPAN_RETURN_IF_FAILED(GetVariable(library, name, managed, &variable));
  if (address != nullptr) *address = HandleOf<void*>(variable.address);
  if (bytes != nullptr) *bytes = variable.bytes;
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                              cudaJitOption* jit_options, void** jit_values,
                                              unsigned jit_count,
                                              cudaLibraryOption* library_options,
                                              void** library_values, unsigned library_count) {
  return Answer([&]() -> Error {
    if (library == nullptr || code == nullptr) return cudaErrorInvalidValue;
    LoadOptions options;
    CUSPAN_RETURN_IF_FAILED(ReadLoadOptions(jit_options, jit_values, jit_count, library_options,
                                            library_values, library_count, &options));
    return LoadLibrary(code, options, reinterpret_cast<CUlibrary*>(library));
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path,
                                                  cudaJitOption* jit_options, void** jit_values,
                                                  unsigned jit_count,
                                                  cudaLibraryOption* library_options,
                                                  void** library_values, unsigned library_count) {
  return Answer([&]() -> Error {
    if (library == nullptr || path == nullptr) return cudaErrorInvalidValue;
    LoadOptions options;
    CUSPAN_RETURN_IF_FAILED(ReadLoadOptions(jit_options, jit_values, jit_count, library_options,
                                            library_values, library_count, &options));
    return LoadLibraryFromFile(path, options, reinterpret_cast<CUlibrary*>(library));
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (handle == nullptr) return cudaErrorInvalidValue;
    return UnloadLibrary(reinterpret_cast<CUlibrary>(handle));
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t handle,
                                               const char* name) {
  return Answer([&]() -> Error {
    if (kernel == nullptr || name == nullptr) return cudaErrorInvalidValue;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(GetKernel(handle, name, &record));
    *kernel = HandleOfKernel(record);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetGlobal(void** address, std::size_t* bytes,
                                               cudaLibrary_t handle, const char* name) {
  return Answer([&] { return GetAddress(address, bytes, handle, name, false); });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetManaged(void** address, std::size_t* bytes,
                                                cudaLibrary_t handle, const char* name) {
  return Answer([&] { return GetAddress(address, bytes, handle, name, true); });
}

// Meant for devices able to run host functions. There are none.
CUSPAN_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t handle,
                                                        const char* name) {
  return Answer([&]() -> Error {
    if (function == nullptr || name == nullptr) return cudaErrorInvalidValue;
    // Error of driver 580 on a device without unified functions.
    return WithLibrary(handle, [&](Library&, Session&, ContextConnection&) -> Error {
      return cudaErrorInvalidValue;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (count == nullptr) return cudaErrorInvalidValue;
    return CountKernels(handle, count);
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned most,
                                                      cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (kernels == nullptr) return cudaErrorInvalidValue;
    return ForKernels(handle, most, [&](std::size_t index, const FunctionRecord* kernel) {
      kernels[index] = HandleOfKernel(kernel);
    });
  });
}
