// The extents of a served file, some of them in page-locked memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>

#include "common/file_bytes.h"
#include "common/mutex.h"
#include "common/status.h"
#include "store/engine/memory_budget.h"
#include "store/engine/resident_file.h"
#include "store/layout/geometry.h"

namespace cuspan::store {

// Place and way for extents to become resident.
struct ExtentTerms {
  EngineContext context;
  ResidentWay way = ResidentWay::kAuto;
  MemoryBudget* budget = nullptr;
};

class Extents {
 public:
  // The file outlives it. `may_lock`: see ResidentFile::Lock.
  Extents(const FileBytes& file, std::uint64_t bytes, std::uint64_t line, const ExtentTerms& terms,
          std::function<bool()> may_lock = nullptr);
  Extents(const Extents&) = delete;

  // --- Threads: any.

  // Address for kernels of an extent of the file; 0 while it is not resident.
  std::uint64_t AddressOf(std::uint64_t extent) const {
    if (states_ == nullptr || (states_[extent].load(std::memory_order_acquire) & kResident) == 0)
      return 0;
    return address_.load(std::memory_order_relaxed) + extent * kExtentBytes;
  }
  // Counts a single read of a line. True if its extent is wanted now: its single reads have cost as
  // much as the whole extent would. `cached`: it came from the page cache.
  bool Pay(std::uint64_t extent, bool cached);
  std::uint64_t resident_bytes() const { return resident_bytes_.load(std::memory_order_relaxed); }
  bool copied() const { return copied_.load(std::memory_order_relaxed); }

  // --- Threads: one at a time.

  // Makes some of the wanted extents resident. False if none is wanted. Reads the file. Leaves the
  // context current on the thread.
  bool LockWanted();

 private:
  // A state is the cost of single reads, up to kWhole; then the extent is wanted. A bit more for
  // resident extents.
  static constexpr std::uint32_t kWhole = 1 << 16;
  static constexpr std::uint32_t kResident = 1u << 31;
  // A run of wanted extents, page-locked together.
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  Run TakeRun();
  // Takes an extent if it is wanted, or soon will be.
  bool TakeNeighbour(std::uint64_t extent) CUSPAN_REQUIRES(mutex_);
  // Makes a run resident. False if a part of it can not be read, or the run is too large.
  bool LockRun(const Run& run);
  Status Lock(const Run& run);

  const FileBytes& file_;
  const std::uint64_t bytes_;
  const ExtentTerms terms_;
  const std::function<bool()> may_lock_;
  const std::uint32_t cached_cost_;
  const std::uint32_t cold_cost_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> states_;
  std::atomic<std::uint64_t> address_ = 0;
  std::atomic<std::uint64_t> resident_bytes_ = 0;
  std::atomic<bool> copied_ = false;
  std::atomic<bool> ended_;  // No further extent becomes resident.
  Mutex mutex_;
  std::set<std::uint64_t> wanted_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t next_ = 0;  // Behind the last run.
  std::unique_ptr<ResidentFile> resident_;
};

}  // namespace cuspan::store
