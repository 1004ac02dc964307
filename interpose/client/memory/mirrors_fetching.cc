// Fetches of Mirrors from devices: on access by the program, as required by its order, and while
// devices work.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/mirrors.h"
#include "interpose/client/memory/spans.h"

namespace cuspan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// Data read ahead stays for a multiple of its fetch time: otherwise the program would fetch it
// again before using it. All data stays long enough to be read once.
constexpr int kMaxFetching = 4;
constexpr microseconds kMinSeen{50};
// Minimum length of a run to fetch the next one before the program accesses it.
constexpr std::size_t kMinFollowed = 4;
// Maximum number and size of copies with results fetched along between two synchronisations.
// Programs with more copies read their results in pieces.
constexpr std::size_t kMaxExpected = 4;
constexpr std::uint64_t kMaxExpectedBytes = 4096;
// Maximum bytes requested and not yet arrived: enough to keep a network connection busy.
constexpr std::uint64_t kMaxBytesUnderWay = std::uint64_t{8} << 20;
constexpr auto kFromAll = [](const auto&) { return true; };
// Maximum bytes relayed at once, and longest pause after finding nothing.
constexpr std::uint64_t kMaxRelayedBytes = 512 * 1024;
constexpr microseconds kMaxPause{100'000};

// Warns once: stores of a kernel are not noticed one by one.
void NameUnordered() {
  static std::atomic<bool> named{false};
  if (named.exchange(true)) return;
  LogWarn(
      "kernels of several devices write pinned memory at the same time: devices on other nodes may "
      "see the stores of other devices in another order (docs/memory.md, \"Pinned memory while "
      "kernels run\")");
}

}  // namespace

void Mirrors::Synchronized(const Connection& connection) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  Enter();
  WorkingDevice* const worker = FindWorkingDevice(connection);
  if (worker == nullptr) return;
  worker->has_unfetched = true;
  if (worker->in_place) return;
  kept_.Synchronized(connection);
  for (auto& [base, range] : ranges_)
    if (range.states().Synchronized()) Protect(range, 0, range.blocks());
  ConsumeExpected(connection);
}

void Mirrors::Copied(Connection& connection, std::uint64_t address, std::uint64_t bytes,
                     std::uint64_t stream) {
  if (!active() || !connection.mirrors_managed() || bytes > kMaxExpectedBytes) return;
  const MutexLock lock(mutex_);
  MirroredRange* const range = Find(address);
  if (range == nullptr || range->managed() || expected_.size() == kMaxExpected) return;
  const BlockAllocator::Range place = range->RangeOf(range->BlocksOf(address, bytes));
  Expected expected{connection.shared_from_this(), place, used_(place),
                    std::make_shared<Incoming>()};
  if (expected.part.bytes == 0) return;
  expected.incoming->owned.resize(expected.part.bytes);
  expected.incoming->destination = expected.incoming->owned.data();
  if (BeginReceive(connection, stream, expected.part, expected.incoming) == CUDA_SUCCESS)
    expected_.push_back(std::move(expected));
}

void Mirrors::ConsumeExpected(const Connection& connection) {
  // Fetches completing later may be older than the completed work reported now.
  const std::vector<Expected> all = std::exchange(expected_, {});
  if (std::any_of(working_devices_.begin(), working_devices_.end(),
                  [](const WorkingDevice& worker) { return worker.posting != 0; }))
    return;
  for (const Expected& expected : all) {
    MirroredRange* const range = Find(expected.place.base);
    if (expected.connection.get() != &connection || range == nullptr ||
        expected.connection->AtWork() ||
        !expected.incoming->complete.load(std::memory_order_acquire) ||
        expected.incoming->result != CUDA_SUCCESS || working_devices_.size() > 1)
      continue;
    bool changed = false;
    if (Merge(*expected.connection, *range, expected.part, *expected.incoming, &changed) !=
        CUDA_SUCCESS)
      continue;
    const PageStates::Run run = range->BlocksOf(expected.place.base, expected.place.bytes);
    for (std::size_t i = 0; i < run.count; ++i) range->states().Fetched(run.first + i, true);
    Protect(*range, run.first, run.count);
    NoteSeen(*range, run, Clock::now() + kSoon);
  }
}

void Mirrors::NoteSeen(const MirroredRange& range, PageStates::Run run, Time until) {
  seen_.push_back({range.RangeOf(run), until});
  may_be_old_.store(true, std::memory_order_release);
  call_by_(until);
}

CUresult Mirrors::Collect(const Connection& connection, bool all) {
  bool fetch = false;
  bool in_place = false;
  const auto concerns = [&](const WorkingDevice& worker) {
    // Devices using our memory see each other's writes.
    return worker.connection.get() != &connection && (all || worker.has_unfetched) &&
           (!worker.in_place || connection.mirrors_managed());
  };
  // Devices already done: all their writes are known afterwards.
  std::vector<const Connection*> done;
  for (const WorkingDevice& worker : working_devices_) {
    if (!concerns(worker)) continue;
    (worker.in_place ? in_place : fetch) = true;
    if (worker.posting == 0 && !worker.connection->AtWork())
      done.push_back(worker.connection.get());
  }
  if (!fetch && !in_place) return CUDA_SUCCESS;
  kept_.EndAll();
  const bool at_work = CountAtWork() != 0;
  CUresult result = CUDA_SUCCESS;
  std::vector<BlocksToFetch> wanted;
  for (auto& [base, range] : ranges_) {
    PageStates& states = range.states();
    if (fetch) states.Synchronized();
    for (std::size_t block = 0; fetch && block < range.blocks(); ++block) {
      if (states.valid(block)) continue;
      PageStates::Run run{block, 1};
      while (run.count < PageStates::kMaxAhead && block + run.count < range.blocks() &&
             !states.valid(block + run.count))
        ++run.count;
      block += run.count - 1;
      if (!Alone(range))
        wanted.push_back({&range, run});
      else if (const CUresult fetched = Fetch(range, run); result == CUDA_SUCCESS)
        result = fetched;
    }
  }
  bool changed = false;
  const CUresult got = FetchUpdates(wanted, concerns, &changed);
  if (result == CUDA_SUCCESS) result = got;
  for (const BlocksToFetch& fetched : wanted) {
    // Others may have updates the program was not notified of. Later changes are fetched on access.
    const bool all_known = std::all_of(
        working_devices_.begin(), working_devices_.end(), [&](const WorkingDevice& worker) {
          return worker.in_place || concerns(worker) ||
                 fetched.range->FindReplica(worker.connection->number()) == nullptr;
        });
    const auto& [range, run] = fetched;
    for (std::size_t i = 0; all_known && !at_work && i < run.count; ++i)
      range->states().Fetched(run.first + i, false);
  }
  for (auto& [base, range] : ranges_) {
    for (std::size_t block = 0; in_place && block < range.blocks(); ++block)
      range.states().Written(block);
    Protect(range, 0, range.blocks());
  }
  for (WorkingDevice& worker : working_devices_)
    if (concerns(worker)) worker.has_unfetched = false;
  working_devices_.remove_if([&](const WorkingDevice& worker) {
    return worker.posting == 0 &&
           std::find(done.begin(), done.end(), worker.connection.get()) != done.end();
  });
  return result;
}

CUresult Mirrors::BeginFetch(MirroredRange& range, PageStates::Run run) {
  kept_.End(range.RangeOf(run));
  const BlockAllocator::Range part = used_(range.RangeOf(run));
  std::shared_ptr<Connection> connection;
  for (const WorkingDevice& worker : working_devices_)
    if (range.FindReplica(worker.connection->number()) != nullptr) connection = worker.connection;
  auto incoming = std::make_shared<Incoming>();
  CUresult result = CUDA_SUCCESS;
  if (connection == nullptr || part.bytes == 0) {
    incoming->complete = true;
  } else {
    incoming->destination = range.here() + (part.base - range.place().base);
    std::uint64_t stream = 0;
    result = connection->MemoryStream(&stream);
    if (result == CUDA_SUCCESS) result = BeginReceive(*connection, stream, part, incoming);
    if (result != CUDA_SUCCESS) incoming->complete = true;
  }
  fetching_ = {&range, run, std::move(connection), std::move(incoming)};
  return result;
}

CUresult Mirrors::Settle() {
  if (!fetching_) return CUDA_SUCCESS;
  const Fetching fetched = *std::exchange(fetching_, std::nullopt);
  CUresult result = CUDA_SUCCESS;
  if (fetched.connection != nullptr)
    result = fetched.connection->transfers().WaitComplete(*fetched.incoming);
  MirroredRange& range = *fetched.range;
  range.Stored(fetched.run);
  for (std::size_t i = 0; i < fetched.run.count; ++i)
    range.states().Fetched(fetched.run.first + i, false);
  Protect(range, fetched.run.first, fetched.run.count);
  return result;
}

void Mirrors::FetchAhead(MirroredRange& range, PageStates::Run run) {
  const std::size_t next = run.first + run.count;
  PageStates& states = range.states();
  if (run.count < kMinFollowed || next >= range.blocks() || states.valid(next) ||
      states.dirty(next) || !Alone(range))
    return;
  PageStates::Run ahead = states.Ahead(next);
  for (std::size_t i = 0; i < ahead.count; ++i)
    if (states.dirty(next + i)) return;
  static_cast<void>(BeginFetch(range, ahead));
}

CUresult Mirrors::FetchState(Connection& connection, const BlockAllocator::Range& part,
                             const MirroredRange& range, std::shared_ptr<Incoming>* incoming) {
  constexpr int kMaxFetches = 64;
  for (int i = 0; i < kMaxFetches && connection.AtWork() && !range.managed() &&
                  range.HasUpdates(part.base - range.place().base, (*incoming)->owned);
       ++i) {
    auto again = std::make_shared<Incoming>();
    again->owned.resize(part.bytes);
    again->destination = again->owned.data();
    std::uint64_t stream = 0;
    CUresult result = connection.MemoryStream(&stream);
    if (result == CUDA_SUCCESS) result = BeginReceive(connection, stream, part, again);
    if (result == CUDA_SUCCESS) result = connection.transfers().WaitComplete(*again);
    if (result != CUDA_SUCCESS) return result;
    const bool same = again->owned == (*incoming)->owned;
    *incoming = std::move(again);
    if (same) return CUDA_SUCCESS;
  }
  return CUDA_SUCCESS;
}

CUresult Mirrors::FetchFrom(Connection& connection, MirroredRange& range,
                            const BlockAllocator::Range& part, bool* changed) {
  auto incoming = std::make_shared<Incoming>();
  incoming->owned.resize(part.bytes);
  incoming->destination = incoming->owned.data();
  std::uint64_t stream = 0;
  CUresult result = connection.MemoryStream(&stream);
  if (result == CUDA_SUCCESS) result = BeginReceive(connection, stream, part, incoming);
  if (result == CUDA_SUCCESS) result = connection.transfers().WaitComplete(*incoming);
  // A lost device has no data. The program continues with the data here, and its next call reports
  // the loss.
  if (connection.fault() != CUDA_SUCCESS) return CUDA_SUCCESS;
  return result == CUDA_SUCCESS ? Merge(connection, range, part, *incoming, changed) : result;
}

CUresult Mirrors::Merge(Connection& connection, MirroredRange& range,
                        const BlockAllocator::Range& part, const Incoming& incoming,
                        bool* changed) {
  MirroredRange::Spans spans;
  const auto merge = [&]() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
    return range.Merge(part.base - range.place().base, incoming.owned,
                       working_devices_.size() > 1 ? &spans : nullptr, stores_.on() || calls_ != 0);
  };
  const PageStates::Run run = stores_.on() ? stores_.ChangeMemory(merge) : merge();
  if (run.count == 0) return CUDA_SUCCESS;
  if (CountPieces(spans) > 1 && connection.AtWork() && CountAtWork() > 1) NameUnordered();
  *changed = true;
  expected_.clear();  // Fetches in flight may be older.
  CUresult result = CUDA_SUCCESS;
  range.Changed(run, NumbersOfListeners());
  for (Connection* const other : Listeners(range, &connection, nullptr)) {
    CUresult told = CUDA_SUCCESS;
    for (const MirroredRange::Spans& part : InOrderOfArrival(spans)) {
      if (told == CUDA_SUCCESS) told = PostSpans(*other, range.place().base, range.agreed(), part);
    }
    if (told == CUDA_SUCCESS) told = SettleSpans(*other);
    if (result == CUDA_SUCCESS && other->fault() == CUDA_SUCCESS) result = told;
  }
  return result;
}

CUresult Mirrors::FetchUpdates(const std::vector<BlocksToFetch>& wanted, const From& from,
                               bool* changed) {
  struct Piece {
    std::size_t number;  // Index in `wanted`.
    BlockAllocator::Range part;
    Connection* connection;
    std::shared_ptr<Incoming> incoming;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    MirroredRange& range = *wanted[i].range;
    const BlockAllocator::Range part = used_(range.RangeOf(wanted[i].run));
    for (const WorkingDevice& worker : working_devices_)
      if (part.bytes != 0 && !worker.in_place && from(worker) &&
          range.FindReplica(worker.connection->number()) != nullptr)
        pieces.push_back({i, part, worker.connection.get(), std::make_shared<Incoming>()});
  }
  // The fetches follow in the same stream.
  CUresult result = PostStores();
  const auto note = [&](const Piece& piece, CUresult got) {
    // A lost device has no data. The program continues with the data here, and its next call
    // reports the loss.
    if (result == CUDA_SUCCESS && piece.connection->fault() == CUDA_SUCCESS) result = got;
    return got == CUDA_SUCCESS;
  };
  std::size_t begun = 0;
  std::uint64_t under_way = 0;
  std::optional<std::size_t> last_changed;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (; begun < pieces.size() && (begun == i || under_way < kMaxBytesUnderWay); ++begun) {
      Piece& piece = pieces[begun];
      under_way += piece.part.bytes;
      piece.incoming->owned.resize(piece.part.bytes);
      piece.incoming->destination = piece.incoming->owned.data();
      std::uint64_t stream = 0;
      CUresult posted = piece.connection->MemoryStream(&stream);
      if (posted == CUDA_SUCCESS)
        posted = BeginReceive(*piece.connection, stream, piece.part, piece.incoming);
      if (!note(piece, posted)) piece.incoming = nullptr;
    }
    Piece& piece = pieces[i];
    under_way -= piece.part.bytes;
    if (piece.incoming == nullptr) continue;
    std::shared_ptr<Incoming> incoming = std::move(piece.incoming);
    if (!note(piece, piece.connection->transfers().WaitComplete(*incoming))) continue;
    MirroredRange& range = *wanted[piece.number].range;
    if (!note(piece, FetchState(*piece.connection, piece.part, range, &incoming))) continue;
    bool has_news = false;
    // Updates of the previous device in these blocks went to this one, perhaps after this fetch.
    // The older bytes must not look like its own updates.
    note(piece, last_changed == piece.number
                    ? FetchFrom(*piece.connection, range, piece.part, &has_news)
                    : Merge(*piece.connection, range, piece.part, *incoming, &has_news));
    if (!has_news) continue;
    last_changed = piece.number;
    *changed = true;
  }
  return result;
}

CUresult Mirrors::Fetch(MirroredRange& range, PageStates::Run run) {
  kept_.End(range.RangeOf(run));
  const bool at_work = CountAtWork() != 0;
  const Time start = Clock::now();
  bool written = false;
  for (std::size_t i = 0; i < run.count; ++i)
    written = written || range.states().dirty(run.first + i);
  if (Alone(range) && !written) {
    const CUresult begun = BeginFetch(range, run);
    const CUresult settled = Settle();
    return begun != CUDA_SUCCESS ? begun : settled;
  }
  bool changed = false;
  const CUresult result = FetchUpdates({{&range, run}}, kFromAll, &changed);
  if (changed && at_work && !range.managed()) InvalidatePinned();
  for (std::size_t i = 0; i < run.count; ++i) range.states().Fetched(run.first + i, at_work);
  if (!at_work || range.managed()) return result;
  const Time end = Clock::now();
  Time until = std::max(start + kSoon, end + kMinSeen);
  if (run.count > 1) until = std::max(until, end + kMaxFetching * (end - start));
  NoteSeen(range, run, until);
  return result;
}

void Mirrors::Touch(MirroredRange& range, std::size_t block, bool write) {
  kept_.End(range.RangeOf({block, 1}));
  PageStates& states = range.states();
  PageStates::Run run{block, 0};
  if (fetching_) {
    const Fetching& fetching = *fetching_;
    if (fetching.range == &range && block - fetching.run.first < fetching.run.count)
      run = fetching.run;
    static_cast<void>(Settle());
  }
  if (!states.valid(block)) {
    run = states.Ahead(block);
    static_cast<void>(Fetch(range, run));
  }
  if (write && !states.dirty(block)) {
    const bool alone = Alone(range);
    const PageStates::Run written = alone ? states.AheadWritten(block) : PageStates::Run{block, 1};
    range.Written(written, alone && range.near());
    Protect(range, written.first, written.count);
  }
  if (run.count == 0) return;
  Protect(range, run.first, run.count);
  FetchAhead(range, run);
}

bool Mirrors::Admit(std::uint64_t address, std::uint64_t bytes, Access access) {
  const MutexLock lock(mutex_);
  if (access == Access::kFence) {
    Enter();
    static_cast<void>(PostStores());
    InvalidatePinned();
    return true;
  }
  MirroredRange* const range = Find(address);
  if (range == nullptr) return false;
  if (kept_.Contain({address, bytes})) return true;
  if (range->managed()) kept_.Touched(address);
  const PageStates::Run run = range->BlocksOf(address, bytes);
  if (access != Access::kRead) {
    Enter();
    if (stores_.on() && !range->managed()) {
      AdmitStore(*range, run, access);
      return true;
    }
  }
  for (std::size_t block = run.first; block < run.first + run.count; ++block)
    Touch(*range, block, access != Access::kRead);
  return true;
}

// --- While devices work

bool Mirrors::AnyPinnedDirty() const {
  return std::any_of(ranges_.begin(), ranges_.end(), [](const auto& entry) {
    return !entry.second.managed() && entry.second.states().any_dirty();
  });
}

void Mirrors::InvalidatePinned() {
  for (auto& [base, range] : ranges_) {
    if (range.managed() || !range.states().any_valid()) continue;
    range.states().DeviceRuns();
    Protect(range, 0, range.blocks());
  }
  seen_.clear();
  may_be_old_.store(false, std::memory_order_release);
}

void Mirrors::ExpireAll() {
  for (const Seen& seen : seen_) {
    MirroredRange* const range = Find(seen.place.base);
    if (range == nullptr) continue;
    const PageStates::Run run = range->BlocksOf(seen.place.base, seen.place.bytes);
    range->states().Invalidate(run);
    Protect(*range, run.first, run.count);
  }
  seen_.clear();
  may_be_old_.store(false, std::memory_order_release);
}

void Mirrors::Relay() {
  ExpireAll();  // The program must not see only a part of the updates.
  const bool in_place = std::any_of(working_devices_.begin(), working_devices_.end(),
                                    [](const WorkingDevice& worker) { return worker.in_place; });
  bool changed = false;
  std::vector<BlocksToFetch> wanted;
  std::uint64_t relayed = 0;
  auto entry = ranges_.begin();
  while (entry != ranges_.end() && relayed < kMaxRelayedBytes) {
    MirroredRange& range = entry->second;
    const auto [base, bytes] = range.place();
    const std::uint64_t start = std::max(relay_.at, base);
    if (range.managed() || start >= base + bytes) {
      ++entry;
      continue;
    }
    const PageStates::Run run =
        range.BlocksOf(start, std::min(kMaxRelayedBytes - relayed, base + bytes - start));
    const BlockAllocator::Range place = range.RangeOf(run);
    relay_.at = place.base + place.bytes;
    if (used_(place).bytes == 0) continue;
    wanted.push_back({&range, run});
    relayed += place.bytes;
  }
  static_cast<void>(FetchUpdates(wanted, kFromAll, &changed));
  for (const auto& [range, run] : wanted)
    for (std::size_t i = 0; in_place && i < run.count; ++i) range->states().Written(run.first + i);
  if (entry == ranges_.end()) relay_.at = 0;
  relay_.pause = changed ? kSoon : std::min(2 * relay_.pause, kMaxPause);
  if (in_place) static_cast<void>(Push(nullptr));  // Resets the pause if any were written.
}

std::optional<Mirrors::Time> Mirrors::Refresh(Time now, bool at_work) {
  if (!active()) return std::nullopt;
  const MutexLock lock(mutex_);
  Enter();
  if (at_work && (stores_.any() || open_ || AnyPinnedDirty())) static_cast<void>(Push(nullptr));
  // Expires all at once, so no data here is older than a flag seen to change. If no device works
  // any more, the latest data may be older than the end of the work.
  if (!at_work ||
      std::any_of(seen_.begin(), seen_.end(), [&](const Seen& seen) { return seen.until <= now; }))
    ExpireAll();
  if (!at_work) return std::nullopt;
  std::optional<Time> next;
  for (const Seen& seen : seen_) next = std::min(next.value_or(seen.until), seen.until);
  // A finished one may have notified another just before.
  if (working_devices_.size() == 1) return next;
  if (relay_.due <= now) {
    Relay();
    const Time end = Clock::now();
    relay_.due = end + std::max<Clock::duration>(relay_.pause, kMaxFetching * (end - now));
  }
  return std::min(next.value_or(relay_.due), relay_.due);
}

}  // namespace cuspan
