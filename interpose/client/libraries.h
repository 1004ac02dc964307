// The device code that the program loads itself, as a library (cudaLibraryLoadData) or as a module
// of one context (cuModuleLoadData), and what it has found in it so far.
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

// Any thread; what is found is asked of the device of the connection, which loads the library if it
// has not yet.
class Library {
 public:
  explicit Library(FatbinRecord* fatbin);

  // The program's cudaLibrary_t or CUmodule: a number (handles.h).
  const void* handle() const { return handle_; }
  FatbinRecord& fatbin() const { return *fatbin_; }
  // The number of the connection whose module it is; 0 for a library.
  std::uint64_t owner() const { return fatbin_->owner; }
  // The kernel's record is known to the registry from then on. CUDA_ERROR_NOT_FOUND when there is
  // none of that name.
  CUresult Kernel(ContextConnection& connection, const std::string& name,
                  const FunctionRecord** kernel);
  // A variable of any kind; a __managed__ one has the same address on all of `connections`, the
  // devices in use, from then on. CUDA_ERROR_NOT_SUPPORTED where memory can not be shared like
  // that.
  CUresult Variable(ContextConnection& connection,
                    const std::vector<std::shared_ptr<ContextConnection>>& connections,
                    const std::string& name, LoadedVariable* variable);
  // All kernels of the library, as the first device that was asked has them; none where its code is
  // invalid there.
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
    void** address;           // Where it stands.
    bool everywhere = false;  // All devices that had the library have it there.
  };
  std::map<std::string, Managed> managed_ CUSPAN_GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> names_ CUSPAN_GUARDED_BY(mutex_);
};

// Those of the session. Any thread.
class Libraries final : public ContextTable {
 public:
  // Of device code that is loaded.
  std::shared_ptr<Library> Add(FatbinRecord* fatbin);
  // Null when `handle` is neither, or one that was removed.
  std::shared_ptr<Library> Find(const void* handle) const;
  // The one that holds the code of `fatbin`.
  std::shared_ptr<Library> Find(const FatbinRecord& fatbin) const;
  // The same for a module, or for a library, and it is none any more.
  std::shared_ptr<Library> Remove(const void* handle, bool module);
  void Forget(const ContextConnection& ended) override;

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Library>> loaded_
      CUSPAN_GUARDED_BY(mutex_);  // By handle.
};

}  // namespace cuspan
