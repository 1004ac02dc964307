// A piece of the shared region with copies on devices: contents and writes of each side. Pure: no
// devices, no locks. Used by mirrors.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "interpose/client/memory/arrival_order.h"
#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/page_states.h"

namespace cuspan {

class MirroredRange {
 public:
  // Units of fetching, protection and comparison. Smaller for page-locked memory shared by small
  // pieces: their flags and results are unrelated.
  static constexpr std::size_t kBlockBytes = 64 * 1024;
  static constexpr std::size_t kSmallBlockBytes = 4 * 1024;
  static constexpr std::size_t kMaxSharedBytes = std::size_t{4} << 20;
  // Spans by their offsets in the range.
  using Spans = ByteRuns;
  // Copy of a device.
  struct Replica {
    std::uint64_t connection;   // Number of its connection.
    std::vector<bool> current;  // Per block: had the twin's contents at the last update.
  };

  // `here`: the program's copy, readable and writable at any time. A managed range starts with
  // zeros; page-locked memory may have been in use for long. `near`: the device is on this node, so
  // copies cost less than a search for writes. valid() is false if no memory was left for the twin.
  MirroredRange(BlockAllocator::Range place, std::byte* here, bool managed, bool near);
  ~MirroredRange();
  MirroredRange(const MirroredRange&) = delete;
  bool valid() const { return twin_ != nullptr; }

  const BlockAllocator::Range& place() const { return range_; }
  bool managed() const { return managed_; }
  bool near() const { return near_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t blocks() const { return states_.size(); }
  // Returns the blocks of [address, address + bytes) within the range, at least one.
  PageStates::Run BlocksOf(std::uint64_t address, std::uint64_t bytes) const;
  // Returns their addresses.
  BlockAllocator::Range RangeOf(PageStates::Run run) const {
    return {range_.base + run.first * block_bytes_, run.count * block_bytes_};
  }
  PageStates& states() { return states_; }
  const PageStates& states() const { return states_; }
  // The program's copy.
  std::byte* here() { return here_; }
  // Source of taken and merged bytes to be sent: the twin, unchanged meanwhile; for a near device,
  // the program's copy.
  const std::byte* agreed() const { return near_ ? here_ : twin_; }

  std::list<Replica>& replicas() { return replicas_; }
  const std::list<Replica>& replicas() const { return replicas_; }
  Replica* FindReplica(std::uint64_t connection);
  const Replica* FindReplica(std::uint64_t connection) const;
  // Adds a replica containing only zeros.
  void AddReplica(std::uint64_t connection);

  // Creates missing twins of these blocks, except dirty ones: another side may write there.
  void MakeTwins(PageStates::Run run);
  // Called before the program writes the blocks. `whole`: no other side writes there until they are
  // taken, and all of them may be sent. Otherwise the twin shows the writes.
  void Written(PageStates::Run run, bool whole);
  // Called after a device's contents of the blocks, not dirty, were stored in the program's copy.
  void Stored(PageStates::Run run);
  // Copies the program's writes in the block to the twin, and adds them to *spans; the block is
  // then clean. `exact`: a device may be writing there, so no other bytes are included. Returns
  // true if there were any.
  bool CollectWritten(std::size_t block, bool exact, Spans* spans);
  // Merges `received`, a device's bytes from `offset` on. Differences from the twin are its writes:
  // they are copied to the twin and the program's copy, and added to *spans, if not null. Returns
  // the blocks from the first changed one to the last. `all_exact`: the program's copy may differ
  // from the twin, so only differing bytes are copied.
  PageStates::Run Merge(std::uint64_t offset, std::span<const std::byte> received, Spans* spans,
                        bool all_exact = false);
  // Stores `data` of the program at `offset`, in a block with a twin, into both copies.
  void Stored(std::uint64_t offset, std::span<const std::byte> data);
  // True if the device's bytes from `offset` on differ from the last agreed contents.
  bool HasUpdates(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Called after the agreed contents changed there. Replicas not listed in `told` are no longer
  // current.
  void Changed(PageStates::Run run, std::span<const std::uint64_t> told);

 private:
  const BlockAllocator::Range range_;
  std::byte* const here_;
  std::byte* twin_ = nullptr;
  const bool managed_;
  const bool near_;
  const std::size_t block_bytes_;
  PageStates states_;
  std::vector<bool> pristine_;  // Per block: only zeros so far.
  // Per block: the twin has the last agreed contents. Otherwise the program's copy has them, if not
  // dirty.
  std::vector<bool> twinned_;
  std::list<Replica> replicas_;
};

}  // namespace cuspan
