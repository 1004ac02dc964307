// Keeps parts of the shared region equal between the program and devices that
// have memory of their own for them, as CUDA promises for devices without concurrent managed
// access: what the host wrote is there for what it launches next, and what a device
// wrote is there for the host after a synchronisation.
//
// Of each block there is the program's copy (seen by the program with the protection that
// page_states.h says, and by us through a second mapping without any), each device's, and a
// twin: the contents on which all agreed last. What differs from the twin is what one side
// wrote; only that crosses, and so both may write different bytes of a block at once, as
// page-locked memory allows.
//
// - Before work on a device, what the program wrote goes there.
// - After it nothing is valid here; the first touch of a block fetches it (faults.h).
// - Of devices with work on them one at a time may have news (the owner): before work
//   on another one its news are fetched. A device that shares our memory needs none of
//   this for itself, but what it writes is not noticed, so all counts as written.
//
// Any thread, but not the receiver's: functions wait for devices.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/page_states.h"
#include "structs.gen.h"

namespace cuspan {

class Connection;

class Mirrors {
 public:
  static constexpr std::size_t kBlockBytes = 64 * 1024;

  using Links = std::function<std::vector<std::shared_ptr<Connection>>()>;
  explicit Mirrors(Links links) : links_(std::move(links)) {}
  Mirrors(const Mirrors&) = delete;

  // The region and the file behind it, once.
  void SetMemory(const AddressWindow& window, int file) {
    window_ = window;
    file_ = file;
  }
  // Something is mirrored that the program uses; otherwise nothing below has anything to do, and no
  // device waits for another.
  bool active() const {
    return mirrored_.load(std::memory_order_acquire) && in_use_.load(std::memory_order_acquire);
  }
  // Whether the program has any block of the region.
  void SetInUse(bool in_use) { in_use_.store(in_use, std::memory_order_release); }

  // `link` has new memory for `range`, which it keeps equal from now on.
  CUresult Begin(Connection& link, const BlockAllocator::Range& range);
  // The range is not used any more by anybody.
  void End(const BlockAllocator::Range& range);
  // The device is gone, and what it had not given back.
  void Forget(const Connection& link);

  // Around everything that may read or write the region on a device.
  CUresult BeforeWork(Connection& link);
  void AfterWork(Connection& link);
  // What the program wrote goes to the device, unless another one has news for the program.
  CUresult SendNews(Connection& link);
  // The program was told that work of the device is complete: all of it, or some.
  void Synchronized(Connection& link, bool all);

  // The program is about to read or write [address, address + bytes), or was kept from it. False
  // when it is not a mirrored place.
  bool Admit(std::uint64_t address, std::uint64_t bytes, bool write);

 private:
  struct Replica {
    std::uint64_t link;         // Its number.
    std::vector<bool> current;  // By block: had the twin's contents when it was last told.
  };
  struct Range {
    Range(BlockAllocator::Range place, std::byte* twin)
        : place(place),
          twin(twin),
          states(place.bytes / kBlockBytes),
          pristine(states.size(), true) {}
    BlockAllocator::Range place;
    std::byte* twin;
    PageStates states;
    std::vector<bool> pristine;  // By block: never anything but zeros.
    std::list<Replica> replicas;
  };

  std::byte* Here(std::uint64_t address) const CUSPAN_REQUIRES(mutex_) {
    return alias_ + (address - window_.base);
  }
  Range* Find(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  Replica* FindReplica(Range& range, const Connection& link);
  CUresult MapAlias() CUSPAN_REQUIRES(mutex_);
  // Sets what the program may do with the blocks to what their states say.
  void Protect(Range& range, std::size_t first, std::size_t count) CUSPAN_REQUIRES(mutex_);
  void Changed(Range& range, std::size_t block, const Connection* by);
  CUresult Push(Connection& link) CUSPAN_REQUIRES(mutex_);
  CUresult PushRange(Connection& link, Range& range) CUSPAN_REQUIRES(mutex_);
  void PushBlock(Range& range, Replica& replica, std::size_t block, const Connection& link,
                 std::vector<BlockAllocator::Range>* spans) CUSPAN_REQUIRES(mutex_);
  CUresult Send(Connection& link, const Range& range, const BlockAllocator::Range& span)
      CUSPAN_REQUIRES(mutex_);
  // The same for spans of one piece, and for nothing between them.
  CUresult SendPatch(Connection& link, const Range& range,
                     std::span<const BlockAllocator::Range> spans) CUSPAN_REQUIRES(mutex_);
  // Fetches blocks from the owner and merges them.
  CUresult Fetch(Range& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  void Merge(Range& range, std::size_t block, const std::byte* news) CUSPAN_REQUIRES(mutex_);
  // Waits until no other device than `link` that may have news for it has anything to do. The mutex
  // is not held meanwhile, as far as possible.
  void WaitForOthers(const Connection& link, MutexLock* lock) CUSPAN_REQUIRES(mutex_);
  // Fetches all that the owner, which is done, may have written; then there is none.
  CUresult Disown() CUSPAN_REQUIRES(mutex_);
  void Touch(Range& range, std::size_t block, bool write) CUSPAN_REQUIRES(mutex_);

  const Links links_;
  AddressWindow window_;
  int file_ = -1;
  std::atomic<bool> mirrored_{false};  // There are, or were, ranges.
  std::atomic<bool> in_use_{false};
  Mutex mutex_;
  std::byte* alias_ CUSPAN_GUARDED_BY(mutex_) = nullptr;
  std::list<Range> ranges_ CUSPAN_GUARDED_BY(mutex_);
  std::shared_ptr<Connection> owner_ CUSPAN_GUARDED_BY(mutex_);  // Mirrored.
  bool at_work_ CUSPAN_GUARDED_BY(mutex_) = false;               // The owner, as far as is known.
  std::uint64_t work_ CUSPAN_GUARDED_BY(mutex_) = 0;  // How often a device was given some.
  std::vector<std::shared_ptr<Connection>> wrote_here_
      CUSPAN_GUARDED_BY(mutex_);  // Sharing our memory, with work since all was last marked.
};

}  // namespace cuspan
