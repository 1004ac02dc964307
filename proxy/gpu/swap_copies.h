// Host copies of device memory swapped out for another run. The host memory stays pinned for reuse.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Threads: one at a time, with the device's context current.
class SwapCopies {
 public:
  explicit SwapCopies(const Driver& driver) : driver_(driver) {}
  ~SwapCopies();
  SwapCopies(const SwapCopies&) = delete;

  // True if host memory for `address` exists from an earlier swap.
  bool Knows(std::uint64_t address) const { return copies_.contains(address); }
  // Begins copying [address, address + bytes) to the host. CUDA_ERROR_OUT_OF_MEMORY if host memory
  // does not suffice, or would be swapped to disk.
  CUresult Save(std::uint64_t address, std::uint64_t bytes);
  // Begins copying saved memory back.
  CUresult Restore(std::uint64_t address);
  // Waits for all copies begun before.
  CUresult Wait();
  // Discards the copy saved from `address`.
  void Forget(std::uint64_t address);

 private:
  struct Copy {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
    bool pinned = false;
  };
  CUresult Allocate(std::uint64_t bytes, Copy* copy) const;
  void Free(const Copy& copy) const;
  CUresult MakeStream();

  const Driver& driver_;
  CUstream stream_ = nullptr;
  std::map<std::uint64_t, Copy> copies_;  // Key: device address.
};

}  // namespace cuspan::proxy
