// Device code loaded by the program: libraries for all devices, and modules of one context each.
//
// CUDA compiles a library for a device at its first use there, and then reports invalid code. Here
// the current device gets the code at once and others at the first use. The result of a failed load
// is kept for the first use.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/large_bytes.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/calls/load_options.h"
#include "interpose/client/libraries.h"

namespace cuspan {

// Reads the file and appends a NUL, since source text has no end of its own.
// CUDA_ERROR_FILE_NOT_FOUND if it cannot be opened.
Error ReadCodeFile(const char* path, LargeBytes* code);

// `code`: any format accepted by CUDA as a module.
Error LoadLibrary(const void* code, const LoadOptions& options, CUlibrary* library);
Error LoadLibraryFromFile(const char* path, const LoadOptions& options, CUlibrary* library);
// CUDA_ERROR_INVALID_HANDLE if unknown or already unloaded.
Error UnloadLibrary(CUlibrary library);

// Loads a module into the current context.
Error LoadModule(const void* image, const Options<CUjit_option>& options, CUmodule* module);
Error LoadModuleFromFile(const char* path, CUmodule* module);
Error UnloadModule(CUmodule module);

// Calls body(Library&, Session&, ContextConnection&) → Error with the current device, or with a
// module's own context, whichever is current. `handle` is a library or a module.
template <typename Body>
Error WithLibrary(const void* handle, Body&& body) {
  return WithSession([&](Session& known) -> Error {
    const std::shared_ptr<Library> library = known.libraries().Find(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (library->owner() != 0) {
      const std::shared_ptr<ContextConnection> owner =
          known.devices().ConnectionNumbered(library->owner());
      if (owner == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      CUSPAN_RETURN_IF_FAILED(owner->fault());
      return body(*library, known, *owner);
    }
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      return body(*library, session, connection);
    });
  });
}

// CUDA_ERROR_NOT_FOUND if it has no kernel of this name.
Error GetKernel(const void* library, const char* name, const FunctionRecord** kernel);
Error CountKernels(const void* library, unsigned* count);
// Calls use(index, const FunctionRecord*) for at most `most` kernels.
template <typename Use>
Error ForKernels(const void* handle, unsigned most, Use&& use) {
  return WithLibrary(handle,
                     [&](Library& library, Session&, ContextConnection& connection) -> Error {
                       std::vector<std::string> names;
                       CUSPAN_RETURN_IF_FAILED(library.KernelNames(connection, &names));
                       for (std::size_t i = 0; i < names.size() && i < most; ++i) {
                         const FunctionRecord* record = nullptr;
                         CUSPAN_RETURN_IF_FAILED(library.Kernel(connection, names[i], &record));
                         use(i, record);
                       }
                       return CUDA_SUCCESS;
                     });
}
// Finds a variable; with `managed`, only a managed one. CUDA_ERROR_NOT_FOUND if there is no match.
Error GetVariable(const void* library, const char* name, bool managed, LoadedVariable* variable);

}  // namespace cuspan
