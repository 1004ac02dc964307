// Libraries of device code that a program loads itself, from memory or a file.
//
// CUDA compiles a library for a device when it is first used there. Here the current device gets it
// at once, so that what is wrong with it is said by the call that loads it, and others at the first
// use.
#include "interpose/client/libraries.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "common/format.h"
#include "common/log.h"
#include "common/unique_fd.h"
#include "interpose/runtime/entry.h"
#include "protocol/fatbin/image.h"

namespace cuspan {
namespace {

template <typename Option>
struct Options {
  std::span<const Option> names;
  void** values;
};

template <typename Option>
Error Take(const Option* names, void** values, unsigned count, Options<Option>* out) {
  if (count != 0 && names == nullptr) return cudaErrorInvalidValue;
  *out = {{names, count}, values};
  return cudaSuccess;
}

// The device's driver compiles with its defaults: what the options change is how fast the code is
// and what is said about it. What they are to return is written as if nothing had been said.
Error ApplyJitOptions(const Options<cudaJitOption>& options) {
  char* logs[2] = {nullptr, nullptr};
  std::size_t log_bytes[2] = {0, 0};
  if (!options.names.empty() && options.values == nullptr) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    void*& value = options.values[i];
    switch (options.names[i]) {
      case cudaJitInfoLogBuffer:
      case cudaJitErrorLogBuffer:
        logs[options.names[i] == cudaJitErrorLogBuffer] = static_cast<char*>(value);
        break;
      case cudaJitInfoLogBufferSizeBytes:
      case cudaJitErrorLogBufferSizeBytes:
        log_bytes[options.names[i] == cudaJitErrorLogBufferSizeBytes] =
            static_cast<unsigned>(NumberOf(value));
        value = nullptr;
        break;
      case cudaJitWallTime:
        value = nullptr;  // 0.0F in its first bytes.
        break;
      case cudaJitMaxRegisters:
      case cudaJitThreadsPerBlock:
      case cudaJitOptimizationLevel:
      case cudaJitFallbackStrategy:
      case cudaJitGenerateDebugInfo:
      case cudaJitLogVerbose:
      case cudaJitGenerateLineInfo:
      case cudaJitCacheMode:
      case cudaJitPositionIndependentCode:
      case cudaJitMinCtaPerSm:
      case cudaJitMaxThreadsPerBlock:
      case cudaJitOverrideDirectiveValues:
        break;
      default:
        return cudaErrorInvalidValue;
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (logs[i] != nullptr && log_bytes[i] != 0) logs[i][0] = '\0';
  }
  return cudaSuccess;
}

Error ApplyLibraryOptions(const Options<cudaLibraryOption>& options, bool* preserved) {
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    switch (options.names[i]) {
      case cudaLibraryBinaryIsPreserved:
        // A hint, of which no text says what value turns it on.
        *preserved = options.values != nullptr && options.values[i] != nullptr;
        break;
      case cudaLibraryHostUniversalFunctionAndDataTable:
        return NotSupported(
            "a library with option cudaLibraryHostUniversalFunctionAndDataTable, host functions "
            "for device code,");
      default:
        return cudaErrorInvalidValue;
    }
  }
  return cudaSuccess;
}

// Makes a library of `fatbin`, or forgets it.
Error LoadOnCurrentDevice(FatbinRecord* fatbin, cudaLibrary_t* library) {
  const Error result = OnCurrentDevice([&](Session& session, Link& link) -> Error {
    CUSPAN_RETURN_IF_FAILED(link.modules().Load(*fatbin));
    *library = reinterpret_cast<cudaLibrary_t>(session.libraries().Add(fatbin));
    return cudaSuccess;
  });
  if (result.failed()) {
    if (Session* const session = Session::IfStarted()) session->devices().Unload(*fatbin);
    Registry::Get().RemoveFatbin(fatbin);
  }
  return result;
}

Error LoadData(cudaLibrary_t* library, const void* code, const Options<cudaJitOption>& jit,
               const Options<cudaLibraryOption>& options) {
  bool preserved = false;
  CUSPAN_RETURN_IF_FAILED(ApplyJitOptions(jit));
  CUSPAN_RETURN_IF_FAILED(ApplyLibraryOptions(options, &preserved));
  const Result<FatbinRecord*> fatbin = Registry::Get().AddImage(code, preserved);
  if (!fatbin.ok()) {
    LogError("a library cannot be loaded: {}", fatbin.status().message());
    return cudaErrorInvalidKernelImage;
  }
  return LoadOnCurrentDevice(*fatbin, library);
}

Error ReadLibrary(const char* path, std::vector<std::byte>* image) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cudaErrorFileNotFound;
  constexpr std::size_t kStep = 1 << 20;
  std::size_t bytes = 0;
  for (;;) {
    image->resize(bytes + kStep);
    const ssize_t got = ::read(file.get(), image->data() + bytes, kStep);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      LogError("the library {} cannot be read: {}", path, std::strerror(errno));
      return cudaErrorOperatingSystem;
    }
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
    if (bytes >= fatbin::kMostModuleBytes) {
      LogError("the library {} has more than {} bytes", path, fatbin::kMostModuleBytes - 1);
      return cudaErrorInvalidKernelImage;
    }
  }
  // A text has no end of its own in a file.
  image->resize(bytes + 1);
  image->back() = std::byte{0};
  return cudaSuccess;
}

Error LoadFromFile(cudaLibrary_t* library, const char* path, const Options<cudaJitOption>& jit,
                   const Options<cudaLibraryOption>& options) {
  for (const cudaLibraryOption option : options.names) {
    if (option == cudaLibraryBinaryIsPreserved) return cudaErrorInvalidValue;
  }
  bool preserved = false;
  CUSPAN_RETURN_IF_FAILED(ApplyJitOptions(jit));
  CUSPAN_RETURN_IF_FAILED(ApplyLibraryOptions(options, &preserved));
  std::vector<std::byte> image;
  CUSPAN_RETURN_IF_FAILED(ReadLibrary(path, &image));
  return LoadOnCurrentDevice(Registry::Get().AddImage(std::move(image)), library);
}

// body(Library&, Session&, Link&) → Error, with the current device.
template <typename Body>
Error WithLibrary(cudaLibrary_t handle, Body&& body) {
  return WithSession([&](Session& known) -> Error {
    Library* const library = known.libraries().Find(handle);
    if (library == nullptr) return cudaErrorInvalidResourceHandle;
    return OnCurrentDevice(
        [&](Session& session, Link& link) -> Error { return body(*library, session, link); });
  });
}

// What CUDA calls a name that is not there; the numbers of both are the same.
static_assert(static_cast<int>(cudaErrorSymbolNotFound) == static_cast<int>(CUDA_ERROR_NOT_FOUND));

cudaKernel_t HandleOfKernel(const FunctionRecord* kernel) {
  return reinterpret_cast<cudaKernel_t>(const_cast<FunctionRecord*>(kernel));
}

Error GetVariable(void** address, std::size_t* bytes, cudaLibrary_t handle, const char* name,
                  bool managed) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return cudaErrorInvalidValue;
  return WithLibrary(handle, [&](Library& library, Session& session, Link& link) -> Error {
    std::vector<std::shared_ptr<Link>> links;
    for (int device = 0; device < session.devices().count(); ++device) {
      if (auto opened = session.devices().Opened(device)) links.push_back(std::move(opened));
    }
    LoadedVariable variable{};
    const CUresult result = library.Variable(link, links, name, &variable);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      return NotSupported(
          "a managed variable of a library in a process in which its address range is in use");
    }
    CUSPAN_RETURN_IF_FAILED(result);
    if (managed && !variable.managed) return cudaErrorSymbolNotFound;
    if (address != nullptr) *address = HandleOf<void*>(variable.address);
    if (bytes != nullptr) *bytes = variable.bytes;
    return cudaSuccess;
  });
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
    Options<cudaJitOption> jit;
    Options<cudaLibraryOption> options;
    CUSPAN_RETURN_IF_FAILED(Take(jit_options, jit_values, jit_count, &jit));
    CUSPAN_RETURN_IF_FAILED(Take(library_options, library_values, library_count, &options));
    return LoadData(library, code, jit, options);
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path,
                                                  cudaJitOption* jit_options, void** jit_values,
                                                  unsigned jit_count,
                                                  cudaLibraryOption* library_options,
                                                  void** library_values, unsigned library_count) {
  return Answer([&]() -> Error {
    if (library == nullptr || path == nullptr) return cudaErrorInvalidValue;
    Options<cudaJitOption> jit;
    Options<cudaLibraryOption> options;
    CUSPAN_RETURN_IF_FAILED(Take(jit_options, jit_values, jit_count, &jit));
    CUSPAN_RETURN_IF_FAILED(Take(library_options, library_values, library_count, &options));
    return LoadFromFile(library, path, jit, options);
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (handle == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      Library* const library = session.libraries().Remove(handle);
      if (library == nullptr) return cudaErrorInvalidResourceHandle;
      Registry::Get().RemoveFatbin(&library->fatbin());
      session.devices().Unload(library->fatbin());
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t handle,
                                               const char* name) {
  return Answer([&]() -> Error {
    if (kernel == nullptr || name == nullptr) return cudaErrorInvalidValue;
    return WithLibrary(handle, [&](Library& library, Session&, Link& link) -> Error {
      const FunctionRecord* record = nullptr;
      CUSPAN_RETURN_IF_FAILED(library.Kernel(link, name, &record));
      *kernel = HandleOfKernel(record);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetGlobal(void** address, std::size_t* bytes,
                                               cudaLibrary_t handle, const char* name) {
  return Answer([&] { return GetVariable(address, bytes, handle, name, false); });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetManaged(void** address, std::size_t* bytes,
                                                cudaLibrary_t handle, const char* name) {
  return Answer([&] { return GetVariable(address, bytes, handle, name, true); });
}

// For devices that run functions of the host, of which there is none: the answer is CUDA's for a
// system without one.
CUSPAN_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t handle,
                                                        const char* name) {
  return Answer([&]() -> Error {
    if (function == nullptr || name == nullptr) return cudaErrorInvalidValue;
    // There is none: what driver 580 answers on a device without such functions.
    return WithLibrary(handle,
                       [&](Library&, Session&, Link&) -> Error { return cudaErrorInvalidValue; });
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (count == nullptr) return cudaErrorInvalidValue;
    return WithLibrary(handle, [&](Library& library, Session&, Link& link) -> Error {
      std::vector<std::string> names;
      CUSPAN_RETURN_IF_FAILED(library.KernelNames(link, &names));
      *count = static_cast<unsigned>(names.size());
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned most,
                                                      cudaLibrary_t handle) {
  return Answer([&]() -> Error {
    if (kernels == nullptr) return cudaErrorInvalidValue;
    return WithLibrary(handle, [&](Library& library, Session&, Link& link) -> Error {
      std::vector<std::string> names;
      CUSPAN_RETURN_IF_FAILED(library.KernelNames(link, &names));
      for (std::size_t i = 0; i < names.size() && i < most; ++i) {
        const FunctionRecord* record = nullptr;
        CUSPAN_RETURN_IF_FAILED(library.Kernel(link, names[i], &record));
        kernels[i] = HandleOfKernel(record);
      }
      return cudaSuccess;
    });
  });
}
