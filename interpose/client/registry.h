// What the program's static constructors told us, and the libraries that it loads
// itself: their fat binaries, kernels and device variables. Only recorded here; a
// device sees a fat binary at the first use of something in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "structs.gen.h"

namespace cuspan {

struct FatbinRecord {
  std::uint64_t module;              // The handle that proxies know it by.
  std::span<const std::byte> image;  // The container in the program's memory; empty when it was
                                     // malformed. Of a library: whatever CUDA takes as a module.
  std::vector<std::byte> owned;      // `image`, where it is not in the program's memory.
  // Of relocatable code: the containers of the objects that were linked to `image`.
  std::vector<std::span<const std::byte>> objects;
  std::uint64_t owner = 0;  // The number of the link whose module it is; 0: no module.
  JitRequest jit;           // How the program wants it compiled; constant once it is loaded.
  bool registered = true;   // Cleared when the library that holds it goes.
  std::string unsupported;  // Why nothing in it can be used yet; empty when all can.
};

// A kernel. Its address doubles as the program's cudaKernel_t.
struct FunctionRecord {
  const FatbinRecord* fatbin;
  std::string name;  // As the device code calls it.
  const void* host;  // The stub's address.
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

// Any thread; records live for ever.
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
  void RemoveFatbin(FatbinRecord* fatbin);
  // Something in it needs what we can not do; the first reason stays.
  void SetUnsupported(FatbinRecord* fatbin, std::string why);
  FunctionRecord* AddFunction(const FatbinRecord* fatbin, const void* host, const char* name);
  // A kernel without a stub, known by its record, which the caller keeps for ever.
  void AddKernel(const FunctionRecord& record);
  VariableRecord* AddVariable(const FatbinRecord* fatbin, const void* host, const char* name,
                              std::size_t bytes, bool constant);

  // `host`: null for a library's. Returns where the address will stand.
  void** AddManaged(const FatbinRecord* fatbin, void** host, const char* name);
  std::vector<const ManagedRecord*> ManagedOf(const FatbinRecord& fatbin) const;

  // By host stub or by what AddFunction returned; null when unknown.
  const FunctionRecord* FindFunction(const void* key) const;
  const VariableRecord* FindVariable(const void* host) const;

  // Another number whenever what FindFunction would answer, or what it leads to, may be another.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  // What is known of a fat binary: keys of the maps below. Programs have thousands of fat binaries
  // with a hundred thousand kernels, and take each of them away when they end.
  struct Keys {
    std::vector<const void*> functions;
    std::vector<const void*> variables;
  };
  FatbinRecord* Add(FatbinRecord record);
  void Enter(const void* key, const FunctionRecord& record) CUSPAN_REQUIRES(mutex_);

  std::atomic<std::uint64_t> version_{1};
  mutable SharedMutex mutex_;
  std::deque<FatbinRecord> fatbins_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<FunctionRecord> functions_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<VariableRecord> variables_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<ManagedRecord> managed_ CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const void*, const FunctionRecord*> functions_by_key_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const void*, const VariableRecord*> variables_by_host_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const FatbinRecord*, Keys> keys_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
