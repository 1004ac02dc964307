// Memory that graphs allocate, by address.
//
// A graph's memory stays where it is as long as there is the graph, so that each launch finds it at
// its address. A launch hands it to the program, which has it until it frees it, also when the
// graph is gone before. Afterwards its address is not used again at once: CUDA takes such addresses
// from ranges of their own, and programs free some of them late, to be told that there is nothing.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"

namespace cuspan {

// Any thread. Owners end without a lock.
class GraphBlocks final : public ContextTable {
 public:
  // A graph's from now on.
  void Add(std::uint64_t address);
  // Whether a graph's memory starts there; Contains: also when the graph is gone.
  bool IsOfGraph(std::uint64_t address);
  bool Contains(std::uint64_t address);
  // The program has it from now on, which keeps `owner`. False when it has it already.
  bool Hand(std::uint64_t address, std::shared_ptr<const void> owner);
  bool IsHanded(std::uint64_t address);
  // The program has freed it. CUDA_ERROR_INVALID_VALUE when it did not have it.
  CUresult TakeBack(std::uint64_t address);
  // No graph has it any more. The result are addresses of ended ones that are no longer known here,
  // and which the caller frees.
  std::vector<std::uint64_t> End(std::uint64_t address, std::uint64_t bytes);
  // All ended ones of the device, in the same way.
  std::vector<std::uint64_t> TakeEnded(const ContextConnection& connection);

  void Forget(const ContextConnection& ended) override;

 private:
  struct Block {
    std::shared_ptr<const void> owner;  // While the program has it.
    bool ended = false;
  };
  struct Ended {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  Mutex mutex_;
  std::map<std::uint64_t, Block> blocks_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<Ended> ended_ CUSPAN_GUARDED_BY(mutex_);  // The oldest first,
  std::uint64_t ended_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cuspan
