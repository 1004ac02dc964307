#include "store/engine/extents.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/log.h"
#include "store/layout/cost.h"
#include "store/layout/geometry.h"

namespace cuspan::store {
namespace {

// Page-locking 64 extents together takes a quarter of the time of one after the other (measured on
// a node with an H200).
constexpr std::uint64_t kMaxRun = 64;

// Part of the cost paid by an extent before it becomes resident with a neighbour.
constexpr std::uint32_t kNeighbourPart = 4;

// Number of reads of lines from the page cache in the time of page-locking their extent.
constexpr std::uint64_t kCachedReads = 64;

// A drive as measured: 106,000 reads of 4 KiB a second, 1.56 GB/s of long ones.
constexpr double kReadsOfDrive = 106e3;
constexpr double kBandwidthOfDrive = 1.56e9;

double ReadsPerSecond(std::uint64_t line) {
  constexpr std::uint64_t kMeasured = 4096;
  const auto longer = static_cast<double>(std::max(line, kMeasured) - kMeasured);
  return 1 / (1 / kReadsOfDrive + longer / kBandwidthOfDrive);
}

std::uint32_t CostOf(std::uint64_t reads, std::uint32_t whole) {
  return std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>(whole / std::max<std::uint64_t>(1, reads)));
}

}  // namespace

Extents::Extents(const FileBytes& file, std::uint64_t bytes, std::uint64_t line,
                 const ExtentTerms& terms, std::function<bool()> may_lock)
    : file_(file),
      bytes_(bytes),
      terms_(terms),
      may_lock_(std::move(may_lock)),
      cached_cost_(CostOf(std::min(kCachedReads, kExtentBytes / line), kWhole)),
      cold_cost_(CostOf(SingleReadsLikeAnExtent(ReadsPerSecond(line), kBandwidthOfDrive), kWhole)),
      states_(new(std::nothrow) std::atomic<std::uint32_t>[ExtentsOf(bytes)]()),
      ended_(terms.way == ResidentWay::kOff || states_ == nullptr) {}

bool Extents::Pay(std::uint64_t extent, bool cached) {
  if (ended_.load(std::memory_order_relaxed)) return false;
  std::atomic<std::uint32_t>& state = states_[extent];
  if (state.load(std::memory_order_relaxed) >= kWhole) return false;
  const std::uint32_t cost = cached ? cached_cost_ : cold_cost_;
  const std::uint32_t before = state.fetch_add(cost, std::memory_order_relaxed);
  if (before >= kWhole || before + cost < kWhole) return false;
  const MutexLock lock(mutex_);
  wanted_.insert(extent);
  return true;
}

bool Extents::TakeNeighbour(std::uint64_t extent) {
  if (wanted_.erase(extent) != 0) return true;
  std::uint32_t state = states_[extent].load(std::memory_order_relaxed);
  while (state >= kWhole / kNeighbourPart && state < kWhole)
    if (states_[extent].compare_exchange_weak(state, kWhole)) return true;
  return false;
}

Extents::Run Extents::TakeRun() {
  const MutexLock lock(mutex_);
  if (wanted_.empty()) return {};
  auto first = wanted_.lower_bound(next_);
  if (first == wanted_.end()) first = wanted_.begin();
  Run run{*first, 1};
  wanted_.erase(first);
  const std::uint64_t all = ExtentsOf(bytes_);
  while (run.count < kMaxRun && run.first + run.count < all && TakeNeighbour(run.first + run.count))
    ++run.count;
  while (run.count < kMaxRun && run.first > 0 && TakeNeighbour(run.first - 1)) {
    --run.first;
    ++run.count;
  }
  next_ = run.first + run.count;
  return run;
}

bool Extents::LockWanted() {
  const Run run = TakeRun();
  if (run.count == 0) return false;
  if (LockRun(run) || run.count == 1) return true;
  // One after the other.
  for (std::uint64_t i = 0; i < run.count; ++i) LockRun({run.first + i, 1});
  return true;
}

bool Extents::LockRun(const Run& run) {
  if (ended_) return true;
  const Status locked = Lock(run);
  if (locked.ok()) {
    for (std::uint64_t i = 0; i < run.count; ++i)
      states_[run.first + i].fetch_or(kResident, std::memory_order_release);
    return true;
  }
  // A part without readable bytes: kernels get the errors when they ask for it. A part of the run
  // may fit into the memory.
  if (locked.code() == StatusCode::kInternal ||
      (locked.code() == StatusCode::kExhausted && run.count > 1))
    return false;
  LogInfo("a part of a file does not become resident: {}", locked.message());
  // Memory may be free again when it has paid once more.
  if (locked.code() == StatusCode::kExhausted)
    states_[run.first] = 0;
  else
    ended_ = true;
  return true;
}

Status Extents::Lock(const Run& run) {
  if (const CUresult result = terms_.context.driver.set_current(terms_.context.context);
      result != CUDA_SUCCESS)
    return Status::Unavailable("the driver returns {}", static_cast<int>(result));
  const std::uint64_t offset = run.first * kExtentBytes;
  const std::uint64_t bytes = std::min(run.count * kExtentBytes, bytes_ - offset);
  if (resident_ == nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(const bool own, LocksOwnPages(terms_.context, file_, terms_.way));
    CUSPAN_ASSIGN_OR_RETURN(resident_, ResidentFile::Map(terms_.context, file_, bytes_, !own));
  }
  Status locked = resident_->Lock(file_, offset, bytes, *terms_.budget, may_lock_);
  if (locked.code() == StatusCode::kUnavailable && !resident_->copied() && resident_bytes_ == 0 &&
      terms_.way == ResidentWay::kAuto) {
    LogInfo("a file's pages can not be page-locked, so its bytes are copied: {}", locked.message());
    resident_.reset();
    CUSPAN_ASSIGN_OR_RETURN(resident_, ResidentFile::Map(terms_.context, file_, bytes_, true));
    locked = resident_->Lock(file_, offset, bytes, *terms_.budget, may_lock_);
  }
  CUSPAN_RETURN_IF_ERROR(locked);
  address_.store(resident_->address(), std::memory_order_relaxed);
  copied_.store(resident_->copied(), std::memory_order_relaxed);
  resident_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return Status::Ok();
}

}  // namespace cuspan::store
