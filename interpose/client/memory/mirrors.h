// Keeps parts of the shared region equal between the program and devices with their own memory for
// them, as CUDA promises. Host writes are visible to the work launched next. Device writes are
// visible to the host after a synchronisation. Page-locked memory is kept equal while kernels run,
// too: host writes go to the devices at every waiting or querying call, and soon without one. Data
// read by the host is fetched again soon (kSoon).
//
// Each block has a copy of the program, one of each device, and a twin. The program sees its copy
// with the protection of page_states.h; we use a second mapping without protection. The twin holds
// the last contents agreed on. Differences from the twin are writes of one side. Only differences
// are transferred, so several sides may write different bytes of a block at once, as page-locked
// memory allows.
//
// - Before work on a device, the program's writes are sent there.
// - After it nothing is valid here; the first access to a block fetches it (faults.h).
// - A device with work may have updates until all its writes are fetched. Until then every change
//   of the twin is sent to it at once, so its copy differs from the twin only by its own updates.
// - Updates of one device are fetched for another if they are complete in the program's order: the
//   program was notified, or a stream waited for an event. Managed memory is transferred only when
//   a device is done.
// - A device sharing our memory needs none of this for itself. Its writes are not noticed, so all
//   blocks count as written.
// - While devices work, stores of the program to pinned memory are executed and sent one by one, in
//   their order (ordered_stores.h). A fetch is repeated until two in succession are equal: this was
//   a state of the device's memory. If it has updates, all other data seen by the program is
//   fetched again, since it may be older.
//
// Threads: any except the receiver's; functions wait for devices.
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

// Kind of an access about to happen.
enum class Access {
  kRead,
  kWrite,   // Store needing a writable page.
  kStore,   // Store without reading the memory.
  kUpdate,  // Store also reading the memory.
  kFence,   // No access: later loads must not be older than any earlier store.
};

class Mirrors {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum age of page-locked memory seen by the program while a device works, and maximum delay
  // of the program's writes.
  static constexpr std::chrono::microseconds kSoon{200};

  // Returns the range used by the program in a part of the region: first to last block there.
  using Used = std::function<BlockAllocator::Range(const BlockAllocator::Range& part)>;
  // Requests a call of Refresh by that time; does not wait.
  using CallBy = std::function<void(Time when)>;
  Mirrors(Used used, CallBy call_by) : used_(std::move(used)), call_by_(std::move(call_by)) {}
  Mirrors(const Mirrors&) = delete;

  // Sets the region and the file behind it, once.
  void SetMemory(const AddressWindow& window, int file) {
    window_ = window;
    file_ = file;
  }
  // True if the program uses mirrored memory. Otherwise the functions below do nothing, and no
  // device waits for another.
  bool active() const {
    return mirrored_.load(std::memory_order_acquire) && in_use_.load(std::memory_order_acquire);
  }
  // `any`: the program has a block of the region; `managed`: of managed memory.
  void SetInUse(bool any, bool managed) {
    in_use_.store(any, std::memory_order_release);
    managed_in_use_.store(managed, std::memory_order_release);
  }
  bool managed_in_use() const { return managed_in_use_.load(std::memory_order_acquire); }

  // Called when `connection` has new memory for `range`: keeps it equal from now on.
  CUresult Begin(Connection& connection, const BlockAllocator::Range& range);
  // Called when the range is no longer used on any side.
  void End(const BlockAllocator::Range& range);
  // Called when the program has a new block there.
  void Allocated(const BlockAllocator::Range& block);
  // Called when the device is gone, with all its unfetched updates.
  void Forget(const Connection& connection);

  // Sends writes of the program and of other devices to the device, as needed by its next work.
  CUresult Prepare(Connection& connection);
  // Calls around all work possibly writing the region on a device. BeforeWork includes Prepare.
  CUresult BeforeWork(Connection& connection);
  void AfterWork(Connection& connection);
  // Sends the program's writes to the device.
  CUresult SendUpdates(Connection& connection);
  // Called after a copy to the region was posted to the device's stream. The program is likely to
  // read a small one after its wait: its result is fetched along, without another wait.
  void Copied(Connection& connection, std::uint64_t address, std::uint64_t bytes,
              std::uint64_t stream);
  // Called before the program waits or queries: sends its page-locked writes to devices at work.
  void BeforeWait();
  // Called when the program is notified of completed work of the device.
  void Synchronized(const Connection& connection);
  // Called before a stream of `connection` continues after completed work of `other`.
  CUresult Follow(Connection& connection, const Connection& other);

  // Allows an access to [address, address + bytes), about to happen or faulted. False if the memory
  // is not mirrored.
  bool Admit(std::uint64_t address, std::uint64_t bytes, Access access);
  // Called before a system call reads or writes [address, address + bytes). Returns 0 if the memory
  // is not mirrored, else the address for the kernel. While stores are ordered, this is another
  // address, valid until EndCall. `written`: number of bytes written.
  std::uint64_t BeginCall(std::uint64_t address, std::uint64_t bytes, bool write);
  void EndCall(std::uint64_t address, std::uint64_t written);
  // Stores of the program while devices work. Threads: any, and signal handlers.
  OrderedStores& stores() { return stores_; }
  // Sends the logged stores.
  void SendStores();
  // True if the program may see an earlier state of pinned memory. Threads: any.
  bool may_be_old() const { return may_be_old_.load(std::memory_order_acquire); }

  // Does due work for page-locked memory while devices work, or when they no longer do. Returns the
  // time of the next call, if any.
  std::optional<Time> Refresh(Time now, bool at_work);

 private:
  // A device with possible updates.
  struct WorkingDevice {
    std::shared_ptr<Connection> connection;
    bool in_place;       // Uses our memory.
    bool has_unfetched;  // The program was notified of completed work not fetched yet.
    int posting;         // Threads between BeforeWork and AfterWork.
  };
  // Blocks of page-locked memory seen by the program in a state during a device's work.
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

  // Must be called first after locking the mutex: completes fetches in flight, and ends the order
  // of stores when no device works any more.
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
  // Numbers of the devices with their own copies: they receive every change.
  std::vector<std::uint64_t> NumbersOfNotifiedDevices() const CUSPAN_REQUIRES(mutex_);

  // Sends changes to all devices receiving every change, and all missing data to `connection`, if
  // not null.
  CUresult Push(Connection* connection) CUSPAN_REQUIRES(mutex_);
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
  CUresult PrepareLocked(Connection& connection, MutexLock* lock) CUSPAN_REQUIRES(mutex_);
  // Waits, without the mutex, until no device other than `connection` with possible updates for it
  // has work.
  void WaitForOthers(const Connection& connection, MutexLock* lock) CUSPAN_REQUIRES(mutex_);

  // Fetches writes of devices other than `connection`: of all, or only of those known by the
  // program to have completed work.
  CUresult Collect(const Connection& connection, bool all) CUSPAN_REQUIRES(mutex_);
  // Fetches blocks and makes them valid.
  CUresult Fetch(MirroredRange& range, PageStates::Run run) CUSPAN_REQUIRES(mutex_);
  // Starts the same straight into the program's copy, from the only device with another one. Settle
  // waits for it. It must be called first after locking the mutex.
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
  // Sends writes of devices at work to each other, one part of the memory per call.
  void Relay() CUSPAN_REQUIRES(mutex_);

  const Used used_;
  const CallBy call_by_;
  AddressWindow window_;
  int file_ = -1;
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
  // State of Relay: next address, next time, and pause if nothing was found.
  std::uint64_t relay_at_ CUSPAN_GUARDED_BY(mutex_) = 0;
  Time relay_due_ CUSPAN_GUARDED_BY(mutex_);
  std::chrono::microseconds relay_pause_ CUSPAN_GUARDED_BY(mutex_){kSoon};
};

}  // namespace cuspan
