#include "interpose/client/memory/mirrors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/log.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"
#include "interpose/client/memory/spans.h"

namespace cuspan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kBlockBytes = MirroredRange::kBlockBytes;
// What is read ahead stays for a multiple of the time that it took, or the program would fetch it
// again before it gets there; and everything long enough to be looked at.
constexpr int kMostFetching = 4;
constexpr microseconds kLeastSeen{50};
// The most blocks that are relayed at once, and the longest pause after there was nothing.
constexpr std::size_t kMostRelayed = 16;
constexpr microseconds kMostPause{100'000};

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

// Whether its kernels see the region.
bool CanWork(const Connection& link) {
  return link.mirrors_managed() || link.sharing() == Sharing::kMemory;
}

// A part of the region, as the device has it.
CUresult Receive(Connection& link, const BlockAllocator::Range& part,
                 const std::shared_ptr<Incoming>& incoming) {
  incoming->bytes = part.bytes;
  CopyFromDevice op;
  if (const CUresult result = link.OwnStream(&op.stream); result != CUDA_SUCCESS) return result;
  op.source = part.base;
  op.bytes = part.bytes;
  op.transfer = link.transfers().BeginIncoming(incoming);
  if (const CUresult result = link.Send(op); result != CUDA_SUCCESS) {
    link.transfers().Forget(op.transfer);
    return result;
  }
  return link.transfers().WaitComplete(*incoming);
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
  void* const alias =
      ::mmap(nullptr, window_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (alias == MAP_FAILED) {
    LogError(
        "managed and mapped memory for a device on another node needs {} GiB of address space: {}",
        window_.bytes >> 30, std::strerror(errno));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // A child process has no use for it.
  ::madvise(alias, window_.bytes, MADV_DONTFORK);
  alias_ = static_cast<std::byte*>(alias);
  return CUDA_SUCCESS;
}

CUresult Mirrors::Begin(Connection& link, const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  if (const CUresult result = MapAlias(); result != CUDA_SUCCESS) return result;
  MirroredRange* range = Find(place.base);
  if (range == nullptr) {
    const std::uint64_t offset = place.base - window_.base;
    const auto made =
        ranges_.try_emplace(place.base, place, alias_ + offset, offset >= window_.bytes / 2,
                            link.sharing() == Sharing::kMemory);
    range = &made.first->second;
    if (!range->valid()) {
      ranges_.erase(made.first);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    StartFaults(*this, window_);
    mirrored_.store(true, std::memory_order_release);
    Protect(*range, 0, range->blocks());
  }
  Memset zero;
  zero.destination = place.base;
  zero.element_bytes = 1;
  zero.elements = place.bytes;
  CUresult result = link.OwnStream(&zero.stream);
  if (result == CUDA_SUCCESS) result = link.Send(zero);
  if (result == CUDA_SUCCESS) result = link.SynchronizeStream(zero.stream);
  if (result == CUDA_SUCCESS) range->AddReplica(link.number());
  return result;
}

void Mirrors::End(const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  ranges_.erase(place.base);
}

void Mirrors::Allocated(const BlockAllocator::Range& block) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  MirroredRange* const range = Find(block.base);
  if (range == nullptr || workers_.empty()) return;
  // Nobody has fetched what devices wrote there for an earlier block.
  const std::size_t first = (block.base - range->place().base) / kBlockBytes;
  const std::size_t last =
      (block.base + std::max<std::uint64_t>(block.bytes, 1) - 1 - range->place().base) /
      kBlockBytes;
  range->states().Invalidate({first, last - first + 1});
  Protect(*range, first, last - first + 1);
}

void Mirrors::Forget(const Connection& link) {
  const MutexLock lock(mutex_);
  workers_.remove_if([&](const Worker& worker) { return worker.link.get() == &link; });
  for (auto& [base, range] : ranges_) {
    range.replicas().remove_if(
        [&](const MirroredRange::Replica& replica) { return replica.link == link.number(); });
    if (!workers_.empty()) continue;
    // What it wrote and nobody fetched is gone; what the program has is what there is.
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
    void* const start = PointerTo(range.place().base + run.first * kBlockBytes);
    if (::mprotect(start, run.count * kBlockBytes, ProtectionOf(states.access(run.first))) != 0) {
      // The kernel has no room for more pieces of different protection. All may be written then,
      // once all is here.
      range.Written({0, range.blocks()}, false);
      for (std::size_t block = 0; block < range.blocks(); ++block)
        if (!states.valid(block)) static_cast<void>(Fetch(range, {block, 1}));
      ::mprotect(PointerTo(range.place().base), range.place().bytes, PROT_READ | PROT_WRITE);
      return;
    }
    at += run.count;
  }
}

// --- Devices that may have news

bool Mirrors::Alone(const MirroredRange& range) const {
  return range.replicas().size() == 1 &&
         std::none_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
           return worker.in_place || worker.posting != 0 || worker.link->AtWork();
         });
}

Mirrors::Worker* Mirrors::FindWorker(const Connection& link) {
  for (Worker& worker : workers_)
    if (worker.link.get() == &link) return &worker;
  return nullptr;
}

Mirrors::Worker& Mirrors::AddWorker(Connection& link, bool in_place) {
  if (Worker* const known = FindWorker(link)) return *known;
  return workers_.emplace_back(Worker{link.shared_from_this(), in_place, false, 0});
}

unsigned Mirrors::CountAtWork() const {
  return static_cast<unsigned>(std::count_if(workers_.begin(), workers_.end(),
                                             [](const Worker& w) { return w.link->AtWork(); }));
}

std::vector<std::uint64_t> Mirrors::ThoseWhoHearAll() const {
  std::vector<std::uint64_t> numbers;
  for (const Worker& worker : workers_)
    if (!worker.in_place) numbers.push_back(worker.link->number());
  return numbers;
}

// --- To devices

// Not analysed, as it gives the mutex back in between.
void Mirrors::WaitForOthers(const Connection& link,
                            MutexLock* lock) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  constexpr int kMostRounds = 4;
  for (int round = 1; round <= kMostRounds; ++round) {
    std::vector<std::shared_ptr<Connection>> others;
    for (const Worker& worker : workers_) {
      if (worker.link.get() != &link && (!worker.in_place || link.mirrors_managed()))
        others.push_back(worker.link);
    }
    if (others.empty()) return;
    const std::uint64_t work = work_;
    // What these do may wait for a function of the program, whose thread comes here as well. Only
    // where other threads give them more and more work it must end some time.
    const bool last = round == kMostRounds;
    if (!last) lock->unlock();
    for (const auto& other : others)
      static_cast<void>(
          other->CallAndStore(DeviceSynchronize{}));  // A lost one writes nothing more.
    if (!last) lock->lock();
    if (work == work_) return;
  }
}

CUresult Mirrors::PrepareLocked(Connection& link, MutexLock* lock) {
  const bool managed = managed_in_use();
  if (managed) WaitForOthers(link, lock);
  if (const CUresult result = Collect(link, managed); result != CUDA_SUCCESS) return result;
  return link.mirrors_managed() ? Push(&link) : CUDA_SUCCESS;
}

CUresult Mirrors::Prepare(Connection& link) {
  if (!active()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  return PrepareLocked(link, &lock);
}

CUresult Mirrors::BeforeWork(Connection& link) {
  if (!active()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  const CUresult result = PrepareLocked(link, &lock);
  if (result != CUDA_SUCCESS || !CanWork(link)) return result;
  // From now on one with a copy hears of every change, so that it has all when its work is there;
  // and what one writes that has our memory is told by the twins.
  const bool in_place = !link.mirrors_managed();
  if (in_place && FindWorker(link) == nullptr)
    for (auto& [base, range] : ranges_) range.MakeTwins({0, range.blocks()});
  ++AddWorker(link, in_place).posting;
  return CUDA_SUCCESS;
}

CUresult Mirrors::SendNews(Connection& link) {
  if (!active() || !link.mirrors_managed()) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  return Push(&link);
}

void Mirrors::BeforeWait() {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (CountAtWork() != 0 && AnyPinnedDirty()) static_cast<void>(Push(nullptr));
}

CUresult Mirrors::Follow(Connection& link, const Connection& other) {
  // With managed memory work waited before it was posted.
  if (!active() || managed_in_use()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  if (Worker* const worker = FindWorker(other)) worker->heard = true;
  return PrepareLocked(link, &lock);
}

CUresult Mirrors::Push(Connection* link) {
  CUresult result = CUDA_SUCCESS;
  for (auto& [base, range] : ranges_) {
    // Of managed memory a device is told only before it works.
    if (link == nullptr && range.managed()) continue;
    if (const CUresult pushed = PushRange(range, link); result == CUDA_SUCCESS) result = pushed;
  }
  return result;
}

CUresult Mirrors::PushRange(MirroredRange& range, Connection* link) {
  PageStates& states = range.states();
  MirroredRange::Replica* replica = link == nullptr ? nullptr : range.FindReplica(link->number());
  const bool behind =
      replica != nullptr &&
      std::find(replica->current.begin(), replica->current.end(), false) != replica->current.end();
  if (!states.any_dirty() && !behind) return CUDA_SUCCESS;
  std::vector<std::uint64_t> told = ThoseWhoHearAll();
  if (replica != nullptr) {
    if (std::find(told.begin(), told.end(), replica->link) != told.end())
      replica = nullptr;  // Which Tell tells.
    else
      told.push_back(replica->link);
  }
  // From here on the program's writes count for the next time.
  const std::size_t count = range.blocks();
  for (std::size_t block = 0; states.any_dirty() && block < count;) {
    const PageStates::Run run = states.SameAccess(block, count);
    if (states.access(block) == PageStates::Access::kWrite)
      ::mprotect(PointerTo(range.place().base + run.first * kBlockBytes), run.count * kBlockBytes,
                 PROT_READ);
    block += run.count;
  }
  MirroredRange::Spans written;
  MirroredRange::Spans missing;
  for (std::size_t block = 0; block < count; ++block) {
    if (states.dirty(block) && range.TakeWritten(block, &written)) range.Changed({block, 1}, told);
    if (replica == nullptr || replica->current[block]) continue;
    replica->current[block] = true;
    const std::uint64_t offset = block * kBlockBytes;
    if (!missing.empty() && missing.back().base + missing.back().bytes == offset)
      missing.back().bytes += kBlockBytes;
    else
      missing.push_back({offset, kBlockBytes});
  }
  if (!written.empty()) relay_pause_ = kSoon;
  CUresult result = Tell(range, written, nullptr);
  if (replica == nullptr) return result;
  for (const MirroredRange::Spans& spans : {missing, written}) {
    if (result == CUDA_SUCCESS) result = SendSpans(*link, range.place().base, range.here(), spans);
  }
  return result;
}

CUresult Mirrors::Tell(MirroredRange& range, const MirroredRange::Spans& spans,
                       const Connection* except) {
  CUresult result = CUDA_SUCCESS;
  for (const Worker& worker : workers_) {
    Connection& link = *worker.link;
    if (worker.in_place || &link == except || range.FindReplica(link.number()) == nullptr) continue;
    const CUresult sent = SendSpans(link, range.place().base, range.here(), spans);
    // The loss of one device is no failure of whoever works on another.
    if (result == CUDA_SUCCESS && link.fault() == CUDA_SUCCESS) result = sent;
  }
  return result;
}

void Mirrors::AfterWork(Connection& link) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  ++work_;
  if (!CanWork(link)) return;
  const bool in_place = !link.mirrors_managed();
  Worker& worker = AddWorker(link, in_place);
  if (worker.posting != 0) --worker.posting;
  bool dirty = false;
  for (auto& [base, range] : ranges_) {
    if (in_place) break;
    dirty = dirty || (!range.managed() && range.states().any_dirty());
    if (!range.states().any_valid()) continue;
    range.states().DeviceRuns();
    Protect(range, 0, range.blocks());
  }
  seen_.clear();
  if (dirty || workers_.size() > 1) call_by_(Clock::now() + kSoon);
}

// --- From devices

void Mirrors::Synchronized(const Connection& link) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  Worker* const worker = FindWorker(link);
  if (worker == nullptr) return;
  worker->heard = true;
  if (worker->in_place) return;
  for (auto& [base, range] : ranges_)
    if (range.states().Synchronized()) Protect(range, 0, range.blocks());
}

CUresult Mirrors::Collect(const Connection& link, bool all) {
  bool fetch = false;
  bool in_place = false;
  const auto concerns = [&](const Worker& worker) {
    // Devices that have our memory see what the others of them wrote.
    return worker.link.get() != &link && (all || worker.heard) &&
           (!worker.in_place || link.mirrors_managed());
  };
  for (const Worker& worker : workers_)
    if (concerns(worker)) (worker.in_place ? in_place : fetch) = true;
  if (!fetch && !in_place) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (auto& [base, range] : ranges_) {
    PageStates& states = range.states();
    if (fetch) states.Synchronized();
    for (std::size_t block = 0; fetch && block < range.blocks(); ++block) {
      if (states.valid(block)) continue;
      PageStates::Run run{block, 1};
      while (run.count < PageStates::kMostAhead && block + run.count < range.blocks() &&
             !states.valid(block + run.count))
        ++run.count;
      if (const CUresult fetched = Fetch(range, run); result == CUDA_SUCCESS) result = fetched;
    }
    for (std::size_t block = 0; in_place && block < range.blocks(); ++block) states.Written(block);
    Protect(range, 0, range.blocks());
  }
  for (Worker& worker : workers_)
    if (concerns(worker)) worker.heard = false;
  workers_.remove_if([&](const Worker& worker) {
    return worker.link.get() != &link && (!worker.in_place || in_place) && !worker.heard &&
           worker.posting == 0 && !worker.link->AtWork();
  });
  return result;
}

CUresult Mirrors::FetchAlone(MirroredRange& range, PageStates::Run run) {
  const BlockAllocator::Range part =
      used_({range.place().base + run.first * kBlockBytes, run.count * kBlockBytes});
  Connection* link = nullptr;
  for (const Worker& worker : workers_)
    if (range.FindReplica(worker.link->number()) != nullptr) link = worker.link.get();
  if (link == nullptr || part.bytes == 0) return CUDA_SUCCESS;
  auto incoming = std::make_shared<Incoming>();
  incoming->destination = range.here() + (part.base - range.place().base);
  const CUresult result = Receive(*link, part, incoming);
  range.Stored(run);
  return result;
}

CUresult Mirrors::FetchFrom(Connection& link, MirroredRange& range,
                            const BlockAllocator::Range& part, bool* changed) {
  auto incoming = std::make_shared<Incoming>();
  incoming->owned.resize(part.bytes);
  incoming->destination = incoming->owned.data();
  const CUresult result = Receive(link, part, incoming);
  // Of a lost device there is nothing to be had: the program goes on with what is here, and is told
  // by its next call.
  if (link.fault() != CUDA_SUCCESS) return CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) return result;
  MirroredRange::Spans spans;
  const PageStates::Run run = range.Merge(part.base - range.place().base, incoming->owned,
                                          workers_.size() > 1 ? &spans : nullptr);
  if (run.count == 0) return CUDA_SUCCESS;
  *changed = true;
  range.Changed(run, ThoseWhoHearAll());
  return Tell(range, spans, &link);
}

CUresult Mirrors::FetchBytes(MirroredRange& range, PageStates::Run run, bool* changed) {
  const BlockAllocator::Range part =
      used_({range.place().base + run.first * kBlockBytes, run.count * kBlockBytes});
  CUresult result = CUDA_SUCCESS;
  if (part.bytes == 0) return result;
  for (const Worker& worker : workers_) {
    if (worker.in_place || range.FindReplica(worker.link->number()) == nullptr) continue;
    const CUresult fetched = FetchFrom(*worker.link, range, part, changed);
    if (result == CUDA_SUCCESS) result = fetched;
  }
  return result;
}

CUresult Mirrors::Fetch(MirroredRange& range, PageStates::Run run) {
  const bool at_work = CountAtWork() != 0;
  const Time start = Clock::now();
  bool written = false;
  for (std::size_t i = 0; i < run.count; ++i)
    written = written || range.states().dirty(run.first + i);
  bool changed = false;
  const CUresult result =
      Alone(range) && !written ? FetchAlone(range, run) : FetchBytes(range, run, &changed);
  for (std::size_t i = 0; i < run.count; ++i) range.states().Fetched(run.first + i, at_work);
  if (!at_work || range.managed()) return result;
  const Time end = Clock::now();
  Time until = std::max(start + kSoon, end + kLeastSeen);
  if (run.count > 1) until = std::max(until, end + kMostFetching * (end - start));
  seen_.push_back({range.place().base + run.first * kBlockBytes, run.count, until});
  call_by_(until);
  return result;
}

void Mirrors::Touch(MirroredRange& range, std::size_t block, bool write) {
  PageStates& states = range.states();
  PageStates::Run run{block, 0};
  if (!states.valid(block)) {
    run = states.Ahead(block);
    static_cast<void>(Fetch(range, run));
  }
  if (write && !states.dirty(block)) {
    const bool alone = Alone(range);
    const PageStates::Run written = alone ? states.AheadWritten(block) : PageStates::Run{block, 1};
    range.Written(written, alone && range.near());
    run.count = std::max(run.count, written.count);
  }
  if (run.count != 0) Protect(range, run.first, run.count);
}

bool Mirrors::Admit(std::uint64_t address, std::uint64_t bytes, bool write) {
  const MutexLock lock(mutex_);
  MirroredRange* const range = Find(address);
  if (range == nullptr) return false;
  const std::uint64_t offset = address - range->place().base;
  const std::size_t last =
      (std::min(offset + std::max<std::uint64_t>(bytes, 1), range->place().bytes) - 1) /
      kBlockBytes;
  for (std::size_t block = offset / kBlockBytes; block <= last; ++block)
    Touch(*range, block, write);
  return true;
}

// --- While devices work

bool Mirrors::AnyPinnedDirty() const {
  return std::any_of(ranges_.begin(), ranges_.end(), [](const auto& entry) {
    return !entry.second.managed() && entry.second.states().any_dirty();
  });
}

void Mirrors::Expire(const Seen& seen) {
  MirroredRange* const range = Find(seen.address);
  if (range == nullptr) return;
  const PageStates::Run run{(seen.address - range->place().base) / kBlockBytes, seen.blocks};
  range->states().Invalidate(run);
  Protect(*range, run.first, run.count);
}

void Mirrors::Relay() {
  const bool in_place = std::any_of(workers_.begin(), workers_.end(),
                                    [](const Worker& worker) { return worker.in_place; });
  bool changed = false;
  std::size_t relayed = 0;
  auto entry = ranges_.begin();
  while (entry != ranges_.end() && relayed < kMostRelayed) {
    MirroredRange& range = entry->second;
    const auto [base, bytes] = range.place();
    const std::uint64_t start = std::max(relay_at_, base);
    if (range.managed() || start >= base + bytes) {
      ++entry;
      continue;
    }
    PageStates::Run run{(start - base) / kBlockBytes, 0};
    run.count = std::min(kMostRelayed - relayed, range.blocks() - run.first);
    relay_at_ = start + run.count * kBlockBytes;
    if (used_({start, run.count * kBlockBytes}).bytes == 0) continue;
    static_cast<void>(FetchBytes(range, run, &changed));
    for (std::size_t i = 0; in_place && i < run.count; ++i) range.states().Written(run.first + i);
    relayed += run.count;
  }
  if (entry == ranges_.end()) relay_at_ = 0;
  relay_pause_ = changed ? kSoon : std::min(2 * relay_pause_, kMostPause);
  if (in_place) static_cast<void>(Push(nullptr));  // Which sets the pause back if there was any.
}

std::optional<Mirrors::Time> Mirrors::Refresh(Time now, bool at_work) {
  if (!active()) return std::nullopt;
  const MutexLock lock(mutex_);
  if (at_work && AnyPinnedDirty()) static_cast<void>(Push(nullptr));
  // When no device works any more, what was seen last may be older than the end of the work.
  const auto due = std::partition(seen_.begin(), seen_.end(),
                                  [&](const Seen& seen) { return at_work && seen.until > now; });
  for (auto seen = due; seen != seen_.end(); ++seen) Expire(*seen);
  seen_.erase(due, seen_.end());
  if (!at_work) return std::nullopt;
  std::optional<Time> next;
  for (const Seen& seen : seen_) next = std::min(next.value_or(seen.until), seen.until);
  // One that is done may have told another just before.
  if (workers_.size() == 1) return next;
  if (relay_due_ <= now) {
    Relay();
    const Time end = Clock::now();
    relay_due_ = end + std::max<Clock::duration>(relay_pause_, kMostFetching * (end - now));
  }
  return std::min(next.value_or(relay_due_), relay_due_);
}

}  // namespace cuspan
