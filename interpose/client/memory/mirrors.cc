#include "interpose/client/memory/mirrors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"
#include "interpose/client/memory/spans.h"

namespace cuspan {
namespace {

using Clock = std::chrono::steady_clock;

// Maximum bytes searched for writes before those found are sent.
constexpr std::uint64_t kMaxExamined = std::uint64_t{4} << 20;
int ProtectionOf(PageStates::Access access) {
  switch (access) {
    case PageStates::Access::kNothing:
      return PROT_NONE;
    case PageStates::Access::kRead:
      return PROT_READ;
    case PageStates::Access::kWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

// True if its kernels see the region.
bool CanWork(const Connection& connection) {
  return connection.mirrors_managed() || connection.sharing() == Sharing::kMemory;
}

}  // namespace

MirroredRange* Mirrors::Find(std::uint64_t address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  MirroredRange& range = std::prev(after)->second;
  return address - range.place().base < range.place().bytes ? &range : nullptr;
}

CUresult Mirrors::MapAlias() {
  if (alias_ != nullptr) return CUDA_SUCCESS;
  void* const alias = ::mmap(nullptr, memory_.window.bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_NORESERVE, memory_.file, 0);
  if (alias == MAP_FAILED) {
    LogError(
        "managed and mapped memory for a device on another node needs {} GiB of address space: {}",
        memory_.window.bytes >> 30, std::strerror(errno));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!stores_.SetMemory(memory_.window, static_cast<std::byte*>(alias))) {
    LogError("cannot allocate memory for the log of the program's stores to pinned memory: {}",
             std::strerror(errno));
    ::munmap(alias, memory_.window.bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Child processes do not need it.
  ::madvise(alias, memory_.window.bytes, MADV_DONTFORK);
  alias_ = static_cast<std::byte*>(alias);
  return CUDA_SUCCESS;
}

CUresult Mirrors::Begin(Connection& connection, const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  Enter();
  if (const CUresult result = MapAlias(); result != CUDA_SUCCESS) return result;
  kept_.End(place);
  MirroredRange* range = Find(place.base);
  if (range == nullptr) {
    const std::uint64_t offset = place.base - memory_.window.base;
    const auto made =
        ranges_.try_emplace(place.base, place, alias_ + offset, offset >= memory_.window.bytes / 2,
                            connection.sharing() == Sharing::kMemory);
    range = &made.first->second;
    if (!range->valid()) {
      ranges_.erase(made.first);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!StartFaults(*this, memory_.window)) {
      ranges_.erase(made.first);
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    mirrored_.store(true, std::memory_order_release);
    Protect(*range, 0, range->blocks());
  }
  Memset zero;
  zero.destination = place.base;
  zero.element_bytes = 1;
  zero.elements = place.bytes;
  CUresult result = connection.MemoryStream(&zero.stream);
  if (result == CUDA_SUCCESS) result = connection.Send(zero);
  if (result == CUDA_SUCCESS) result = connection.CallAndStore(StreamSynchronize{zero.stream});
  if (result != CUDA_SUCCESS) return result;
  range->AddReplica(connection.number());
  if (NeedsOrder()) stores_.TurnOn();
  // A device with work receives changes only, so it must catch up now.
  if (FindWorkingDevice(connection) == nullptr) return CUDA_SUCCESS;
  result = CatchUp(*range, *range->FindReplica(connection.number()), connection);
  return result == CUDA_SUCCESS ? SettleSpans(connection) : result;
}

void Mirrors::End(const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  Enter();
  kept_.Forget(place);
  if (ranges_.contains(place.base)) {
    static_cast<void>(PostStores());
    stores_.Unlog(place);
    ranges_.erase(place.base);
  }
  std::erase_if(seen_,
                [&](const Seen& seen) { return seen.place.base - place.base < place.bytes; });
}

void Mirrors::Allocated(const BlockAllocator::Range& block) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  Enter();
  MirroredRange* const range = Find(block.base);
  if (range == nullptr || working_devices_.empty()) return;
  expected_.clear();
  // Device writes there, for an earlier block, were never fetched.
  const PageStates::Run run = range->BlocksOf(block.base, block.bytes);
  kept_.End(range->RangeOf(run));
  range->states().Invalidate(run);
  Protect(*range, run.first, run.count);
}

void Mirrors::Forget(const Connection& connection) {
  const MutexLock lock(mutex_);
  Enter();
  kept_.Lose(connection);
  working_devices_.remove_if(
      [&](const WorkingDevice& worker) { return worker.connection.get() == &connection; });
  for (auto& [base, range] : ranges_) {
    range.replicas().remove_if([&](const MirroredRange::Replica& replica) {
      return replica.connection == connection.number();
    });
    if (!working_devices_.empty()) continue;
    // Its unfetched writes are lost; the program's copy is now the only one.
    for (std::size_t block = 0; block < range.blocks(); ++block)
      range.states().Fetched(block, false);
    Protect(range, 0, range.blocks());
  }
}

void Mirrors::Protect(MirroredRange& range, std::size_t first, std::size_t count) {
  PageStates& states = range.states();
  const std::size_t end = first + count;
  for (std::size_t at = first; at < end;) {
    const PageStates::Run run = states.SameAccess(at, end);
    const BlockAllocator::Range place = range.RangeOf(run);
    stores_.SetValid(place, states.valid(run.first));
    const int protection = ProtectionOf(states.access(run.first));
    bool set = true;
    for (const BlockAllocator::Range& part : kept_.Without(place))
      set = ::mprotect(PointerTo(part.base), part.bytes, protection) == 0 && set;
    if (!set) {
      // The kernel has no space for more mappings of different protection. All is made writable,
      // after fetching all of it.
      if (stores_.on())
        LogWarn(
            "kernels on other nodes may see stores of the program to pinned memory in another "
            "order: Linux allows too few mappings to protect its pages separately; raise "
            "vm.max_map_count");
      kept_.End(range.place());
      range.Written({0, range.blocks()}, false);
      for (std::size_t block = 0; block < range.blocks(); ++block)
        if (!states.valid(block)) static_cast<void>(Fetch(range, {block, 1}));
      ::mprotect(PointerTo(range.place().base), range.place().bytes, PROT_READ | PROT_WRITE);
      return;
    }
    at += run.count;
  }
}

// --- Devices with possible updates

bool Mirrors::Alone(const MirroredRange& range) const {
  return range.replicas().size() == 1 && !Busy() && !stores_.on() && calls_ == 0 &&
         std::none_of(working_devices_.begin(), working_devices_.end(),
                      [](const WorkingDevice& worker) { return worker.in_place; });
}

bool Mirrors::Busy() const {
  return std::any_of(working_devices_.begin(), working_devices_.end(),
                     [](const WorkingDevice& worker) {
                       return worker.posting != 0 || worker.connection->AtWork();
                     });
}

Mirrors::WorkingDevice* Mirrors::FindWorkingDevice(const Connection& connection) {
  for (WorkingDevice& worker : working_devices_)
    if (worker.connection.get() == &connection) return &worker;
  return nullptr;
}

Mirrors::WorkingDevice& Mirrors::AddWorkingDevice(Connection& connection, bool in_place) {
  if (WorkingDevice* const known = FindWorkingDevice(connection)) return *known;
  return working_devices_.emplace_back(
      WorkingDevice{connection.shared_from_this(), in_place, false, 0});
}

unsigned Mirrors::CountAtWork() const {
  return static_cast<unsigned>(
      std::count_if(working_devices_.begin(), working_devices_.end(),
                    [](const WorkingDevice& w) { return w.connection->AtWork(); }));
}

std::vector<std::uint64_t> Mirrors::NumbersOfListeners() const {
  std::vector<std::uint64_t> numbers;
  for (const WorkingDevice& worker : working_devices_)
    if (!worker.in_place) numbers.push_back(worker.connection->number());
  return numbers;
}

// --- To devices

// Not analysed: it releases the mutex in between.
void Mirrors::WaitForOthers(const Connection& connection,
                            MutexLock* lock) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  // Limits the wait if other threads keep giving them work.
  constexpr int kMaxRounds = 4;
  for (int round = 1; round <= kMaxRounds; ++round) {
    std::vector<std::shared_ptr<Connection>> others;
    for (const WorkingDevice& worker : working_devices_) {
      if (worker.connection.get() != &connection &&
          (!worker.in_place || connection.mirrors_managed()))
        others.push_back(worker.connection);
    }
    if (others.empty()) return;
    const std::uint64_t work = work_;
    // Their work may wait for a function of the program, and its thread needs the mutex as well.
    lock->unlock();
    for (const auto& other : others)
      static_cast<void>(
          other->CallAndStore(DeviceSynchronize{}));  // A lost one writes nothing more.
    lock->lock();
    Enter();
    if (work == work_) return;
  }
}

CUresult Mirrors::PrepareLocked(Connection& connection, std::uint64_t stream, MutexLock* lock) {
  const bool managed = managed_in_use();
  if (managed) WaitForOthers(connection, lock);
  if (kept_.connection() != &connection) kept_.EndAll();
  if (const CUresult result = Collect(connection, managed); result != CUDA_SUCCESS) return result;
  return connection.mirrors_managed() ? Push(&connection, stream) : CUDA_SUCCESS;
}

CUresult Mirrors::Prepare(Connection& connection, std::uint64_t stream) {
  if (!active()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  Enter();
  return PrepareLocked(connection, stream, &lock);
}

CUresult Mirrors::BeforeWork(Connection& connection, std::uint64_t stream) {
  if (!active()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  Enter();
  const CUresult result = PrepareLocked(connection, stream, &lock);
  if (result != CUDA_SUCCESS || !CanWork(connection)) return result;
  // From now on a device with a copy receives every change, so its copy is complete when its work
  // arrives. Writes of a device using our memory are found by the twins.
  const bool in_place = !connection.mirrors_managed();
  if (in_place && FindWorkingDevice(connection) == nullptr)
    for (auto& [base, range] : ranges_) range.MakeTwins({0, range.blocks()});
  ++AddWorkingDevice(connection, in_place).posting;
  if (NeedsOrder()) stores_.TurnOn();
  return CUDA_SUCCESS;
}

CUresult Mirrors::SendUpdates(Connection& connection) {
  if (!active() || !connection.mirrors_managed()) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  Enter();
  return Push(&connection);
}

void Mirrors::BeforeWait(Connection& connection) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  Enter();
  if (CountAtWork() != 0 && (stores_.any() || unsettled_ || AnyPinnedDirty()))
    static_cast<void>(Push(nullptr));
  kept_.BeforeWait(connection);
}

void Mirrors::StreamEnds(std::uint64_t stream) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  kept_.StreamEnds(stream);
}

CUresult Mirrors::Follow(Connection& connection, const Connection& other) {
  if (!active()) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  Enter();
  if (WorkingDevice* const worker = FindWorkingDevice(other)) worker->has_unfetched = true;
  if (const CUresult result = Collect(connection, false); result != CUDA_SUCCESS) return result;
  return connection.mirrors_managed() ? Push(&connection) : CUDA_SUCCESS;
}

CUresult Mirrors::Push(Connection* connection, std::optional<std::uint64_t> stream) {
  CUresult result = CUDA_SUCCESS;
  bool any = false;
  const auto note = [&](CUresult posted) {
    if (result == CUDA_SUCCESS) result = posted;
  };
  note(PostStores());
  any = unsettled_;
  for (auto& [base, range] : ranges_) {
    // Managed memory is sent to a device only before its work.
    if (connection == nullptr && range.managed()) continue;
    MirroredRange::Replica* const replica =
        connection == nullptr ? nullptr : range.FindReplica(connection->number());
    if (range.states().any_dirty()) {
      any = true;
      note(PostWritten(range, replica == nullptr ? nullptr : connection));
    }
    if (replica == nullptr || std::find(replica->current.begin(), replica->current.end(), false) ==
                                  replica->current.end())
      continue;
    any = true;
    note(CatchUp(range, *replica, *connection));
  }
  if (connection != nullptr) note(kept_.BeforeWork(*connection, stream, &any));
  if (!any) return result;
  note(SettlePosted(connection));
  return result;
}

CUresult Mirrors::PostWritten(MirroredRange& range, Connection* connection) {
  PageStates& states = range.states();
  std::vector<std::uint64_t> told = NumbersOfListeners();
  if (connection != nullptr) told.push_back(connection->number());
  // Later writes of the program count for the next time.
  const std::size_t count = range.blocks();
  for (std::size_t block = 0; block < count;) {
    const PageStates::Run run = states.SameAccess(block, count);
    if (states.access(block) == PageStates::Access::kWrite) {
      const BlockAllocator::Range place = range.RangeOf(run);
      ::mprotect(PointerTo(place.base), place.bytes, PROT_READ);
    }
    block += run.count;
  }
  const bool busy = Busy();
  CUresult result = CUDA_SUCCESS;
  MirroredRange::Spans written;
  const auto post = [&](const MirroredRange::Spans& spans) CUSPAN_REQUIRES(mutex_) {
    const CUresult posted = Post(range, connection, spans);
    if (result == CUDA_SUCCESS) result = posted;
  };
  for (std::size_t block = 0; block < count; ++block) {
    if (states.dirty(block) && range.CollectWritten(block, busy, &written)) {
      range.Changed({block, 1}, told);
      relay_.pause = kSoon;
      expected_.clear();  // Fetches in flight may be older.
    }
    // Sends the bytes found so far while searching for more.
    if (busy || written.empty() ||
        block * range.block_bytes() - written.front().base < kMaxExamined)
      continue;
    post(written);
    written.clear();
  }
  if (!busy)
    post(written);
  else
    for (const MirroredRange::Spans& spans : InOrderOfArrival(written)) post(spans);
  return result;
}

CUresult Mirrors::Post(MirroredRange& range, Connection* connection,
                       const MirroredRange::Spans& spans) {
  CUresult result = CUDA_SUCCESS;
  for (Connection* const to : Listeners(range, nullptr, connection)) {
    const CUresult posted = PostSpans(*to, range.place().base, range.agreed(), spans);
    // The loss of one device is no failure for the user of another.
    if (result == CUDA_SUCCESS && (to == connection || to->fault() == CUDA_SUCCESS))
      result = posted;
  }
  return result;
}

CUresult Mirrors::SettlePosted(Connection* connection) {
  CUresult result = connection == nullptr ? CUDA_SUCCESS : SettleSpans(*connection);
  for (const WorkingDevice& worker : working_devices_) {
    if (worker.in_place || worker.connection.get() == connection) continue;
    const CUresult settled = SettleSpans(*worker.connection);
    if (result == CUDA_SUCCESS && worker.connection->fault() == CUDA_SUCCESS) result = settled;
  }
  unsettled_ = false;
  return result;
}

CUresult Mirrors::CatchUp(MirroredRange& range, MirroredRange::Replica& replica,
                          Connection& connection) {
  MirroredRange::Spans missing;
  for (std::size_t block = 0; block < range.blocks(); ++block) {
    if (replica.current[block]) continue;
    replica.current[block] = true;
    range.MakeTwins({block, 1});
    const std::uint64_t offset = block * range.block_bytes();
    if (!missing.empty() && missing.back().base + missing.back().bytes == offset)
      missing.back().bytes += range.block_bytes();
    else
      missing.push_back({offset, range.block_bytes()});
  }
  return PostSpans(connection, range.place().base, range.agreed(), missing);
}

std::vector<Connection*> Mirrors::Listeners(MirroredRange& range, const Connection* except,
                                            Connection* connection) {
  std::vector<Connection*> listeners;
  const auto add = [&](Connection* one) {
    if (one == nullptr || one == except || range.FindReplica(one->number()) == nullptr ||
        std::find(listeners.begin(), listeners.end(), one) != listeners.end())
      return;
    listeners.push_back(one);
  };
  add(connection);
  for (const WorkingDevice& worker : working_devices_)
    if (!worker.in_place) add(worker.connection.get());
  return listeners;
}

void Mirrors::AfterWork(Connection& connection, std::uint64_t stream) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  Enter();
  ++work_;
  if (!CanWork(connection)) return;
  const bool in_place = !connection.mirrors_managed();
  const bool known = FindWorkingDevice(connection) != nullptr;
  WorkingDevice& worker = AddWorkingDevice(connection, in_place);
  if (NeedsOrder()) stores_.TurnOn();
  if (worker.posting != 0) --worker.posting;
  // Mirroring had not begun when this was posted.
  for (auto& [base, range] : ranges_) {
    MirroredRange::Replica* const replica = range.FindReplica(connection.number());
    if (known || replica == nullptr) continue;
    static_cast<void>(CatchUp(range, *replica, connection));
    static_cast<void>(SettleSpans(connection));
  }
  expected_.clear();  // The work may write there, too.
  if (in_place) {
    if (working_devices_.size() > 1) call_by_(Clock::now() + kSoon);
    return;
  }
  KeepPages(connection, stream);
  bool dirty = false;
  for (auto& [base, range] : ranges_) {
    dirty = dirty || (!range.managed() && range.states().any_dirty());
    if (!range.states().any_valid()) continue;
    range.states().DeviceRuns();
    Protect(range, 0, range.blocks());
  }
  seen_.clear();  // None of it is valid any more.
  if (dirty || working_devices_.size() > 1) call_by_(Clock::now() + kSoon);
}

void Mirrors::KeepPages(Connection& connection, std::uint64_t stream) {
  for (const std::uint64_t page : kept_.AfterWork(connection, stream)) {
    MirroredRange* const range = Find(page);
    if (range == nullptr || !range->managed() || working_devices_.size() != 1 ||
        range->replicas().size() != 1)
      continue;
    const PageStates::Run run = range->BlocksOf(page, KeptPages::kPageBytes);
    const bool agreed = range->states().valid(run.first) && !range->states().dirty(run.first) &&
                        !range->states().unstable(run.first);
    if (!agreed || !kept_.Keep(connection, page, range->here() + (page - range->place().base)))
      continue;
    range->Stored(run);
    range->states().Invalidate(run);
    Protect(*range, run.first, run.count);
  }
}

}  // namespace cuspan
