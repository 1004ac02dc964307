// Device code registered by the program's static constructors, and libraries loaded by the program:
// fat binaries, kernels and device variables. The registry only records them. A device gets a fat
// binary at the first use of a symbol in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/large_bytes.h"
#include "common/mutex.h"
#include "common/status.h"
#include "structs.gen.h"

namespace cuspan {

struct FatbinRecord;

// A kernel.
struct FunctionRecord {
  const FatbinRecord* fatbin;
  std::string name;    // Name in the device code.
  const void* host;    // Address of the stub; null for a library's kernel.
  const void* handle;  // The program's cudaKernel_t and CUfunction: a number (handles.h).
};

struct VariableRecord {
  const FatbinRecord* fatbin;
  std::string name;
  const void* host;  // Address of the host's shadow variable.
  std::size_t bytes;
  bool constant;
};

// A __managed__ variable.
struct ManagedRecord {
  const FatbinRecord* fatbin;
  std::string name;
  void** host;            // Location read by the program's code for the address.
  void* place = nullptr;  // Used as `*host` for a library's variable.
};

struct FatbinRecord : std::enable_shared_from_this<FatbinRecord> {
  std::uint64_t module;  // Handle of the module at the proxies.
  // The container in the program's memory; empty if malformed. For a library: any image CUDA takes
  // as a module.
  std::span<const std::byte> image;
  LargeBytes owned;  // Storage of `image` outside the program's memory.
  // Containers of the objects linked to `image` (relocatable code).
  std::vector<std::span<const std::byte>> objects;
  std::uint64_t owner =
      0;           // Number of the owning ContextConnection, if this is its module; else 0.
  JitRequest jit;  // Compile options of the program; constant after loading.
  std::string unsupported;  // Reason for refusing all its symbols; empty if usable.
  // Records of its symbols, at stable addresses. Guarded by the registry's mutex.
  std::list<FunctionRecord> functions;
  std::list<VariableRecord> variables;
  std::list<ManagedRecord> managed;
};

// Keeps the record, and all records of its fat binary, alive.
inline std::shared_ptr<const FunctionRecord> SharedRecord(const FunctionRecord& function) {
  return {function.fatbin->shared_from_this(), &function};
}

// Returns the record of a kernel without a stub, not yet in the registry.
FunctionRecord NewKernel(const FatbinRecord& fatbin, std::string name);

// Threads: any. Records live until their fat binary is removed and the last reference is gone.
class Registry {
 public:
  // Returns the registry of this process, usable before any constructor has run.
  static Registry& Get();

  // `wrapper`: the argument of nvcc's code to __cudaRegisterFatBinary.
  FatbinRecord* AddFatbin(const void* wrapper);
  // Adds a library. `image` is anything CUDA takes as a module. If `preserved`, it must stay in
  // place until RemoveFatbin; otherwise it is copied. kInvalid if its headers are invalid.
  Result<FatbinRecord*> AddImage(const void* image, bool preserved);
  FatbinRecord* AddImage(LargeBytes image);
  // Frees the images: no other device will load them. Called before others know the record.
  static void ForgetImages(FatbinRecord& fatbin);
  // Null if it was removed before. Otherwise the caller keeps it until all devices have unloaded
  // it: a table may find its symbols by the addresses of the records.
  [[nodiscard]] std::shared_ptr<FatbinRecord> RemoveFatbin(const FatbinRecord* fatbin);
  // Marks the fat binary as using an unsupported feature; the first reason stays.
  void SetUnsupported(FatbinRecord* fatbin, std::string why);
  FunctionRecord* AddFunction(FatbinRecord* fatbin, const void* host, const char* name);
  // Adds kernels without stubs, made by NewKernel. Their records keep their addresses.
  void AddKernels(FatbinRecord* fatbin, std::list<FunctionRecord> kernels);
  VariableRecord* AddVariable(FatbinRecord* fatbin, const void* host, const char* name,
                              std::size_t bytes, bool constant);

  // `host`: null for a library's variable. Returns the location of its address.
  void** AddManaged(FatbinRecord* fatbin, void** host, const char* name);
  std::vector<const ManagedRecord*> ManagedOf(const FatbinRecord& fatbin) const;

  // `key`: host stub or handle of the record. Null if unknown.
  const FunctionRecord* FindFunction(const void* key) const;
  const VariableRecord* FindVariable(const void* host) const;

  // Incremented whenever cached results of FindFunction may be stale.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  FatbinRecord* Add(std::shared_ptr<FatbinRecord> record);
  void Enter(FatbinRecord& fatbin, std::list<FunctionRecord> kernels) CUSPAN_REQUIRES(mutex_);
  // Erases in constant time: programs remove thousands of fat binaries with a hundred thousand
  // kernels, one by one, at exit.
  template <typename Record>
  static void Erase(std::unordered_map<const void*, const Record*>& records, const void* key,
                    const Record& record) {
    const auto known = records.find(key);
    // Another library may own the address by now.
    if (known != records.end() && known->second == &record) records.erase(known);
  }

  std::atomic<std::uint64_t> version_{1};
  mutable SharedMutex mutex_;
  std::unordered_map<const FatbinRecord*, std::shared_ptr<FatbinRecord>> fatbins_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const void*, const FunctionRecord*> functions_by_key_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const void*, const VariableRecord*> variables_by_host_
      CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
