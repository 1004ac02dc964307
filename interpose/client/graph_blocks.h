// Memory allocated by graphs, by address.
//
// A graph's memory stays allocated as long as the graph exists: each launch finds it at its
// address. A launch makes the program its owner until the program frees it, even if the graph is
// destroyed before. Afterwards its address is not reused at once. CUDA takes these addresses from
// ranges of their own, and some programs free them late, expecting an error.
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

// Threads: any. Owners are released without a lock.
class GraphBlocks final : public ContextTable {
 public:
  // Registers memory of a graph.
  void Add(std::uint64_t address);
  // True if memory of an existing graph starts there. Contains: also memory of a destroyed graph.
  bool BelongsToGraph(std::uint64_t address);
  bool Contains(std::uint64_t address);
  // Makes the program the owner, and keeps `owner` alive meanwhile. False if it is the owner
  // already.
  bool Hand(std::uint64_t address, std::shared_ptr<const void> owner);
  bool IsHanded(std::uint64_t address);
  // Ends the program's ownership. CUDA_ERROR_INVALID_VALUE if it was not the owner.
  CUresult Reclaim(std::uint64_t address);
  // Marks memory of a destroyed graph. Returns addresses of earlier graphs' memory, removed from
  // this table; the caller frees them.
  std::vector<std::uint64_t> End(std::uint64_t address, std::uint64_t bytes);
  // Removes all memory of destroyed graphs of the device in the same way.
  std::vector<std::uint64_t> ExtractEnded(const ContextConnection& connection);

  void Forget(const ContextConnection& ended) override;

 private:
  struct Block {
    std::shared_ptr<const void> owner;  // Set while the program owns it.
    bool ended = false;
  };
  struct Ended {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  Mutex mutex_;
  std::map<std::uint64_t, Block> blocks_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<Ended> ended_ CUSPAN_GUARDED_BY(mutex_);  // The oldest first.
  std::uint64_t ended_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cuspan
