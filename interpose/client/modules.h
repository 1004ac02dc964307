// The program's kernels and variables on one device: a fat binary goes to the
// proxy at the first use of something in it, once.
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

// How many blocks of a kernel fit a multiprocessor, as the driver said. Any thread.
class Occupancies {
 public:
  struct Key {
    int block_threads;
    std::uint64_t dynamic_shared;
    unsigned flags;  // Of the question to the driver; or kLargestCluster.
    auto operator<=>(const Key&) const = default;
  };
  // The blocks of the largest cluster, instead.
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
  // An attribute of the kernel has changed.
  void Clear() {
    const MutexLock lock(mutex_);
    blocks_.clear();
  }

 private:
  // Programs that ask for each size of their dynamic shared memory must not fill the process.
  static constexpr std::size_t kMost = 1024;
  Mutex mutex_;
  std::map<Key, int> blocks_ CUSPAN_GUARDED_BY(mutex_);
};

// A kernel on one device. Lives as long as the connection.
struct LoadedKernel {
  std::uint64_t handle;
  std::vector<std::uint32_t> parameter_bytes;
  std::vector<std::uint32_t> parameter_offsets;  // Where each lies in a buffer of all.
  std::uint32_t argument_bytes;                  // The sum of their bytes.
  // By CUfunction_attribute; the ones that can be set change with KernelSetAttribute.
  std::vector<std::atomic<int>> attributes;
  // Held while one is set, so that the device and this agree on the last.
  std::unique_ptr<Mutex> setting = std::make_unique<Mutex>();
  // Bits by number, of those that cudaFuncSetAttribute has set.
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
  bool managed =
      false;  // A __managed__ one: the host and other devices know it by another address.
};

class Modules {
 public:
  // All outlive it. `variables` is null when the device has no shared memory.
  Modules(Connection* connection, DeviceMemory* memory, ManagedVariables* variables)
      : connection_(connection), memory_(memory), managed_(variables) {}

  // Loads what is needed. CUDA_ERROR_NOT_FOUND when the fat binary has no such kernel.
  CUresult Kernel(const FunctionRecord& function, LoadedKernel** kernel);
  CUresult Variable(const VariableRecord& variable, LoadedVariable* loaded);
  // Only that, for what the host uses of it. `answer`, where somebody wants it, gets what the
  // options return if it is this call that loads.
  CUresult Load(const FatbinRecord& fatbin, JitAnswer* answer = nullptr);
  // Gives the managed variables of a loaded module their places. CUDA_ERROR_NOT_SUPPORTED when it
  // has some and the device has no shared memory.
  CUresult PlaceManaged(const FatbinRecord& fatbin);
  // The managed variable at the address, for those who name it as a symbol.
  std::optional<BlockAllocator::Range> ManagedVariable(std::uint64_t address) const;
  // Whether the device has loaded it, successfully.
  bool Has(const FatbinRecord& fatbin) const;
  // Of local memory, the most that a thread of a kernel found so far needs.
  std::uint64_t most_local_bytes() const { return most_local_bytes_.load(); }
  // The library that holds `fatbin` is being unloaded.
  void Unload(const FatbinRecord& fatbin);

 private:
  struct LoadedModule {
    Mutex loading;
    bool sent CUSPAN_GUARDED_BY(loading) = false;  // The proxy knows of it.
    bool loaded CUSPAN_GUARDED_BY(loading) = false;
    std::atomic<bool> usable = false;  // Without the lock: the driver has it.
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
