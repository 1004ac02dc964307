// What the program's static constructors told us, and the libraries that it loads
// itself: their fat binaries, kernels and device variables. Only recorded here; a
// device sees a fat binary at the first use of something in it.
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

#include "common/mutex.h"
#include "common/status.h"
#include "structs.gen.h"

namespace cuspan {

struct FatbinRecord;

// A kernel.
struct FunctionRecord {
  const FatbinRecord* fatbin;  // It holds this record, too.
  std::string name;            // As the device code calls it.
  const void* host;            // The stub's address; null for a library's.
  const void* handle;          // The program's cudaKernel_t and CUfunction. A number (handles.h).
};

struct VariableRecord {
  const FatbinRecord* fatbin;
  std::string name;
  const void* host;  // The host's shadow of it.
  std::size_t bytes;
  bool constant;
};

// A __managed__ variable.
struct ManagedRecord {
  const FatbinRecord* fatbin;
  std::string name;
  void** host;            // Where the program's code looks for its address.
  void* place = nullptr;  // That place, for a library's, which no code knows.
};

struct FatbinRecord : std::enable_shared_from_this<FatbinRecord> {
  std::uint64_t module;              // The handle that proxies know it by.
  std::span<const std::byte> image;  // The container in the program's memory; empty when it was
                                     // malformed. Of a library: whatever CUDA takes as a module.
  std::vector<std::byte> owned;      // `image`, where it is not in the program's memory.
  // Of relocatable code: the containers of the objects that were linked to `image`.
  std::vector<std::span<const std::byte>> objects;
  std::uint64_t owner = 0;  // The number of the connection whose module it is; 0: no module.
  JitRequest jit;           // How the program wants it compiled; constant once it is loaded.
  std::string unsupported;  // Why nothing in it can be used yet; empty when all can.
  // Records of what is in it, each at one address. The registry's, under its mutex.
  std::list<FunctionRecord> functions;
  std::list<VariableRecord> variables;
  std::list<ManagedRecord> managed;
};

// Keeps the record, and all records of its fat binary, alive.
inline std::shared_ptr<const FunctionRecord> SharedRecord(const FunctionRecord& function) {
  return {function.fatbin->shared_from_this(), &function};
}

// The record of a kernel without a stub, which the registry does not know yet.
FunctionRecord NewKernel(const FatbinRecord& fatbin, std::string name);

// Any thread. Records live until their fat binary was removed and nobody holds it any more.
class Registry {
 public:
  // The one of this process, usable before any constructor has run.
  static Registry& Get();

  // `wrapper` is what nvcc's code passes to __cudaRegisterFatBinary.
  FatbinRecord* AddFatbin(const void* wrapper);
  // A library: `image` is anything that CUDA takes as a module. It is copied, or must stay where
  // it is until RemoveFatbin if `preserved`. kInvalid when it says itself that it is damaged.
  Result<FatbinRecord*> AddImage(const void* image, bool preserved);
  FatbinRecord* AddImage(std::vector<std::byte> image);
  // Null where it was removed before. Otherwise the caller keeps it until no device knows of it: a
  // table may find what is in it by the addresses of the records.
  [[nodiscard]] std::shared_ptr<FatbinRecord> RemoveFatbin(const FatbinRecord* fatbin);
  // Something in it needs what we can not do; the first reason stays.
  void SetUnsupported(FatbinRecord* fatbin, std::string why);
  FunctionRecord* AddFunction(FatbinRecord* fatbin, const void* host, const char* name);
  // Kernels without stubs, as NewKernel makes them. Their records keep their addresses.
  void AddKernels(FatbinRecord* fatbin, std::list<FunctionRecord> kernels);
  VariableRecord* AddVariable(FatbinRecord* fatbin, const void* host, const char* name,
                              std::size_t bytes, bool constant);

  // `host`: null for a library's. Returns where the address will stand.
  void** AddManaged(FatbinRecord* fatbin, void** host, const char* name);
  std::vector<const ManagedRecord*> ManagedOf(const FatbinRecord& fatbin) const;

  // By host stub or by the record's handle; null when unknown.
  const FunctionRecord* FindFunction(const void* key) const;
  const VariableRecord* FindVariable(const void* host) const;

  // Another number whenever what FindFunction would answer, or what it leads to, may be another.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  FatbinRecord* Add(std::shared_ptr<FatbinRecord> record);
  void Enter(FatbinRecord& fatbin, std::list<FunctionRecord> kernels) CUSPAN_REQUIRES(mutex_);
  // Programs have thousands of fat binaries with a hundred thousand kernels, and take each of them
  // away when they end.
  template <typename Record>
  static void Erase(std::unordered_map<const void*, const Record*>& records, const void* key,
                    const Record& record) {
    const auto known = records.find(key);
    // The address may belong to another library meanwhile.
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
