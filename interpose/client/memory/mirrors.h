// Keeps parts of the shared region equal between the program and devices that
// have memory of their own for them, as CUDA promises: what the host wrote is there for what it
// launches next, and what a device wrote is there for the host after a synchronisation. Of
// page-locked memory also while kernels run: what the host wrote goes to the devices at every call
// that waits or asks, and soon without one; what it reads is fetched anew soon (kSoon).
//
// Of each block there is the program's copy (seen by the program with the protection that
// page_states.h says, and by us through a second mapping without any), each device's, and a
// twin: the contents on which all agreed last. What differs from the twin is what one side
// wrote; only that crosses, and so several may write different bytes of a block at once, as
// page-locked memory allows.
//
// - Before work on a device, what the program wrote goes there.
// - After it nothing is valid here; the first touch of a block fetches it (faults.h).
// - A device with work may have news until all is fetched that it wrote. Until then it hears at
//   once when the twin changes, so that what it has differs from the twin by its own news only.
// - News of one device are fetched for another one when the program's order says that they are
//   complete: it heard so, or had a stream wait for an event. Managed memory changes hands only
//   when a device is done.
// - A device that shares our memory needs none of this for itself, but what it writes is not
//   noticed, so all counts as written.
// - While devices work, stores of the program to pinned memory are carried out and sent one by one,
//   in their order (ordered_stores.h). A fetch is repeated until two in succession are equal: then
//   it is a state that the device's memory had. If it has news, all else that the program sees is
//   fetched anew, since it may be older.
//
// Any thread, but not the receiver's: functions wait for devices.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/mirrored_range.h"
#include "interpose/client/memory/ordered_stores.h"
#include "structs.gen.h"

namespace cuspan {

class Connection;
struct Incoming;

// How memory is about to be accessed.
enum class Access {
  kRead,
  kWrite,   // By an instruction that is not carried out by itself.
  kStore,   // By an instruction that reads none of it.
  kUpdate,  // By one that reads it, too.
  kFence,   // Not at all: loads from now on are not older than any store before.
};

class Mirrors {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // How old what the program sees of page-locked memory may become while a device works, and how
  // long what it wrote may stay here.
  static constexpr std::chrono::microseconds kSoon{200};

  // What the program uses of a part of the region, from the first block there to the last.
  using Used = std::function<BlockAllocator::Range(const BlockAllocator::Range& part)>;
  // Has Refresh called by that time; does not wait.
  using CallBy = std::function<void(Time when)>;
  Mirrors(Used used, CallBy call_by) : used_(std::move(used)), call_by_(std::move(call_by)) {}
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
  // Whether the program has any block of the region, and any of managed memory.
  void SetInUse(bool any, bool managed) {
    in_use_.store(any, std::memory_order_release);
    managed_in_use_.store(managed, std::memory_order_release);
  }
  bool managed_in_use() const { return managed_in_use_.load(std::memory_order_acquire); }

  // `connection` has new memory for `range`, which it keeps equal from now on.
  CUresult Begin(Connection& connection, const BlockAllocator::Range& range);
  // The range is not used any more by anybody.
  void End(const BlockAllocator::Range& range);
  // The program has a new block there.
  void Allocated(const BlockAllocator::Range& block);
  // The device is gone, and what it had not given back.
  void Forget(const Connection& connection);

  // What the program and others wrote that its next work must find goes to the device.
  CUresult Prepare(Connection& connection);
  // Around everything that may write the region on a device; the first does what Prepare does.
  CUresult BeforeWork(Connection& connection);
  void AfterWork(Connection& connection);
  // What the program wrote goes to the device.
  CUresult SendUpdates(Connection& connection);
  // A copy was posted to the device's stream that writes there. A small one is for the program to
  // read when it has waited: then it is here, without another wait for it.
  void Copied(Connection& connection, std::uint64_t address, std::uint64_t bytes,
              std::uint64_t stream);
  // The program waits, or asks: what it wrote to page-locked memory goes to all devices at work.
  void BeforeWait();
  // The program was told that work of the device is complete.
  void Synchronized(const Connection& connection);
  // A stream of `connection` is about to go on behind work of `other`, which is complete.
  CUresult Follow(Connection& connection, const Connection& other);

  // The program is about to access [address, address + bytes), or was kept from it. False when it
  // is not a mirrored place.
  bool Admit(std::uint64_t address, std::uint64_t bytes, Access access);
  // A system call is about to read or write [address, address + bytes). Returns 0 when it is not a
  // mirrored place, and otherwise the address where the kernel may access it: another one while
  // stores are ordered, until EndCall says how many bytes were written.
  std::uint64_t BeginCall(std::uint64_t address, std::uint64_t bytes, bool write);
  void EndCall(std::uint64_t address, std::uint64_t written);
  // The stores of the program while devices work. Any thread, and handlers of signals.
  OrderedStores& stores() { return stores_; }
  // Sends those that are logged.
  void SendStores();
  // True if the program may see pinned memory as it was earlier. Any thread.
  bool may_be_old() const { return may_be_old_.load(std::memory_order_acquire); }

  // Does what is due for page-locked memory while devices work, or when they no longer do; returns
  // when something is again.
  std::optional<Time> Refresh(Time now, bool at_work);

 private:
  // A device that may have news.
  struct Worker {
    std::shared_ptr<Connection> connection;
    bool in_place;  // Has our memory.
    bool heard;   // The program knows of work of its that is complete and whose news are not here.
    int posting;  // Threads between BeforeWork and AfterWork.
  };
  // Blocks of page-locked memory that the program sees as they were while a device worked.
  struct Seen {
    BlockAllocator::Range place;
    Time until;
  };

  // Blocks that are fetched in the order of a stream.
  struct Expected {
    std::shared_ptr<Connection> connection;
    BlockAllocator::Range place;
    BlockAllocator::Range part;  // What is fetched of it.
    std::shared_ptr<Incoming> incoming;
  };
  // Blocks of which devices may have news.
  struct Wanted {
    MirroredRange* range;
    PageStates::Run run;
  };
  using From = std::function<bool(const Worker& worker)>;
  // Blocks on their way here.
  struct Fetching {
    MirroredRange* range;
    PageStates::Run run;
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Incoming> incoming;
  };

  // The first thing to be done with the mutex: completes what is on its way here, and ends the
  // order of stores when no device works any more.
  void Enter() CUSPAN_REQUIRES(mutex_);
  // True if a device that has a copy of pinned memory works, or will.
  bool NeedsOrder() const CUSPAN_REQUIRES(mutex_);
  void EndOrder() CUSPAN_REQUIRES(mutex_);
  // Posts the stores that are logged to all that hear of every change. CloseRun does the same for
  // pages that were writable for a while.
  CUresult PostStores() CUSPAN_REQUIRES(mutex_);
  CUresult PostLogged() CUSPAN_REQUIRES(mutex_);
  CUresult CloseRun() CUSPAN_REQUIRES(mutex_);
  void OpenRun(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // The program is about to store to the blocks of a pinned range while devices work.
  void AdmitStore(MirroredRange& range, PageStates::Run run, Access access) CUSPAN_REQUIRES(mutex_);
  // The program fetches all pinned memory anew when it looks again.
  void InvalidatePinned() CUSPAN_REQUIRES(mutex_);
  MirroredRange* Find(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  CUresult MapAlias() CUSPAN_REQUIRES(mutex_);
  // Sets what the program may do with the blocks to what their states say.
  void Protect(MirroredRange& range, std::size_t first, std::size_t count) CUSPAN_REQUIRES(mutex_);

  Worker* FindWorker(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  Worker& AddWorker(Connection& connection, bool in_place) CUSPAN_REQUIRES(mutex_);
  unsigned CountAtWork() const CUSPAN_REQUIRES(mutex_);
  // Whether one device has a copy of the range, and nobody but the program can write to it now.
  bool Alone(const MirroredRange& range) const CUSPAN_REQUIRES(mutex_);
  // The numbers of those with copies of their own, which hear of every change.
  std::vector<std::uint64_t> ThoseWhoHearAll() const CUSPAN_REQUIRES(mutex_);

  // To devices: to all that hear of every change, and to `connection`, if it is not null, all that
  // it has not.
  CUresult Push(Connection* connection) CUSPAN_REQUIRES(mutex_);
  CUresult PostWritten(MirroredRange& range, Connection* connection) CUSPAN_REQUIRES(mutex_);
  CUresult Post(MirroredRange& range, Connection* connection, const MirroredRange::Spans& spans)
      CUSPAN_REQUIRES(mutex_);
  // Returns when all that was posted is there.
  CUresult SettlePosted(Connection* connection) CUSPAN_REQUIRES(mutex_);
  // Posts the blocks of which a replica is behind.
  static CUresult CatchUp(MirroredRange& range, MirroredRange::Replica& replica,
                          Connection& connection);
  // Those that hear of every change of the range, but not `except`, and `connection`, if it is not
  // null.
  std::vector<Connection*> Listeners(MirroredRange& range, const Connection* except,
                                     Connection* connection) CUSPAN_REQUIRES(mutex_);
  // Whether devices may be writing.
  bool Busy() const CUSPAN_REQUIRES(mutex_);
  CUresult PrepareLocked(Connection& connection, MutexLock* lock) CUSPAN_REQUIRES(mutex_);
  // Waits until no other device than `connection` that may have news for it has anything to do,
  // without the mutex.
  void WaitForOthers(const Connection& connection, MutexLock* lock) CUSPAN_REQUIRES(mutex_);

  // From devices: what others than `connection` wrote, of all, or of those of whose completion the
  // program has heard.
  CUresult Collect(const Connection& connection, bool all) CUSPAN_REQUIRES(mutex_);
  // Fetches blocks, which are valid then.
  CUresult Fetch(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // The same straight into the program's copy, from the only device that has another one: starts
  // it. Settle waits for it, and is the first thing to be done with the mutex.
  CUresult BeginFetch(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  CUresult Settle() CUSPAN_REQUIRES(mutex_);
  // Begins to fetch what follows the run when the program goes on from one to the next.
  void FetchAhead(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // Gets the news of devices, of many blocks at once; *changed when there were any.
  CUresult FetchUpdates(const std::vector<Wanted>& wanted, const From& from, bool* changed)
      CUSPAN_REQUIRES(mutex_);
  // *incoming was fetched from a device that may work: fetches the same again until two in
  // succession are equal.
  CUresult FetchState(Connection& connection, const BlockAllocator::Range& part,
                      const MirroredRange& range, std::shared_ptr<Incoming>* incoming)
      CUSPAN_REQUIRES(mutex_);
  CUresult FetchFrom(Connection& connection, MirroredRange& range,
                     const BlockAllocator::Range& part, bool* changed) CUSPAN_REQUIRES(mutex_);
  // `part` as the device has it.
  CUresult Merge(Connection& connection, MirroredRange& range, const BlockAllocator::Range& part,
                 const Incoming& incoming, bool* changed) CUSPAN_REQUIRES(mutex_);
  // Takes what is here of what was expected of a device that was synchronised.
  void TakeExpected(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  // The program sees the blocks as they were at that time while a device works.
  void NoteSeen(const MirroredRange& range, PageStates::Run run, Time until)
      CUSPAN_REQUIRES(mutex_);
  void Touch(MirroredRange& range, std::size_t block, bool write) CUSPAN_REQUIRES(mutex_);

  // What the program sees of page-locked memory is fetched anew when it looks again.
  void ExpireAll() CUSPAN_REQUIRES(mutex_);
  bool AnyPinnedDirty() const CUSPAN_REQUIRES(mutex_);
  // What devices at work wrote goes to each other; a part of all there is.
  void Relay() CUSPAN_REQUIRES(mutex_);

  const Used used_;
  const CallBy call_by_;
  AddressWindow window_;
  int file_ = -1;
  std::atomic<bool> mirrored_{false};  // There are, or were, ranges.
  std::atomic<bool> in_use_{false};
  std::atomic<bool> managed_in_use_{false};
  OrderedStores stores_;
  std::atomic<bool> may_be_old_{false};
  Mutex mutex_;
  // Blocks that are writable for the program while devices work.
  struct OpenBlocks {
    MirroredRange* range;
    PageStates::Run run;
  };
  std::optional<OpenBlocks> open_ CUSPAN_GUARDED_BY(mutex_);
  // Blocks whose stores are logged.
  std::vector<BlockAllocator::Range> logged_ CUSPAN_GUARDED_BY(mutex_);
  // System calls that access pinned memory by the other mapping.
  int calls_ CUSPAN_GUARDED_BY(mutex_) = 0;
  // Stores were posted that may not be at the devices yet.
  bool unsettled_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::byte* alias_ CUSPAN_GUARDED_BY(mutex_) = nullptr;
  std::map<std::uint64_t, MirroredRange> ranges_ CUSPAN_GUARDED_BY(mutex_);  // By base.
  std::list<Worker> workers_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t work_ CUSPAN_GUARDED_BY(mutex_) = 0;  // How often a device was given some.
  std::vector<Seen> seen_ CUSPAN_GUARDED_BY(mutex_);
  std::optional<Fetching> fetching_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<Expected> expected_ CUSPAN_GUARDED_BY(mutex_);  // Since the last synchronisation.
  // Of Relay: where to go on, when, and how long to wait when there was nothing.
  std::uint64_t relay_at_ CUSPAN_GUARDED_BY(mutex_) = 0;
  Time relay_due_ CUSPAN_GUARDED_BY(mutex_);
  std::chrono::microseconds relay_pause_ CUSPAN_GUARDED_BY(mutex_){kSoon};
};

}  // namespace cuspan
