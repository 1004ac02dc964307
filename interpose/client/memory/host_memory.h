// Page-locked host memory, as far as the program can tell: what cudaMallocHost,
// cudaHostAlloc and cudaHostRegister made. Copies from and to it are asynchronous.
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
  unsigned flags;  // As given to cudaHostAlloc or cudaHostRegister.
  bool allocated;  // By us; otherwise registered.
  int device;      // Current when it was made.
};

// Any thread.
class HostMemory {
 public:
  // Memory of `shared` where it has any, so that kernels can use it, too; else only the program's.
  explicit HostMemory(SharedRegion* shared = nullptr) : shared_(shared) {}
  // `bytes` > 0. CUDA_ERROR_OUT_OF_MEMORY when there is no room.
  CUresult Allocate(std::size_t bytes, unsigned flags, int device, void** memory);
  // Exactly what Allocate returned; otherwise CUDA_ERROR_INVALID_VALUE.
  CUresult Free(void* memory);
  // CUDA_ERROR_INVALID_VALUE for memory that is not there, that the program itself may not write
  // (or read, with CU_MEMHOSTREGISTER_READ_ONLY), or that Allocate made;
  // CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when part of it is registered.
  CUresult Register(void* memory, std::size_t bytes, unsigned flags, int device);
  // CUDA_ERROR_INVALID_VALUE inside a range, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED outside all.
  CUresult Unregister(void* memory);
  // False if no memory is registered. Costs one load.
  bool any_registered() const { return registered_.load(std::memory_order_relaxed) != 0; }
  // The range that holds all of [address, address + bytes).
  std::optional<HostRange> Find(const void* address, std::size_t bytes) const;

 private:
  SharedRegion* const shared_;
  mutable SharedMutex mutex_;
  std::map<const std::byte*, HostRange> ranges_ CUSPAN_GUARDED_BY(mutex_);  // By base.
  std::atomic<std::size_t> registered_{0};                                  // Ranges.
  // A range that shares a byte with [base, base + bytes), or null.
  const HostRange* FindOverlap(const std::byte* base, std::size_t bytes) const
      CUSPAN_REQUIRES_SHARED(mutex_);
};

}  // namespace cuspan
