// What is the session's of its device's memory, where that is counted: in a run that shares its
// GPUs.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/sharing/share_memory.h"

namespace cuspan::proxy {

// Threads: any, but for Count.
class MemoryAccount {
 public:
  // So many bytes, until the last copy of this goes. It does not outlive the account.
  using Taken = std::shared_ptr<const std::uint64_t>;

  // From now on what is taken is counted there, and may be refused. To be called before the first
  // op.
  void Count(std::unique_ptr<ShareMemory> memory) { counted_ = std::move(memory); }

  // To be called before the driver is asked for them. CUDA_ERROR_OUT_OF_MEMORY when the run may not
  // have as many more.
  CUresult Take(std::uint64_t bytes, Taken* taken);
  // Makes of what the driver says what the run may see.
  void Narrow(std::size_t* free, std::size_t* total) const;

 private:
  std::unique_ptr<ShareMemory> counted_;
};

}  // namespace cuspan::proxy
