// What is known about the blocks of a piece of memory that the program and a
// device hold copies of. Pure: knows no memory, no device and no locks; mirrors.h acts on it.
//
// A block is valid here when the program's copy has all that the device wrote,
// as far as a synchronisation has promised; dirty when the program may have
// written what the device does not have. It can be both, either or neither.
#pragma once

#include <cstddef>
#include <vector>

namespace cuspan {

class PageStates {
 public:
  // What the program may do with a block without us noticing.
  enum class Access { kNothing, kRead, kWrite };
  // Consecutive blocks.
  struct Run {
    std::size_t first;
    std::size_t count;
    bool operator==(const Run&) const = default;
  };
  // The most blocks that are fetched at once.
  static constexpr std::size_t kMaxAhead = 64;

  // All valid and clean.
  explicit PageStates(std::size_t blocks) : blocks_(blocks) {}

  std::size_t size() const { return blocks_.size(); }
  bool valid(std::size_t block) const { return blocks_[block].valid; }
  bool dirty(std::size_t block) const { return blocks_[block].dirty; }
  // Fetched while the device was at work: its contents may change until the next synchronisation.
  bool unstable(std::size_t block) const { return blocks_[block].unstable; }
  bool any_dirty() const { return dirty_ != 0; }
  bool any_valid() const { return valid_count_ != 0; }
  Access access(std::size_t block) const {
    if (!valid(block)) return Access::kNothing;
    return dirty(block) ? Access::kWrite : Access::kRead;
  }
  // The run of blocks from `first` on, before `end`, that have the access of the first.
  Run SameAccess(std::size_t first, std::size_t end) const;

  // What to fetch when the program touches `block`, which is not valid: it, and blocks behind it
  // that are not valid either, more of them as long as the program goes on where the last run
  // ended.
  Run Ahead(std::size_t block);
  // The same for writes: `block`, which is valid and not dirty, and such blocks behind it.
  Run AheadWritten(std::size_t block);
  // The block was fetched.
  void Fetched(std::size_t block, bool device_at_work);
  // The program wrote, or is about to.
  void Written(std::size_t block);
  // What the program has of them is not to be relied on any more.
  void Invalidate(Run run);
  // The device has what the program wrote.
  void Pushed(std::size_t block);
  // Something that may write runs on the device: nothing is valid any more.
  void DeviceRuns();
  // Whatever was seen while the device was at work may have changed. Returns whether there was
  // such.
  bool Synchronized();

 private:
  struct Block {
    bool valid = true;
    bool dirty = false;
    bool unstable = false;
  };
  std::vector<Block> blocks_;
  std::size_t valid_count_ = blocks_.size();
  std::size_t dirty_ = 0;
  std::size_t unstable_ = 0;
  // The last run of several: where it ended, and how long it was to be.
  struct Sequence {
    std::size_t end = 0;
    std::size_t most = 1;
  };
  template <typename Belongs>
  Run Continue(Sequence& sequence, std::size_t block, Belongs&& belongs);

  Sequence fetched_;
  Sequence written_;
};

}  // namespace cuspan
