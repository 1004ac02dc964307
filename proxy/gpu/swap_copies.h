// Where the content of device memory lies while another run's is in its place: host memory, which
// stays pinned for the next time.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Threads: one at a time, with the device's context.
class SwapCopies {
 public:
  explicit SwapCopies(const Driver& driver) : driver_(driver) {}
  ~SwapCopies();
  SwapCopies(const SwapCopies&) = delete;

  // Whether there is host memory for what is at that address, from the last time.
  bool Knows(std::uint64_t address) const { return copies_.contains(address); }
  // Begins to copy [address, address + bytes) to the host. CUDA_ERROR_OUT_OF_MEMORY where that has
  // no memory for it, or would have to swap itself.
  CUresult Save(std::uint64_t address, std::uint64_t bytes);
  // The same in the other direction, of what was saved.
  CUresult Restore(std::uint64_t address);
  // Until all that was begun is done.
  CUresult Wait();
  // What was saved from there is not wanted any more.
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
  std::map<std::uint64_t, Copy> copies_;  // By the address of what they are of.
};

}  // namespace cuspan::proxy
