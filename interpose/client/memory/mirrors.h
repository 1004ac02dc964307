// Keeps pinned and managed memory equal between the program and devices with their own copy of it.
// The rules are CUDA's: writes of the program are visible to the work launched next, writes of a
// device to the program after a synchronisation. Pinned memory is kept equal while kernels run,
// too: writes of the program go to the devices at every waiting or querying call, and soon without
// one. Data read by the program becomes invalid after kSoon, and the next read fetches it again.
//
// Each block has the program's copy, one copy per device, and a twin. The program sees its copy
// with the protection of page_states.h; this library uses a second, unprotected mapping. The twin
// holds the last contents agreed on. Differences from the twin are writes of one side. Only
// differences are transferred, so several sides may write different bytes of a block at once, as
// pinned memory allows.
//
// - Before work is posted to a device, the program's writes are sent there.
// - Once it is posted, no block of the program's copy is valid. The first access to a block fetches
//   it (faults.h).
// - A device stays in working_devices_ until all its writes are fetched, even after its work. Until
//   then every change of the twin is sent to it at once, so its copy differs from the twin only by
//   its own updates.
// - Updates of one device are fetched for another only after a synchronisation: the program was
//   notified of the work, or a stream waited for its event. Before work, managed memory waits until
//   the other devices are done.
// - A device of this node using the program's memory needs no transfers. Its writes are not seen,
//   so all blocks count as written.
// - While devices work, stores of the program to pinned memory are executed one by one, logged, and
//   sent in the same order (ordered_stores.h has the exceptions).
// - Pages of managed memory used by turns are exchanged without faults (kept_pages.h).
// - A fetch from a working device with updates is repeated until two in succession are equal, at
//   most 64 times: the result is a state of the device's memory. All other data seen by the program
//   is then fetched again, since it may be older.
//
// Terms: a run is a number of consecutive blocks of a MirroredRange; `place` is the addresses of a
// run, `part` the allocated part of them. "Pinned" is CUDA's page-locked memory.
//
// Threads: any except the receiving thread. The functions may wait for devices.
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
#include "interpose/client/memory/kept_pages.h"
#include "interpose/client/memory/mirrored_range.h"
#include "interpose/client/memory/ordered_stores.h"
#include "structs.gen.h"

namespace cuspan {

class Connection;
struct Incoming;

// Kind of an access about to happen.
enum class Access {
  kRead,
  kWrite,   // Store not executed singly, such as a fill: its page becomes writable.
  kStore,   // Store without reading the memory.
  kUpdate,  // Store also reading the memory, such as an atomic operation.
  kFence,   // No access: logged stores are sent, and later loads fetch pinned memory again.
};

class Mirrors {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Usual time until pinned memory read during a device's work becomes invalid; longer if its fetch
  // took longer. Also the delay until writes of the program are sent without a call.
  static constexpr std::chrono::microseconds kSoon{200};

  // Returns the smallest range with all allocations in `part`.
  using Used = std::function<BlockAllocator::Range(const BlockAllocator::Range& part)>;
  // Requests a call of Refresh by that time; does not wait.
  using CallBy = std::function<void(Time when)>;
  Mirrors(Used used, CallBy call_by) : used_(std::move(used)), call_by_(std::move(call_by)) {}
  Mirrors(const Mirrors&) = delete;

  // Sets the region and the file behind it, once.
  void SetMemory(const AddressWindow& window, int file) { memory_ = {window, file}; }
  // True if the program uses mirrored memory. Otherwise Allocated, Prepare to Follow, and Refresh
  // do nothing, and no device waits for another.
  bool active() const {
    return mirrored_.load(std::memory_order_acquire) && in_use_.load(std::memory_order_acquire);
  }
  // `any`: the program has a block of the region; `managed`: of managed memory.
  void SetInUse(bool any, bool managed) {
    in_use_.store(any, std::memory_order_release);
    managed_in_use_.store(managed, std::memory_order_release);
  }
  bool managed_in_use() const { return managed_in_use_.load(std::memory_order_acquire); }

  // Called when the device has new memory for `range`: fills it with zeros, and mirrors it from now
  // on.
  CUresult Begin(Connection& connection, const BlockAllocator::Range& range);
  // Called when the range is no longer used on any side.
  void End(const BlockAllocator::Range& range);
  // Called when the program has a new block there.
  void Allocated(const BlockAllocator::Range& block);
  // Called when the device is gone, with all its unfetched updates.
  void Forget(const Connection& connection);

  // Called before work reading the region, in `stream`: sends the writes of the program and of
  // other devices.
  CUresult Prepare(Connection& connection, std::uint64_t stream);
  // Called before and after work that may write the region is posted. BeforeWork includes Prepare.
  CUresult BeforeWork(Connection& connection, std::uint64_t stream);
  void AfterWork(Connection& connection, std::uint64_t stream);
  // Called before a stream of the device ends.
  void StreamEnds(std::uint64_t stream);
  // Sends the program's writes now, without waiting for other devices.
  CUresult SendUpdates(Connection& connection);
  // Called after a copy to the region was posted to the device's stream. If the copy is small, its
  // result is fetched in the same stream, since the program will probably read it after its next
  // synchronisation.
  void Copied(Connection& connection, std::uint64_t address, std::uint64_t bytes,
              std::uint64_t stream);
  // Called before the program waits for the device or queries its work: sends its pinned writes to
  // devices at work.
  void BeforeWait(Connection& connection);
  // Called before the program is notified of completed work of the device.
  void Synchronized(const Connection& connection);
  // Called before a stream of `connection` continues after completed work of `other`.
  CUresult Follow(Connection& connection, const Connection& other);

  // Allows an access to [address, address + bytes), about to happen or faulted. False if the memory
  // is not mirrored. Failures are not reported here: the program goes on with its own copy, and its
  // next call returns the error.
  bool Admit(std::uint64_t address, std::uint64_t bytes, Access access);
  // Called before a system call reads or writes [address, address + bytes). Returns the address for
  // the system call: 0 if the memory is not mirrored, `address` itself, or, while stores are
  // ordered, another address. EndCall must follow only in this last case. `written`: number of
  // bytes written.
  std::uint64_t BeginCall(std::uint64_t address, std::uint64_t bytes, bool write);
  void EndCall(std::uint64_t address, std::uint64_t written);
  // Stores of the program while devices work. Threads: any, and signal handlers.
  OrderedStores& stores() { return stores_; }
  // Sends the logged stores.
  void SendStores();
  // True if pinned memory fetched during a device's work may be outdated. Threads: any.
  bool may_be_old() const { return may_be_old_.load(std::memory_order_acquire); }

  // Does due work for pinned memory while devices work, or when they no longer do. Returns the
  // time of the next call, if any.
  std::optional<Time> Refresh(Time now, bool at_work);

 private:
  // A device with possible updates.
  struct WorkingDevice {
    std::shared_ptr<Connection> connection;
    bool in_place;       // Uses our memory.
    bool has_unfetched;  // The program was notified of completed work not fetched yet.
    int posting;         // Number of threads between BeforeWork and AfterWork.
  };
  // Blocks of pinned memory fetched for the program while a device worked.
  struct Seen {
    BlockAllocator::Range place;
    Time until;
  };

  // Blocks being fetched in stream order.
  struct Expected {
    std::shared_ptr<Connection> connection;
    BlockAllocator::Range place;
    BlockAllocator::Range part;  // Part being fetched.
    std::shared_ptr<Incoming> incoming;
  };
  // Blocks with possible updates of devices.
  struct BlocksToFetch {
    MirroredRange* range;
    PageStates::Run run;
  };
  using From = std::function<bool(const WorkingDevice& worker)>;
  // Blocks in flight from a device.
  struct Fetching {
    MirroredRange* range;
    PageStates::Run run;
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Incoming> incoming;
  };

  // Called first after the mutex is locked: completes fetches in flight, and ends the order of
  // stores when no device works any more. Functions not calling it call Settle.
  void Enter() CUSPAN_REQUIRES(mutex_);
  // True if a device with a copy of pinned memory works, or will.
  bool NeedsOrder() const CUSPAN_REQUIRES(mutex_);
  void EndOrder() CUSPAN_REQUIRES(mutex_);
  // Posts the logged stores to all devices receiving every change. CloseRun does the same for pages
  // writable for a while.
  CUresult PostStores() CUSPAN_REQUIRES(mutex_);
  CUresult PostLogged() CUSPAN_REQUIRES(mutex_);
  CUresult CloseRun() CUSPAN_REQUIRES(mutex_);
  void OpenRun(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // Called before the program stores to blocks of a pinned range while devices work.
  void AdmitStore(MirroredRange& range, PageStates::Run run, Access access) CUSPAN_REQUIRES(mutex_);
  // Makes the program's next accesses fetch all pinned memory again.
  void InvalidatePinned() CUSPAN_REQUIRES(mutex_);
  MirroredRange* Find(std::uint64_t address) CUSPAN_REQUIRES(mutex_);
  CUresult MapAlias() CUSPAN_REQUIRES(mutex_);
  // Sets the protection of the blocks according to their states.
  void Protect(MirroredRange& range, std::size_t first, std::size_t count) CUSPAN_REQUIRES(mutex_);

  WorkingDevice* FindWorkingDevice(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  WorkingDevice& AddWorkingDevice(Connection& connection, bool in_place) CUSPAN_REQUIRES(mutex_);
  unsigned CountAtWork() const CUSPAN_REQUIRES(mutex_);
  // True if only one device has a copy of the range, and only the program can write to it now.
  bool Alone(const MirroredRange& range) const CUSPAN_REQUIRES(mutex_);
  // Numbers of the working devices with their own copies.
  std::vector<std::uint64_t> NumbersOfListeners() const CUSPAN_REQUIRES(mutex_);

  // Sends changes to all devices receiving every change, and all missing data to `connection`, if
  // not null, for its work in `stream`, if known.
  CUresult Push(Connection* connection, std::optional<std::uint64_t> stream = std::nullopt)
      CUSPAN_REQUIRES(mutex_);
  CUresult PostWritten(MirroredRange& range, Connection* connection) CUSPAN_REQUIRES(mutex_);
  CUresult Post(MirroredRange& range, Connection* connection, const MirroredRange::Spans& spans)
      CUSPAN_REQUIRES(mutex_);
  // Returns once everything posted has arrived.
  CUresult SettlePosted(Connection* connection) CUSPAN_REQUIRES(mutex_);
  // Posts the outdated blocks of a replica.
  static CUresult CatchUp(MirroredRange& range, MirroredRange::Replica& replica,
                          Connection& connection);
  // Devices receiving every change of the range, except `except`, and `connection`, if not null.
  std::vector<Connection*> Listeners(MirroredRange& range, const Connection* except,
                                     Connection* connection) CUSPAN_REQUIRES(mutex_);
  // True if devices may be writing.
  bool Busy() const CUSPAN_REQUIRES(mutex_);
  CUresult PrepareLocked(Connection& connection, std::uint64_t stream, MutexLock* lock)
      CUSPAN_REQUIRES(mutex_);
  // Keeps the pages touched at each turn, after work was posted.
  void KeepPages(Connection& connection, std::uint64_t stream) CUSPAN_REQUIRES(mutex_);
  // Waits until the other working devices are done, with the mutex released. Gives up after some
  // rounds if other threads keep posting work.
  void WaitForOthers(const Connection& connection, MutexLock* lock) CUSPAN_REQUIRES(mutex_);

  // Fetches writes of devices other than `connection`: with `all` of all of them, otherwise of
  // those with has_unfetched.
  CUresult Collect(const Connection& connection, bool all) CUSPAN_REQUIRES(mutex_);
  // Fetches blocks and makes them valid.
  CUresult Fetch(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // Starts the same straight into the program's copy. Only one device may have another copy. Settle
  // completes it.
  CUresult BeginFetch(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  CUresult Settle() CUSPAN_REQUIRES(mutex_);
  // Begins to fetch the blocks after the run, if the program reads one run after the other.
  void FetchAhead(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // Fetches updates of devices, of many blocks at once; sets *changed if there were any.
  CUresult FetchUpdates(const std::vector<BlocksToFetch>& wanted, const From& from, bool* changed)
      CUSPAN_REQUIRES(mutex_);
  // Repeats the fetch of *incoming, from a device possibly at work, until two in succession are
  // equal.
  CUresult FetchState(Connection& connection, const BlockAllocator::Range& part,
                      const MirroredRange& range, std::shared_ptr<Incoming>* incoming)
      CUSPAN_REQUIRES(mutex_);
  CUresult FetchFrom(Connection& connection, MirroredRange& range,
                     const BlockAllocator::Range& part, bool* changed) CUSPAN_REQUIRES(mutex_);
  // Merges `part` as fetched from the device.
  CUresult Merge(Connection& connection, MirroredRange& range, const BlockAllocator::Range& part,
                 const Incoming& incoming, bool* changed) CUSPAN_REQUIRES(mutex_);
  // Uses completed fetches of expected_ after a synchronisation of the device.
  void ConsumeExpected(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  // Records the blocks as seen by the program during a device's work; they expire at `until`.
  void NoteSeen(const MirroredRange& range, PageStates::Run run, Time until)
      CUSPAN_REQUIRES(mutex_);
  void Touch(MirroredRange& range, std::size_t block, bool write) CUSPAN_REQUIRES(mutex_);

  // Makes the program's next accesses fetch the blocks of seen_ again.
  void ExpireAll() CUSPAN_REQUIRES(mutex_);
  bool AnyPinnedDirty() const CUSPAN_REQUIRES(mutex_);
  // Sends writes of devices at work to each other, at most 512 KiB per call.
  void Relay() CUSPAN_REQUIRES(mutex_);

  const Used used_;
  const CallBy call_by_;
  // The region, and the file behind it.
  struct RegionMemory {
    AddressWindow window;
    int file = -1;
  };
  RegionMemory memory_;
  std::atomic<bool> mirrored_{false};  // True if ranges exist or existed.
  std::atomic<bool> in_use_{false};
  std::atomic<bool> managed_in_use_{false};
  OrderedStores stores_;
  std::atomic<bool> may_be_old_{false};
  Mutex mutex_;
  // Blocks writable for the program while devices work.
  struct OpenBlocks {
    MirroredRange* range;
    PageStates::Run run;
  };
  std::optional<OpenBlocks> open_ CUSPAN_GUARDED_BY(mutex_);
  // Blocks with logging of stores.
  std::vector<BlockAllocator::Range> logged_ CUSPAN_GUARDED_BY(mutex_);
  // System calls accessing pinned memory by the other mapping.
  int calls_ CUSPAN_GUARDED_BY(mutex_) = 0;
  // True if posted stores may not have arrived at the devices yet.
  bool unsettled_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::byte* alias_ CUSPAN_GUARDED_BY(mutex_) = nullptr;
  std::map<std::uint64_t, MirroredRange> ranges_ CUSPAN_GUARDED_BY(mutex_);  // Keyed by base.
  std::list<WorkingDevice> working_devices_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t work_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Number of postings of work.
  std::vector<Seen> seen_ CUSPAN_GUARDED_BY(mutex_);
  std::optional<Fetching> fetching_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<Expected> expected_ CUSPAN_GUARDED_BY(mutex_);  // Since the last synchronisation.
  KeptPages kept_ CUSPAN_GUARDED_BY(mutex_){MirroredRange::kBlockBytes};
  struct RelayState {
    std::uint64_t at = 0;  // Next address.
    Time due;
    std::chrono::microseconds pause{kSoon};  // If nothing was found.
  };
  RelayState relay_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
