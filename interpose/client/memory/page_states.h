// States of the blocks of memory with copies of the program and a device. Pure: no memory, no
// device, no locks. Used by mirrors.h.
//
// A block is valid if the program's copy has all writes of the device promised by a
// synchronisation. It is dirty if the program may have written bytes missing on the device. It can
// be both, either or neither.
#pragma once

#include <cstddef>
#include <vector>

namespace cuspan {

class PageStates {
 public:
  // Accesses of the program possible without a fault.
  enum class Access { kNothing, kRead, kWrite };
  // Consecutive blocks.
  struct Run {
    std::size_t first;
    std::size_t count;
    bool operator==(const Run&) const = default;
  };
  // Maximum blocks fetched at once.
  static constexpr std::size_t kMaxAhead = 64;

  // All blocks are valid and clean.
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
  // Returns the run of blocks from `first` on, before `end`, with the access of the first.
  Run SameAccess(std::size_t first, std::size_t end) const;

  // Returns the blocks to fetch when the program accesses `block`, not valid: it and invalid blocks
  // after it. Their number grows while the program continues at the end of the last run.
  Run Ahead(std::size_t block);
  // Same for writes: `block`, valid and not dirty, and the same kind of blocks after it.
  Run AheadWritten(std::size_t block);
  // Called after the block was fetched.
  void Fetched(std::size_t block, bool device_at_work);
  // Called when the program wrote, or is about to.
  void Written(std::size_t block);
  // Makes the program's copies of the blocks invalid.
  void Invalidate(Run run);
  // Called when the device has the program's writes.
  void Pushed(std::size_t block);
  // Called when work with possible writes runs on the device: nothing is valid any more.
  void DeviceRuns();
  // Invalidates blocks fetched while the device was at work: they may have changed. True if there
  // were any.
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
  // Last of several runs: its end, and its maximum length.
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
