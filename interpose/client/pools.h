// Memory pools: memory allocated and freed in a stream's order.
//
// A block is allocated only when no work uses it any more: it may be used at once, in any stream. A
// freed block is reused like any other (device_memory.h).
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
  bool is_default;         // Created with the device, never destroyed.
  std::uint64_t most = 0;  // Limit of the bytes in use; 0: unlimited.
  bool shareable = false;  // Can be exported to other processes.
  bool imported = false;   // Imported from another process: allocates nothing here.
  // Guarded by the mutex of Pools.
  std::uint64_t release_threshold = 0;
  bool reuse[3] = {true, true, true};  // Indexed by cudaMemPoolReuse… attribute, from 1.
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t reserved = 0, reserved_high = 0;  // Values of an equal pool of the driver.
  bool destroyed = false;                         // Destroyed by the program; its blocks live on.

  // Counts like a driver's pool, in units of 32 MiB (measured, 580): programs read these numbers.
  // Freed memory itself returns to the device anyway. Reserve raises `reserved` to `used`.
  void Reserve();
  // Lower `reserved` by unused memory: KeepThreshold leaves at most the threshold, Trim at least
  // `keep` bytes (measured, 580).
  void KeepThreshold();
  void Trim(std::uint64_t keep);
};

// Threads: any. Results are the driver's.
class Pools final : public ContextTable {
 public:
  Pools(Devices* devices, IpcMemory* ipc) : devices_(*devices), ipc_(*ipc) {}
  Pools(const Pools&) = delete;

  std::shared_ptr<MemoryPool> Default(int device);
  std::shared_ptr<MemoryPool> Current(int device);  // Used by cudaMallocAsync.
  void SetCurrent(int device, std::shared_ptr<MemoryPool> pool);
  std::shared_ptr<MemoryPool> Create(int device, std::uint64_t most);
  // Null for unknown and destroyed ones.
  std::shared_ptr<MemoryPool> Find(std::uint64_t handle);
  // CUDA_ERROR_INVALID_VALUE for default pools.
  CUresult Destroy(const std::shared_ptr<MemoryPool>& pool);

  // Calls use(MemoryPool&) with the mutex held.
  template <typename Use>
  void With(MemoryPool& pool, Use&& use) {
    const MutexLock lock(mutex_);
    use(pool);
  }

  // `bytes` > 0. CUDA_ERROR_OUT_OF_MEMORY if the pool or the device has no room.
  CUresult Allocate(const std::shared_ptr<MemoryPool>& pool,
                    const std::shared_ptr<ContextConnection>& user, std::uint64_t bytes,
                    std::uint64_t* address);
  // Frees the block once its device has completed all ops posted before. CUDA_ERROR_INVALID_VALUE
  // if no block of a pool starts there, or it has been freed already.
  CUresult Free(std::uint64_t address);
  // Removes a pool's block freed at once by the caller (cudaFree); ignores other memory.
  void Remove(std::uint64_t address);
  // True if a block of a pool, or of a shareable one, starts there.
  bool Holds(std::uint64_t address, bool of_shareable = false);
  // Returns the pool of the block starting there, or null.
  std::shared_ptr<MemoryPool> PoolOf(std::uint64_t address);
  // Adds a block of another process's pool, opened by IpcMemory; freeing it closes it.
  void AddImported(std::uint64_t address);
  // Removes an imported block; false if it was not one.
  bool ForgetImported(std::uint64_t address);
  // Empties its pools and removes its imported blocks.
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
  // Indexed by device.
  std::vector<std::shared_ptr<MemoryPool>> defaults_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<MemoryPool>> current_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by device; null: the default pool.
  std::map<std::uint64_t, Block> blocks_ CUSPAN_GUARDED_BY(mutex_);  // Indexed by address.
  std::multiset<std::uint64_t> imported_
      CUSPAN_GUARDED_BY(mutex_);  // Addresses, one entry per import.
};

}  // namespace cuspan
