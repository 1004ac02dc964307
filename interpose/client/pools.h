// Memory pools: memory that is allocated and freed in a stream's order.
//
// A block is given out when nothing uses it any more, so it may be used at
// once, in any stream. A freed one comes back as any other (device_memory.h).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/devices.h"
#include "interpose/client/ipc_memory.h"

namespace cuspan {

struct MemoryPool {
  std::uint64_t handle;
  int device;
  bool is_default;         // Made with the device, and never destroyed.
  std::uint64_t most = 0;  // Bytes in use at a time; 0: as many as there are.
  bool shareable = false;  // Other processes may have it,
  bool imported = false;   // and this one is another's: nothing is taken from it here.
  // Guarded by the mutex of Pools.
  std::uint64_t release_threshold = 0;
  bool reuse[3] = {true, true, true};  // By number of its cudaMemPoolReuse… attribute, from 1.
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t reserved = 0, reserved_high = 0;  // As a driver's pool would have them.
  bool destroyed = false;                         // By the program; its blocks live on.

  // A driver takes memory in units of 32 MiB (measured, 580). Here freed memory goes back to the
  // device by itself, and these numbers say what the program expects of a pool.
  // As much is reserved as is in use.
  void Reserve();
  // What is not in use goes back: as little as leaves at most the threshold, or as much as leaves
  // at least `keep` bytes (measured, 580).
  void KeepThreshold();
  void Trim(std::uint64_t keep);
};

// Any thread. Results are the driver's.
class Pools final : public ContextTable {
 public:
  Pools(Devices* devices, IpcMemory* ipc) : devices_(*devices), ipc_(*ipc) {}
  Pools(const Pools&) = delete;

  std::shared_ptr<MemoryPool> Default(int device);
  std::shared_ptr<MemoryPool> Current(int device);  // What cudaMallocAsync takes from.
  void SetCurrent(int device, std::shared_ptr<MemoryPool> pool);
  std::shared_ptr<MemoryPool> Create(int device, std::uint64_t most);
  // Null for unknown and destroyed ones.
  std::shared_ptr<MemoryPool> Find(std::uint64_t handle);
  // CUDA_ERROR_INVALID_VALUE for default pools.
  CUresult Destroy(const std::shared_ptr<MemoryPool>& pool);

  // Calls use(MemoryPool&) with its numbers in peace.
  template <typename Use>
  void With(MemoryPool& pool, Use&& use) {
    const MutexLock lock(mutex_);
    use(pool);
  }

  // `bytes` > 0. CUDA_ERROR_OUT_OF_MEMORY when pool or device have no room.
  CUresult Allocate(const std::shared_ptr<MemoryPool>& pool,
                    const std::shared_ptr<ContextConnection>& user, std::uint64_t bytes,
                    std::uint64_t* address);
  // The block comes back when its device has done all that was posted before.
  // CUDA_ERROR_INVALID_VALUE when no block of a pool starts there, or when it has been freed
  // already.
  CUresult Free(std::uint64_t address);
  // For memory that the caller frees at once (cudaFree), whether a pool's or not.
  void Take(std::uint64_t address);
  // Whether a block of a pool, or of a shareable one, starts there.
  bool Holds(std::uint64_t address, bool of_shareable = false);
  // The pool whose block starts there; null if none does.
  std::shared_ptr<MemoryPool> PoolOf(std::uint64_t address);
  // A block of another process's pool, which IpcMemory has opened; what frees it closes it.
  void AddImported(std::uint64_t address);
  // Whether it was one, which it is no more.
  bool ForgetImported(std::uint64_t address);
  // Its pools are empty, and what graphs and other processes had there is gone.
  void Forget(const ContextConnection& ended) override;

 private:
  struct Block {
    std::shared_ptr<MemoryPool> pool;
    std::uint64_t bytes;
    std::uint64_t connection;  // ContextConnection::number()
  };
  std::shared_ptr<MemoryPool>& DefaultSlot(int device) CUSPAN_REQUIRES(mutex_);

  Devices& devices_;
  IpcMemory& ipc_;
  Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<MemoryPool>> pools_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<MemoryPool>> defaults_ CUSPAN_GUARDED_BY(mutex_);  // By device.
  std::vector<std::shared_ptr<MemoryPool>> current_
      CUSPAN_GUARDED_BY(mutex_);  // By device; null: the default one.
  std::map<std::uint64_t, Block> blocks_ CUSPAN_GUARDED_BY(mutex_);  // By address.
  std::multiset<std::uint64_t> imported_
      CUSPAN_GUARDED_BY(mutex_);  // Addresses, once for each time.
};

}  // namespace cuspan
