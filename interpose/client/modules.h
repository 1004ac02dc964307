// The program's kernels and variables on one device. A fat binary is sent to the proxy once, at the
// first use of one of its symbols.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

class Connection;
class DeviceMemory;
class ManagedVariables;

// Cache of the driver's occupancy results: blocks of a kernel per multiprocessor. Threads: any.
class Occupancies {
 public:
  struct Key {
    int block_threads;
    std::uint64_t dynamic_shared;
    unsigned flags;  // Flags of the driver's query, or kLargestCluster.
    auto operator<=>(const Key&) const = default;
  };
  // Stands for the blocks of the largest cluster instead.
  static constexpr unsigned kLargestCluster = ~0U;
  std::optional<int> Find(const Key& key) {
    const MutexLock lock(mutex_);
    const auto known = blocks_.find(key);
    return known == blocks_.end() ? std::nullopt : std::optional(known->second);
  }
  void Add(const Key& key, int blocks) {
    const MutexLock lock(mutex_);
    if (blocks_.size() == kMost) blocks_.clear();
    blocks_[key] = blocks;
  }
  // To be called after a change of the kernel's attributes.
  void Clear() {
    const MutexLock lock(mutex_);
    blocks_.clear();
  }

 private:
  // Limits the memory used for programs querying each size of dynamic shared memory.
  static constexpr std::size_t kMost = 1024;
  Mutex mutex_;
  std::map<Key, int> blocks_ CUSPAN_GUARDED_BY(mutex_);
};

// A kernel on one device. Lives as long as the ContextConnection.
struct LoadedKernel {
  std::uint64_t handle;
  std::vector<std::uint32_t> parameter_bytes;
  std::vector<std::uint32_t> parameter_offsets;  // Position of each in the argument buffer.
  std::uint32_t argument_bytes;                  // Sum of parameter_bytes.
  // Indexed by CUfunction_attribute; settable ones change with KernelSetAttribute.
  std::vector<std::atomic<int>> attributes;
  // Held while one is set: the device and this table get the same last value.
  std::unique_ptr<Mutex> setting = std::make_unique<Mutex>();
  // Bits of the attributes set by cudaFuncSetAttribute, by number.
  std::unique_ptr<std::atomic<std::uint32_t>> set_by_function =
      std::make_unique<std::atomic<std::uint32_t>>(0);
  std::unique_ptr<Occupancies> occupancies = std::make_unique<Occupancies>();
  int attribute(CUfunction_attribute which) const {
    return static_cast<std::size_t>(which) < attributes.size() ? attributes[which].load() : 0;
  }
};

struct LoadedVariable {
  std::uint64_t address;
  std::uint64_t bytes;
  bool managed = false;  // A __managed__ variable: the host and other devices use another address.
};

class Modules {
 public:
  // All outlive it. `variables`: null if the device has no shared memory.
  Modules(Connection* connection, DeviceMemory* memory, ManagedVariables* variables)
      : connection_(connection), memory_(memory), managed_(variables) {}

  // Loads the fat binary if needed. CUDA_ERROR_NOT_FOUND if it has no kernel of this name.
  CUresult Kernel(const FunctionRecord& function, LoadedKernel** kernel);
  CUresult Variable(const VariableRecord& variable, LoadedVariable* loaded);
  // Only loads the fat binary, for use by the host. `answer`, if not null, gets the output of the
  // JIT options, if this call loads it.
  CUresult Load(const FatbinRecord& fatbin, JitAnswer* answer = nullptr);
  // Assigns locations to the managed variables of a loaded module. CUDA_ERROR_NOT_SUPPORTED if it
  // has any and the device has no shared memory.
  CUresult PlaceManaged(const FatbinRecord& fatbin);
  // Returns the managed variable at the address, for accesses by symbol.
  std::optional<BlockAllocator::Range> ManagedVariable(std::uint64_t address) const;
  // True if the device has loaded it successfully.
  bool Has(const FatbinRecord& fatbin) const;
  // Maximum local memory per thread of the kernels found so far, in bytes.
  std::uint64_t most_local_bytes() const { return most_local_bytes_.load(); }
  // Unloads `fatbin`: its library is being unloaded.
  void Unload(const FatbinRecord& fatbin);

 private:
  struct LoadedModule {
    Mutex loading;
    bool sent CUSPAN_GUARDED_BY(loading) = false;  // Known to the proxy.
    bool loaded CUSPAN_GUARDED_BY(loading) = false;
    std::atomic<bool> usable = false;  // Loaded by the driver; read without the lock.
    CUresult result CUSPAN_GUARDED_BY(loading) = CUDA_SUCCESS;
  };

  std::atomic<std::uint64_t> most_local_bytes_{0};
  Connection* const connection_;
  DeviceMemory* const memory_;
  ManagedVariables* const managed_;
  mutable SharedMutex mutex_;
  std::unordered_map<const FatbinRecord*, std::unique_ptr<LoadedModule>> modules_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const FunctionRecord*, std::unique_ptr<LoadedKernel>> kernels_
      CUSPAN_GUARDED_BY(mutex_);
  std::unordered_map<const VariableRecord*, LoadedVariable> variables_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
