#include "interpose/calls/library.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "common/unique_fd.h"
#include "protocol/fatbin/image.h"

namespace cuspan {
namespace {

Error ApplyLibraryOptions(const Options<CUlibraryOption>& options, bool* preserved) {
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    switch (options.names[i]) {
      case CU_LIBRARY_BINARY_IS_PRESERVED:
        // A hint. CUDA's documentation does not name the value enabling it.
        *preserved = options.values != nullptr && options.values[i] != nullptr;
        break;
      case CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE:
        return NotSupported(
            "a library with option cudaLibraryHostUniversalFunctionAndDataTable (host functions "
            "for device code)");
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

enum class Kind { kLibrary, kModule };

Error AddImage(const void* code, bool preserved, Kind kind, FatbinRecord** fatbin) {
  const Result<FatbinRecord*> added = Registry::Get().AddImage(code, preserved);
  if (added.ok()) {
    *fatbin = *added;
    return CUDA_SUCCESS;
  }
  LogError("device code cannot be loaded: {}", added.status().message());
  if (kind == Kind::kModule) return CUDA_ERROR_INVALID_IMAGE;
  // Adds an empty image: each use of the library fails with this error.
  *fatbin = Registry::Get().AddImage(LargeBytes());
  return CUDA_SUCCESS;
}

Error AddFile(const char* path, FatbinRecord** fatbin) {
  LargeBytes image;
  CUSPAN_RETURN_IF_FAILED(ReadCodeFile(path, &image));
  if (image.size() == 1) return CUDA_ERROR_INVALID_IMAGE;  // The NUL alone.
  *fatbin = Registry::Get().AddImage(std::move(image));
  return CUDA_SUCCESS;
}

// Makes a library or a module of `fatbin`, or removes it on failure. Writes the outputs of `jit` in
// both cases.
template <typename Handle>
Error LoadOnCurrentDevice(FatbinRecord* fatbin, const JitOptions& jit, Kind kind, Handle* handle) {
  fatbin->jit = jit.request();
  const Error result =
      OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
        JitAnswer answer;
        const CUresult loaded = connection.modules().Load(*fatbin, &answer);
        jit.Answer(answer);
        const bool fails = kind == Kind::kModule || connection.fault() != CUDA_SUCCESS;
        if (loaded != CUDA_SUCCESS && fails) return loaded;
        if (kind == Kind::kModule) {
          fatbin->owner = connection.number();
          Registry::ForgetImages(*fatbin);
        }
        *handle = HandleOf<Handle>(NumberOf(session.libraries().Add(fatbin)->handle()));
        return CUDA_SUCCESS;
      });
  if (result.failed()) {
    const std::shared_ptr<const FatbinRecord> removed = Registry::Get().RemoveFatbin(fatbin);
    if (Session* const session = Session::IfStarted()) session->devices().Unload(*removed);
  }
  return result;
}

Error Unload(const void* handle, Kind kind) {
  return WithSession([&](Session& session) -> Error {
    const auto library = session.libraries().Remove(handle, kind == Kind::kModule);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    static_cast<void>(Registry::Get().RemoveFatbin(&library->fatbin()));
    session.devices().Unload(library->fatbin());
    return CUDA_SUCCESS;
  });
}

}  // namespace

Error ReadCodeFile(const char* path, LargeBytes* code) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return CUDA_ERROR_FILE_NOT_FOUND;
  // Other files than regular ones have no size, and this one's may change.
  struct stat status {};
  const bool has_size = ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  constexpr std::size_t kLeast = 64 << 10;
  std::size_t room = kLeast;
  if (has_size)
    room = std::clamp<std::size_t>(static_cast<std::size_t>(status.st_size), 0,
                                   fatbin::kMaxModuleBytes) +
           2;  // The NUL, and the file's end.
  LargeBytes read(room);
  std::size_t bytes = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), read.data() + bytes, read.size() - 1 - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      LogError("device code of {} cannot be read: {}", path, std::strerror(errno));
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
    if (bytes >= fatbin::kMaxModuleBytes) {
      LogError("device code of {} has more than {} bytes", path, fatbin::kMaxModuleBytes - 1);
      return CUDA_ERROR_INVALID_IMAGE;
    }
    if (bytes < read.size() - 1) continue;
    LargeBytes more(2 * read.size() + kLeast);
    std::copy_n(read.data(), bytes, more.data());
    read = std::move(more);
  }
  read.data()[bytes] = std::byte{0};
  read.Shorten(bytes + 1);
  *code = std::move(read);
  return CUDA_SUCCESS;
}

Error LoadLibrary(const void* code, const LoadOptions& options, CUlibrary* library) {
  bool preserved = false;
  JitOptions jit;
  CUSPAN_RETURN_IF_FAILED(jit.Read(options.jit));
  CUSPAN_RETURN_IF_FAILED(ApplyLibraryOptions(options.library, &preserved));
  FatbinRecord* fatbin = nullptr;
  CUSPAN_RETURN_IF_FAILED(AddImage(code, preserved, Kind::kLibrary, &fatbin));
  return LoadOnCurrentDevice(fatbin, jit, Kind::kLibrary, library);
}

Error LoadLibraryFromFile(const char* path, const LoadOptions& options, CUlibrary* library) {
  for (const CUlibraryOption option : options.library.names)
    if (option == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
  bool preserved = false;
  JitOptions jit;
  CUSPAN_RETURN_IF_FAILED(jit.Read(options.jit));
  CUSPAN_RETURN_IF_FAILED(ApplyLibraryOptions(options.library, &preserved));
  FatbinRecord* fatbin = nullptr;
  CUSPAN_RETURN_IF_FAILED(AddFile(path, &fatbin));
  return LoadOnCurrentDevice(fatbin, jit, Kind::kLibrary, library);
}

Error UnloadLibrary(CUlibrary library) { return Unload(library, Kind::kLibrary); }

Error LoadModule(const void* image, const Options<CUjit_option>& options, CUmodule* module) {
  JitOptions jit;
  CUSPAN_RETURN_IF_FAILED(jit.Read(options));
  FatbinRecord* fatbin = nullptr;
  // A module is loaded now, and not again.
  CUSPAN_RETURN_IF_FAILED(AddImage(image, true, Kind::kModule, &fatbin));
  return LoadOnCurrentDevice(fatbin, jit, Kind::kModule, module);
}

Error LoadModuleFromFile(const char* path, CUmodule* module) {
  FatbinRecord* fatbin = nullptr;
  CUSPAN_RETURN_IF_FAILED(AddFile(path, &fatbin));
  return LoadOnCurrentDevice(fatbin, {}, Kind::kModule, module);
}

Error UnloadModule(CUmodule module) { return Unload(module, Kind::kModule); }

Error GetKernel(const void* handle, const char* name, const FunctionRecord** kernel) {
  return WithLibrary(handle,
                     [&](Library& library, Session&, ContextConnection& connection) -> Error {
                       return library.Kernel(connection, name, kernel);
                     });
}

Error CountKernels(const void* handle, unsigned* count) {
  return WithLibrary(handle,
                     [&](Library& library, Session&, ContextConnection& connection) -> Error {
                       std::vector<std::string> names;
                       CUSPAN_RETURN_IF_FAILED(library.KernelNames(connection, &names));
                       *count = static_cast<unsigned>(names.size());
                       return CUDA_SUCCESS;
                     });
}

Error GetVariable(const void* handle, const char* name, bool managed, LoadedVariable* variable) {
  return WithLibrary(
      handle, [&](Library& library, Session& session, ContextConnection& connection) -> Error {
        const CUresult result =
            library.Variable(connection, session.devices().ContextConnections(), name, variable);
        if (result == CUDA_ERROR_NOT_SUPPORTED) {
          return NotSupported(
              "a managed variable of a library (the address range of managed memory is in use in "
              "this process)");
        }
        CUSPAN_RETURN_IF_FAILED(result);
        return managed && !variable->managed ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
      });
}

}  // namespace cuspan
