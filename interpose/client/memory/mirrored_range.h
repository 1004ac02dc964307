// A piece of the shared region of which devices have copies: what each side has of it, and what it
// wrote. Knows no devices and no locks; mirrors.h acts on it.
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
  // What is fetched, protected and compared at once. Of page-locked memory that small pieces share,
  // less: their flags and results have nothing to do with each other.
  static constexpr std::size_t kBlockBytes = 64 * 1024;
  static constexpr std::size_t kSmallBlockBytes = 4 * 1024;
  static constexpr std::size_t kMaxSharedBytes = std::size_t{4} << 20;
  // By their offsets in the range.
  using Spans = ByteRuns;
  // What a device has.
  struct Replica {
    std::uint64_t connection;   // The number of its connection.
    std::vector<bool> current;  // By block: had the twin's contents when it was last told.
  };

  // `here` is the program's copy, to be read and written whatever the program may do. A managed
  // range starts with zeros; page-locked memory may have been in use for long. `near`: the device
  // is on this node, where copies cost less than to find out what was written. valid() tells
  // whether there was memory for the twin.
  MirroredRange(BlockAllocator::Range place, std::byte* here, bool managed, bool near);
  ~MirroredRange();
  MirroredRange(const MirroredRange&) = delete;
  bool valid() const { return twin_ != nullptr; }

  const BlockAllocator::Range& place() const { return place_; }
  bool managed() const { return managed_; }
  bool near() const { return near_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t blocks() const { return states_.size(); }
  // The blocks of [address, address + bytes), at least one, as far as they are in the range.
  PageStates::Run BlocksOf(std::uint64_t address, std::uint64_t bytes) const;
  // Where they lie.
  BlockAllocator::Range PlaceOf(PageStates::Run run) const {
    return {place_.base + run.first * block_bytes_, run.count * block_bytes_};
  }
  PageStates& states() { return states_; }
  const PageStates& states() const { return states_; }
  // The program's copy.
  std::byte* here() { return here_; }
  // Where what was taken and what was merged is sent from: the twin, which does not change
  // meanwhile, but for a near device.
  const std::byte* agreed() const { return near_ ? here_ : twin_; }

  std::list<Replica>& replicas() { return replicas_; }
  const std::list<Replica>& replicas() const { return replicas_; }
  Replica* FindReplica(std::uint64_t connection);
  const Replica* FindReplica(std::uint64_t connection) const;
  // One that has nothing but zeros.
  void AddReplica(std::uint64_t connection);

  // Gives those blocks their twins that have none, and are not dirty: somebody else may write
  // there.
  void MakeTwins(PageStates::Run run);
  // The program is about to write the blocks. `whole`: nobody else writes there
  // until that is taken, and all of them may be sent then; otherwise the twin tells what it wrote.
  void Written(PageStates::Run run, bool whole);
  // The blocks, which are not dirty, were stored in the program's copy as a device has them.
  void Stored(PageStates::Run run);
  // What the program wrote to the block becomes the twin's and is added to *spans; the block is not
  // dirty any more. `exact`: a device may be writing there, so that no byte goes along which the
  // program did not write. Returns whether there was any.
  bool TakeWritten(std::size_t block, bool exact, Spans* spans);
  // `news` are a device's bytes from `offset` on. What differs from the twin it wrote: that becomes
  // the twin's and the program's, and is added to *spans, if it is not null. Returns the blocks
  // from the first to the last that changed.
  // `all_exact`: the program's copy may differ from the twin, so that only bytes that differ are
  // copied.
  PageStates::Run Merge(std::uint64_t offset, std::span<const std::byte> news, Spans* spans,
                        bool all_exact = false);
  // The program stored `data` at `offset`, of a block with a twin. Both have it now.
  void Stored(std::uint64_t offset, std::span<const std::byte> data);
  // True if the device's bytes from `offset` on differ from those on which all agreed last.
  bool HasUpdates(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // The contents on which all agreed changed there. Of the replicas, those that `told` does not
  // name are not current any more.
  void Changed(PageStates::Run run, std::span<const std::uint64_t> told);

 private:
  const BlockAllocator::Range place_;
  std::byte* const here_;
  std::byte* twin_ = nullptr;
  const bool managed_;
  const bool near_;
  const std::size_t block_bytes_;
  PageStates states_;
  std::vector<bool> pristine_;  // By block: never anything but zeros.
  // By block: the twin has the contents on which all agreed last. They are the program's otherwise,
  // if it is not dirty.
  std::vector<bool> twinned_;
  std::list<Replica> replicas_;
};

}  // namespace cuspan
