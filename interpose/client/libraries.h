// Device code loaded by the program as a library (cudaLibraryLoadData) or as a module of one
// context (cuModuleLoadData), and its symbols found so far.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/modules.h"

namespace cuspan {

class ContextConnection;

// Threads: any. Symbols are looked up on the device of `connection`; it loads the library if
// necessary.
class Library {
 public:
  explicit Library(FatbinRecord* fatbin);

  // The program's cudaLibrary_t or CUmodule: a number (handles.h).
  const void* handle() const { return handle_; }
  FatbinRecord& fatbin() const { return *fatbin_; }
  // Number of the ContextConnection owning the module; 0 for a library.
  std::uint64_t owner() const { return fatbin_->owner; }
  // Finds a kernel; its record is in the registry from then on. CUDA_ERROR_NOT_FOUND for an unknown
  // name.
  CUresult Kernel(ContextConnection& connection, const std::string& name,
                  const FunctionRecord** kernel);
  // Finds a variable of any kind. A __managed__ variable has the same address on all of
  // `connections`, the devices in use, from then on. CUDA_ERROR_NOT_SUPPORTED if memory cannot be
  // shared for it.
  CUresult Variable(ContextConnection& connection,
                    const std::vector<std::shared_ptr<ContextConnection>>& connections,
                    const std::string& name, LoadedVariable* variable);
  // Returns all kernels of the library on the first device asked; none if its code is invalid
  // there.
  CUresult KernelNames(ContextConnection& connection, std::vector<std::string>* names);

 private:
  CUresult FindVariable(ContextConnection& connection, const std::string& name,
                        LoadedVariable* variable) CUSPAN_REQUIRES(mutex_);

  const void* const handle_;
  const std::shared_ptr<FatbinRecord> fatbin_;
  Mutex mutex_;
  std::map<std::string, const FunctionRecord*> kernels_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<VariableRecord>> variables_ CUSPAN_GUARDED_BY(mutex_);
  struct Managed {
    void** address;           // Location of the address.
    bool everywhere = false;  // Same address on all devices with the library.
  };
  std::map<std::string, Managed> managed_ CUSPAN_GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> names_ CUSPAN_GUARDED_BY(mutex_);
};

// Libraries and modules of the session. Threads: any.
class Libraries final : public ContextTable {
 public:
  // Adds loaded device code.
  std::shared_ptr<Library> Add(FatbinRecord* fatbin);
  // Null if `handle` is unknown or was removed.
  std::shared_ptr<Library> Find(const void* handle) const;
  // Returns the library with the code of `fatbin`.
  std::shared_ptr<Library> Find(const FatbinRecord& fatbin) const;
  // Removes a module, or a library, and returns it; null if `handle` is not of this kind.
  std::shared_ptr<Library> Remove(const void* handle, bool module);
  void Forget(const ContextConnection& ended) override;

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Library>> loaded_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by handle.
};

}  // namespace cuspan
