// Libraries: device code of all contexts, and its kernels.
#include "interpose/calls/library.h"

#include <memory>

#include "interpose/calls/device.h"
#include "interpose/calls/kernel.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

CUkernel HandleOfKernel(const FunctionRecord* kernel) {
  return HandleOf<CUkernel>(NumberOf(kernel->handle));
}

CUresult GetAddress(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name,
                    bool managed) {
  return AnswerInContext([&](Session&) -> Error {
    if (name == nullptr || (address == nullptr && bytes == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    LoadedVariable variable{};
    CUSPAN_RETURN_IF_FAILED(GetVariable(library, name, managed, &variable));
    if (address != nullptr) *address = variable.address;
    if (bytes != nullptr) *bytes = variable.bytes;
    return CUDA_SUCCESS;
  });
}

Error ReadLoadOptions(CUjit_option* jit, void** jit_values, unsigned jit_count,
                      CUlibraryOption* library, void** library_values, unsigned library_count,
                      LoadOptions* out) {
  CUSPAN_RETURN_IF_FAILED(ReadOptions(jit, jit_values, jit_count, &out->jit));
  return ReadOptions(library, library_values, library_count, &out->library);
}

// Calls use(Session&, ContextConnection&, LoadedKernel&) → Error with the kernel on `device`, even
// if it is lost.
template <typename Use>
CUresult WithKernel(CUkernel kernel, CUdevice device, Use&& use) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(kernel, &record));
    std::shared_ptr<ContextConnection> connection;
    const CUresult opened = session.devices().Open(device, &connection);
    if (connection == nullptr || ButLost(opened) != CUDA_SUCCESS) return opened;
    LoadedKernel* loaded = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(*connection, *record, &loaded));
    return use(session, *connection, *loaded);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit,
                                         void** jit_values, unsigned jit_count,
                                         CUlibraryOption* options, void** values, unsigned count) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadOptions all;
    CUSPAN_RETURN_IF_FAILED(
        ReadLoadOptions(jit, jit_values, jit_count, options, values, count, &all));
    return LoadLibrary(code, all, library);
  });
}

CUSPAN_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path,
                                             CUjit_option* jit, void** jit_values,
                                             unsigned jit_count, CUlibraryOption* options,
                                             void** values, unsigned count) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (library == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadOptions all;
    CUSPAN_RETURN_IF_FAILED(
        ReadLoadOptions(jit, jit_values, jit_count, options, values, count, &all));
    return LoadLibraryFromFile(path, all, library);
  });
}

CUSPAN_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return AnswerWithDriver([&](Session&) { return UnloadLibrary(library); });
}

// The library's handle is also its module's, in every context.
CUSPAN_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Library> found = session.libraries().Find(library);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CUSPAN_RETURN_IF_FAILED(connection.modules().Load(found->fatbin()));
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* found = nullptr;
    CUSPAN_RETURN_IF_FAILED(GetKernel(library, name, &found));
    *kernel = HandleOfKernel(found);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return CountKernels(library, count);
  });
}

CUSPAN_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned most,
                                                 CUlibrary library) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return ForKernels(library, most, [&](std::size_t index, const FunctionRecord* kernel) {
      kernels[index] = HandleOfKernel(kernel);
    });
  });
}

CUSPAN_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes,
                                          CUlibrary library, const char* name) {
  return GetAddress(address, bytes, library, name, false);
}

CUSPAN_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes,
                                           CUlibrary library, const char* name) {
  return GetAddress(address, bytes, library, name, true);
}

// Meant for devices able to run host functions. There are none: returns the errors of driver 580.
CUSPAN_EXPORT CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library,
                                                   const char* name) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return session.libraries().Find(library) != nullptr ? CUDA_ERROR_INVALID_VALUE
                                                        : CUDA_ERROR_INVALID_HANDLE;
  });
}

// --- Kernels

// The kernel's handle is also its function's, in every context.
CUSPAN_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return AnswerLocally([&](Session&, ContextConnection&) -> Error {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(kernel, &record));
    *function = reinterpret_cast<CUfunction>(HandleOfKernel(record));
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(kernel, &record));
    const std::shared_ptr<Library> found = session.libraries().Find(*record->fatbin);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *library = HandleOf<CUlibrary>(NumberOf(found->handle()));
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(kernel, &record));
    *name = record->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                            CUkernel kernel, CUdevice device) {
  const auto tell = [&](const LoadedKernel& loaded) -> Error {
    if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    *value = loaded.attribute(attribute);
    return CUDA_SUCCESS;
  };
  // Fast path: libraries query attributes before every launch.
  bool known = false;
  const CUresult told = AnswerFromTables([&](Session& session) -> Error {
    const std::shared_ptr<ContextConnection> connection = session.devices().OpenedFor(device);
    if (connection == nullptr || ButLost(connection->fault()) != CUDA_SUCCESS) return CUDA_SUCCESS;
    const LoadedKernel* const loaded = KnownKernel(*connection, kernel);
    known = loaded != nullptr;
    return known ? tell(*loaded) : CUDA_SUCCESS;
  });
  if (known) return told;
  return WithKernel(kernel, device, [&](Session&, ContextConnection&, LoadedKernel& loaded) {
    return tell(loaded);
  });
}

CUSPAN_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                            CUkernel kernel, CUdevice device) {
  return WithKernel(kernel, device,
                    [&](Session& session, ContextConnection& connection, LoadedKernel& loaded) {
                      return SetAttribute(session.devices().description(device), connection, loaded,
                                          attribute, value);
                    });
}

CUSPAN_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config,
                                              CUdevice device) {
  return WithKernel(kernel, device,
                    [&](Session&, ContextConnection& connection, LoadedKernel& loaded) {
                      return SetCacheConfig(connection, loaded, config);
                    });
}

CUSPAN_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset,
                                            std::size_t* bytes) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(kernel, &record));
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* loaded = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, *record, &loaded));
      return LocateParameter(*loaded, index, offset, bytes);
    });
  });
}
