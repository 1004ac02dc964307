// What is the session's of its device's memory, where that is counted: in a run that shares its
// GPUs.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "protocol/sharing/share_memory.h"

namespace cuspan::proxy {

// Threads: any, but for what is said to be another's.
class MemoryAccount {
 public:
  // So many bytes, until the last copy of this goes. It does not outlive the account.
  using Taken = std::shared_ptr<const std::uint64_t>;

  // From now on what is taken is counted there, and may be refused. To be called before the first
  // op.
  void Count(std::unique_ptr<ShareMemory> memory) { counted_ = std::move(memory); }

  // To be called before the driver is asked for them. CUDA_ERROR_OUT_OF_MEMORY when the run may not
  // have as many more. `fixed`: they stay on the device, whoever needs the room.
  CUresult Take(std::uint64_t bytes, Taken* taken, bool fixed = false);
  // Calls make(), which asks the driver for memory that was taken before, when there is room for
  // it, and returns what that returns. By the worker.
  template <typename Make>
  CUresult Obtain(std::uint64_t bytes, Make&& make) {
    if (await_room_ == nullptr) return make();
    for (unsigned refused = 0; await_room_(bytes, refused); ++refused)
      if (const CUresult result = make(); result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // How others are made to make room: await(bytes, how often the driver refused them) returns
  // whether there should be some. To be called before the first op.
  using AwaitRoom = std::function<bool(std::uint64_t bytes, unsigned refused)>;
  void SetAwaitRoom(AwaitRoom await) { await_room_ = std::move(await); }

  // What is counted; null where nothing is.
  ShareMemory* counted() const { return counted_.get(); }
  // Makes of what the driver says what the run may see.
  void Narrow(std::size_t* free, std::size_t* total) const;

 private:
  std::unique_ptr<ShareMemory> counted_;
  AwaitRoom await_room_;  // Null where nobody can.
};

}  // namespace cuspan::proxy
