// Count of the session's device memory, for runs sharing their GPUs.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "protocol/sharing/share_memory.h"

namespace cuspan::proxy {

// Threads: any, except where noted.
class MemoryAccount {
 public:
  // A number of counted bytes, released with the last copy. Does not outlive the account.
  using Taken = std::shared_ptr<const std::uint64_t>;

  // Enables counting in `memory`; from now on, Take may fail. To be called before the first op.
  void Count(std::unique_ptr<ShareMemory> memory) { counted_ = std::move(memory); }

  // To be called before allocating from the driver. CUDA_ERROR_OUT_OF_MEMORY if the run's limit
  // would be exceeded. `fixed`: the memory cannot be swapped out for other runs.
  CUresult Take(std::uint64_t bytes, Taken* taken, bool fixed = false);
  // Waits until the device has enough free memory, then calls make() to allocate it. The memory
  // must have been counted by Take. Returns the result of make(). Threads: the worker.
  template <typename Make>
  CUresult Obtain(std::uint64_t bytes, Make&& make) {
    if (await_room_ == nullptr) return make();
    for (unsigned refused = 0; await_room_(bytes, refused); ++refused)
      if (const CUresult result = make(); result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Makes other runs free memory: await(bytes, number of refusals by the driver) returns true if
  // some should be free. To be called before the first op.
  using AwaitRoom = std::function<bool(std::uint64_t bytes, unsigned refused)>;
  void SetAwaitRoom(AwaitRoom await) { await_room_ = std::move(await); }

  // Counted memory; null if it is not counted.
  ShareMemory* counted() const { return counted_.get(); }
  // Reduces the driver's values to the run's limits.
  void Narrow(std::size_t* free, std::size_t* total) const;

 private:
  std::unique_ptr<ShareMemory> counted_;
  AwaitRoom await_room_;  // Null: no other run can free memory.
};

}  // namespace cuspan::proxy
