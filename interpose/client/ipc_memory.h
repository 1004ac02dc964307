// Device memory of other processes of the run (cudaIpc…, pointers of shared pools). The piece
// containing it is mapped a second time, into a free part of this process's own window.
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

// Contents of an exported handle: address of the proxy's service, the proxy's piece, and the block
// in it.
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

// Threads: any.
class IpcMemory final : public ContextTable {
 public:
  explicit IpcMemory(Devices* devices) : devices_(*devices) {}
  IpcMemory(const IpcMemory&) = delete;

  // Describes a block of `owner`, allocated by cudaMalloc or a pool. CUDA_ERROR_INVALID_VALUE for
  // other memory, CUDA_ERROR_NOT_SUPPORTED if proxies cannot reach each other.
  CUresult Describe(ContextConnection& owner, const BlockAllocator::Range& block,
                    IpcMemoryHandle* handle);
  // Maps the block into the addresses of `user`. Opening it again returns the same address.
  // CUDA_ERROR_INVALID_CONTEXT for memory of this process, CUDA_ERROR_MAP_FAILED if it is not
  // available.
  CUresult Open(ContextConnection& user, const IpcMemoryHandle& handle, std::uint64_t* address);
  // Undoes one Open; waits for the device. CUDA_ERROR_INVALID_VALUE if it was not opened.
  CUresult Close(std::uint64_t address);
  // True if other processes use memory of this one, or vice versa.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // Announces sharing of memory by other means.
  void SetInUse() { in_use_.store(true, std::memory_order_relaxed); }

  void Forget(const ContextConnection& ended) override;

 private:
  struct Import {
    std::uint64_t base;                   // Local address of the piece.
    std::map<std::uint64_t, int> opened;  // Number of opens by address.
  };
  // Proxy, its piece, and ContextConnection::number() of the user.
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  Devices& devices_;
  std::atomic<bool> in_use_{false};
  Mutex mutex_;
  std::map<Key, Import> imports_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
