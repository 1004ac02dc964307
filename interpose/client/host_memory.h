// Page-locked host memory, as far as the program can tell: what cudaMallocHost,
// cudaHostAlloc and cudaHostRegister made. Copies from and to it are asynchronous.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace cuspan {

struct HostRange {
  std::byte* base;
  std::size_t bytes;
  unsigned flags;    // As given to cudaHostAlloc or cudaHostRegister.
  bool allocated;    // By us; otherwise registered.
  int device;        // Current when it was made.
};

// Any thread.
class HostMemory {
 public:
  CUresult Allocate(std::size_t bytes, unsigned flags, int device, void** memory);
  CUresult Free(void* memory);  // Exactly what Allocate returned.
  CUresult Register(void* memory, std::size_t bytes, unsigned flags, int device);
  CUresult Unregister(void* memory);
  // The range that holds all of [address, address + bytes).
  std::optional<HostRange> Find(const void* address, std::size_t bytes) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, HostRange> ranges_;  // By base.
  bool Overlaps(const std::byte* base, std::size_t bytes) const;
};

}  // namespace cuspan
