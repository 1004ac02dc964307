// Page-locked host memory, as seen by the program: memory of cudaMallocHost, cudaHostAlloc and
// cudaHostRegister. Copies from and to it are asynchronous.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "common/mutex.h"

namespace cuspan {

class SharedRegion;

struct HostRange {
  std::byte* base;
  std::size_t bytes;
  unsigned flags;  // Flags of cudaHostAlloc or cudaHostRegister.
  bool allocated;  // True if by us; otherwise registered.
  int device;      // Current device at creation.
};

// Threads: any.
class HostMemory {
 public:
  // Uses memory of `shared` if available, so kernels can use it, too; otherwise the program's own.
  explicit HostMemory(SharedRegion* shared = nullptr) : shared_(shared) {}
  // `bytes` > 0. CUDA_ERROR_OUT_OF_MEMORY if no memory is left.
  CUresult Allocate(std::size_t bytes, unsigned flags, int device, void** memory);
  // Frees memory returned by Allocate; CUDA_ERROR_INVALID_VALUE for others.
  CUresult Free(void* memory);
  // CUDA_ERROR_INVALID_VALUE for memory not mapped, not writable by the program (or readable, with
  // CU_MEMHOSTREGISTER_READ_ONLY), or made by Allocate. CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
  // if part of it is registered.
  CUresult Register(void* memory, std::size_t bytes, unsigned flags, int device);
  // CUDA_ERROR_INVALID_VALUE inside a range, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED outside all.
  CUresult Unregister(void* memory);
  // False if no memory is registered. Costs one load.
  bool any_registered() const { return registered_.load(std::memory_order_relaxed) != 0; }
  // Returns the range containing all of [address, address + bytes).
  std::optional<HostRange> Find(const void* address, std::size_t bytes) const;

 private:
  SharedRegion* const shared_;
  mutable SharedMutex mutex_;
  std::map<const std::byte*, HostRange> ranges_ CUSPAN_GUARDED_BY(mutex_);  // Keyed by base.
  std::atomic<std::size_t> registered_{0};                                  // Number of ranges.
  // Returns a range sharing a byte with [base, base + bytes), or null.
  const HostRange* FindOverlap(const std::byte* base, std::size_t bytes) const
      CUSPAN_REQUIRES_SHARED(mutex_);
};

}  // namespace cuspan
