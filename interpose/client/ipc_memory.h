// Device memory of other processes of the run (cudaIpc…, pointers of shared pools): the piece that
// holds it is mapped a second time, into a free part of this process's own window.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/devices.h"

namespace cuspan {

// What is given away: where the memory's proxy answers, its piece, and the block in it.
struct IpcMemoryHandle {
  std::uint64_t magic;
  std::array<std::uint8_t, 16> proxy;
  std::uint64_t piece;
  std::uint64_t piece_bytes;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t unused;
};
static_assert(sizeof(IpcMemoryHandle) == 64);

// Any thread.
class IpcMemory final : public ContextTable {
 public:
  explicit IpcMemory(Devices* devices) : devices_(*devices) {}
  IpcMemory(const IpcMemory&) = delete;

  // Of a block of `owner`, which cudaMalloc or a pool gave out. CUDA_ERROR_INVALID_VALUE for other
  // memory, CUDA_ERROR_NOT_SUPPORTED where proxies do not reach each other.
  CUresult Describe(ContextConnection& owner, const BlockAllocator::Range& block,
                    IpcMemoryHandle* handle);
  // The block in the addresses of `user`. Opening it again gives the same address.
  // CUDA_ERROR_INVALID_CONTEXT for memory of this process, CUDA_ERROR_MAP_FAILED when it can not be
  // had.
  CUresult Open(ContextConnection& user, const IpcMemoryHandle& handle, std::uint64_t* address);
  // Undoes one Open; waits for the device. CUDA_ERROR_INVALID_VALUE for what was not opened.
  CUresult Close(std::uint64_t address);
  // Whether other processes have memory of this one's, or this one theirs.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // They are about to, in another way than these.
  void SetInUse() { in_use_.store(true, std::memory_order_relaxed); }

  void Forget(const ContextConnection& ended) override;

 private:
  struct Import {
    std::uint64_t base;                   // Of the piece, here.
    std::map<std::uint64_t, int> opened;  // By address: how many times.
  };
  // The proxy, the piece there, and the number of the connection that uses it.
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  Devices& devices_;
  std::atomic<bool> in_use_{false};
  Mutex mutex_;
  std::map<Key, Import> imports_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
