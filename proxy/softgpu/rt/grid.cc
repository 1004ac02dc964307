#include "proxy/softgpu/rt/grid.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "proxy/softgpu/rt/block.h"
#include "proxy/softgpu/rt/child_launches.h"
#include "proxy/softgpu/rt/pace.h"
#include "proxy/softgpu/rt/races.h"

namespace cuspan::softgpu {
namespace {

// Workers take several blocks at a time, yet return often enough for even shares.
constexpr std::uint64_t kSharesOfAWorker = 16;
constexpr std::uint64_t kMaxAtATime = 512;
// Suspending blocks may take long, or have to stay resident.
constexpr std::uint64_t kMaxSuspending = 8;

// Maximum time that paced blocks may be early. It keeps the pace if a worker oversleeps, and saves
// short blocks a sleep each.
constexpr std::chrono::milliseconds kLead{5};

std::uint64_t BlocksAtATime(const Launch& launch, unsigned workers) {
  if (launch.cooperative) return 1;
  std::uint64_t most = launch.compiled.needs_fibers ? kMaxSuspending : kMaxAtATime;
  // A worker sleeps once for all these blocks. The sleep must be short: other tasks need the
  // worker, too.
  if (launch.pace != nullptr)
    most = std::clamp<std::uint64_t>(launch.pace->UnitsIn(kLead), 1, most);
  return std::clamp<std::uint64_t>(launch.grid.count() / (workers * kSharesOfAWorker), 1, most);
}

}  // namespace

GridTask::GridTask(Launch launch, int priority, unsigned workers)
    : Task(launch.grid.count(), BlocksAtATime(launch, workers), priority, launch.cooperative),
      launch_(Begun(std::move(launch))) {}

// Each execution of a graph is a separate launch.
Launch GridTask::Begun(Launch launch) {
  if (launch.races != nullptr) launch.races = launch.races->Again();
  return Numbered(std::move(launch));
}

Launch GridTask::Numbered(Launch launch) {
  static std::atomic<std::uint64_t> last{0};
  launch.serial = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return launch;
}

const Launch& GridTask::Current() {
  const Better* best = best_.load(std::memory_order_acquire);
  const LaterCode* const later = launch_.compiled.later.get();
  const CompiledKernel* const code = later != nullptr ? later->get() : nullptr;
  if (code != nullptr && (best == nullptr || best->code != code)) {
    std::lock_guard lock(better_mutex_);
    if (better_.empty() || better_.back().code != code) {
      Launch launch = launch_;
      launch.Use(*code);
      better_.push_back({code, Numbered(std::move(launch))});
      best_.store(&better_.back(), std::memory_order_release);
    }
    best = &better_.back();
  }
  return best != nullptr ? best->launch : launch_;
}

bool GridTask::Cancelled() const { return launch_.errors->error() != CUDA_SUCCESS; }

void GridTask::Overdue(std::chrono::seconds limit) {
  launch_.errors->Raise(CUDA_ERROR_LAUNCH_TIMEOUT,
                        Format("kernel {}: it ran for more than {} s and was terminated; "
                               "CUSPAN_SOFT_WATCHDOG sets the limit",
                               launch_.kernel, limit.count()));
}

void GridTask::Stuck(std::chrono::seconds waited, std::uint64_t resident) {
  LogWarn(
      "software GPU: kernel {}: {} of its {} blocks have waited on one thread for {} s, and the "
      "others cannot start before they end. Blocks waiting for each other must fit on the device "
      "together: launch fewer blocks",
      launch_.kernel, resident, launch_.grid.count(), waited.count());
}

std::unique_ptr<Task> GridTask::Next() {
  return launch_.children == nullptr || Cancelled() ? nullptr : launch_.children->Next();
}

std::chrono::steady_clock::time_point GridTask::Reserve(std::uint64_t blocks) {
  if (launch_.pace == nullptr) return {};
  std::lock_guard lock(reserve_mutex_);
  const auto done = launch_.pace->Reserve(blocks);
  reserved_ += blocks;
  // The last time is the latest. It is waited for in full: the kernel must not end before.
  return reserved_ == units() ? done : done - kLead;
}

Resident* GridTask::Start(Worker& worker, std::uint64_t unit) {
  const auto wait_until = Reserve(1);
  std::unique_ptr<Block> block = worker.AcquireBlock();
  const bool ended = block->Start(worker, Current(), unit);
  if (launch_.pace != nullptr) std::this_thread::sleep_until(wait_until);
  if (!ended) return block.release();  // Returned through Release.
  worker.GiveBlock(std::move(block));
  return nullptr;
}

bool GridTask::Execute(Worker& worker, std::uint64_t begin, std::uint64_t end) {
  const Launch& launch = Current();
  if (launch.compiled.needs_fibers) return false;
  const auto wait_until = Reserve(end - begin);
  std::unique_ptr<Block> block = worker.AcquireBlock();
  block->Execute(worker, launch, begin, end);
  worker.GiveBlock(std::move(block));
  if (launch_.pace != nullptr) std::this_thread::sleep_until(wait_until);
  return true;
}

}  // namespace cuspan::softgpu
