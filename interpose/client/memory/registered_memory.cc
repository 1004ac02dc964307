#include "interpose/client/memory/registered_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/arrival_order.h"
#include "interpose/client/memory/shared_region.h"

namespace cuspan {
namespace {

// Enough for flags and mailboxes; more would cost more than its benefit.
constexpr std::size_t kMaxRefreshedBytes = std::size_t{1} << 20;

// Warns once if several places changed between two exchanges while kernels run. The order of their
// stores is unknown; the first and the last word of a piece are assumed to be flags.
void NameUnordered(const std::byte* base, const ByteRuns& runs) {
  static std::atomic<bool> named{false};
  const std::size_t pieces = CountPieces(runs);
  if (pieces <= 1 || named.exchange(true)) return;
  LogWarn(
      "{} parts of the registered memory at 0x{:x} changed at once while kernels run: the other "
      "side may see the stores in another order. Memory of cudaHostAlloc keeps the order "
      "(docs/memory.md, \"Pinned "
      "memory while kernels run\")",
      pieces, AddressOf(base));
}

}  // namespace

CUresult RegisteredMemory::Expose(const std::byte* base, std::size_t bytes, const void* memory,
                                  std::uint64_t* address) {
  if (!region_->refresher().Start()) return CUDA_ERROR_OPERATING_SYSTEM;
  for (;;) {
    if (const auto known = DeviceAddress(memory)) {
      *address = *known;
      return CUDA_SUCCESS;
    }
    // The calls below wait for devices, and their work may wait for a thread needing this mutex.
    std::uint64_t place = 0;
    if (const CUresult result = region_->Allocate(SharedRegion::Kind::kHost, bytes, &place);
        result != CUDA_SUCCESS)
      return result;
    if (const CUresult result = region_->Expose(place); result != CUDA_SUCCESS) {
      static_cast<void>(region_->Free(place));
      return result;
    }
    Range range{const_cast<std::byte*>(base),
                reinterpret_cast<std::byte*>(place),
                std::vector<std::byte>(base, base + bytes),
                {}};
    std::memcpy(range.devices, range.last.data(), bytes);
    bool is_new = false;
    {
      const WriterLock lock(mutex_);
      is_new = ranges_.emplace(base, std::move(range)).second;
      any_.store(true, std::memory_order_release);
    }
    if (!is_new) static_cast<void>(region_->Free(place));  // Another thread was faster.
  }
}

std::optional<std::uint64_t> RegisteredMemory::DeviceAddress(const void* memory,
                                                             std::uint64_t bytes) const {
  if (!any()) [[likely]]
    return std::nullopt;
  const auto* const at = static_cast<const std::byte*>(memory);
  const ReaderLock lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(at - range.base);
  if (offset >= range.last.size() || bytes > range.last.size() - offset) return std::nullopt;
  return reinterpret_cast<std::uint64_t>(range.devices) + offset;
}

void RegisteredMemory::Forget(const std::byte* base) {
  std::uint64_t place = 0;
  {
    const MutexLock exchanging(exchanging_);
    const WriterLock lock(mutex_);
    const auto known = ranges_.find(base);
    if (known == ranges_.end()) return;
    Exchange(known->second, known->second.all(), Direction::kToProgram, false);
    place = reinterpret_cast<std::uint64_t>(known->second.devices);
    ranges_.erase(known);
    any_.store(!ranges_.empty(), std::memory_order_release);
  }
  static_cast<void>(region_->Free(place));
}

template <typename Use>
bool RegisteredMemory::WithPart(std::uint64_t address, std::uint64_t bytes, Use&& use) {
  if (!any()) [[likely]]
    return false;
  const MutexLock exchanging(exchanging_);
  const ReaderLock lock(mutex_);
  for (auto& [base, range] : ranges_) {
    const std::uint64_t begin = address - AddressOf(range.devices);
    if (begin >= range.last.size()) continue;
    use(range, Part{begin, begin + std::min<std::uint64_t>(bytes, range.last.size() - begin)});
    return true;
  }
  return false;
}

bool RegisteredMemory::BeforeCopy(std::uint64_t address, std::uint64_t bytes) {
  return WithPart(address, bytes, [this](Range& range, Part part) {
    exchanging_.AssertHeld();
    Exchange(range, part, Direction::kToDevices, false);
  });
}

void RegisteredMemory::AfterCopy(std::uint64_t address, std::uint64_t bytes, bool writes) {
  worked_.store(true);  // Before the note: Refresh keeps it.
  const auto note = [&](Range& range, Part part) {
    if (!writes) return;
    if (range.copied.end != 0)
      part = {std::min(range.copied.begin, part.begin), std::max(range.copied.end, part.end)};
    range.copied = part;
  };
  if (WithPart(address, bytes, note)) AfterWork();
}

void RegisteredMemory::AfterWork() {
  if (!any()) [[likely]]
    return;
  worked_.store(true);
  region_->refresher().CallBy(Refresher::Clock::now() + Mirrors::kSoon);
}

void RegisteredMemory::BeforeWait(bool asks) {
  if (any() && region_->AnyAtWork()) [[unlikely]]
    Exchange(Direction::kToDevices, asks ? kMaxRefreshedBytes : kAll, true);
}

std::optional<Refresher::Time> RegisteredMemory::Refresh(bool worked, bool at_work) {
  const bool was_at_work = std::exchange(was_at_work_, at_work);
  if (!any() || !(worked || was_at_work)) return std::nullopt;
  const auto start = Refresher::Clock::now();
  Exchange(Direction::kToDevices, kMaxRefreshedBytes, at_work);
  Exchange(Direction::kToProgram, kMaxRefreshedBytes, at_work);
  {
    const MutexLock exchanging(exchanging_);
    const ReaderLock lock(mutex_);
    for (auto& [base, range] : ranges_) {
      if (range.last.size() > kMaxRefreshedBytes)
        Exchange(range, range.copied, Direction::kToProgram, at_work);
      // More may have been copied since the devices were asked.
      if (!at_work && !worked_.load()) range.copied = {};
    }
  }
  if (!at_work) return std::nullopt;
  const auto end = Refresher::Clock::now();
  return end + std::max<Refresher::Clock::duration>(Mirrors::kSoon, 4 * (end - start));
}

void RegisteredMemory::Exchange(Direction direction, std::size_t most_bytes, bool at_work) {
  const MutexLock exchanging(exchanging_);
  const ReaderLock lock(mutex_);
  for (auto& [base, range] : ranges_)
    if (range.last.size() <= most_bytes) Exchange(range, range.all(), direction, at_work);
}

void RegisteredMemory::Exchange(Range& range, Part part, Direction direction, bool at_work) {
  const bool to_devices = direction == Direction::kToDevices;
  const std::byte* const from = to_devices ? range.base : range.devices;
  std::byte* const to = to_devices ? range.devices : range.base;
  ByteRuns runs;
  // Usually nothing has changed; comparing pieces detects this faster.
  constexpr std::size_t kPiece = 4096;
  for (std::size_t begin = part.begin; begin < part.end; begin += kPiece) {
    const std::size_t end = std::min(begin + kPiece, part.end);
    if (std::memcmp(from + begin, range.last.data() + begin, end - begin) == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t start = i;
      while (i < end && from[i] != range.last[i]) ++i;
      if (i != start) runs.push_back({start, i - start});
    }
  }
  if (at_work) NameUnordered(range.base, runs);
  for (const ByteRuns& part : InOrderOfArrival(runs)) {
    for (const auto& [start, bytes] : part) {
      std::memcpy(range.last.data() + start, from + start, bytes);
      // Written like a system call, without a fault for each store.
      const std::uint64_t at = AddressOf(to + start);
      const std::uint64_t there = to_devices ? region_->mirrors().BeginCall(at, bytes, true) : 0;
      std::memcpy(there != 0 ? PointerTo(there) : to + start, range.last.data() + start, bytes);
      if (there != 0 && there != at) region_->mirrors().EndCall(at, bytes);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

}  // namespace cuspan
