#include "proxy/softgpu/rt/grid.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/format.h"
#include "proxy/softgpu/rt/block.h"
#include "proxy/softgpu/rt/child_launches.h"

namespace cuspan::softgpu {
namespace {

// Blocks are taken several at a time, yet so that each worker comes back often
// enough for even shares.
constexpr std::uint64_t kSharesOfAWorker = 16;
constexpr std::uint64_t kMostAtATime = 512;
// Blocks that suspend may take long, or have to stay resident.
constexpr std::uint64_t kMostSuspending = 8;

std::uint64_t BlocksAtATime(const Launch& launch, unsigned workers) {
  if (launch.cooperative) return 1;
  return std::clamp<std::uint64_t>(launch.grid.count() / (workers * kSharesOfAWorker), 1,
                                   launch.needs_fibers ? kMostSuspending : kMostAtATime);
}

}  // namespace

GridTask::GridTask(Launch launch, int priority, unsigned workers)
    : Task(launch.grid.count(), BlocksAtATime(launch, workers), priority, launch.cooperative),
      launch_(Numbered(std::move(launch))) {}

Launch GridTask::Numbered(Launch launch) {
  static std::atomic<std::uint64_t> last{0};
  launch.serial = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return launch;
}

bool GridTask::Cancelled() const { return launch_.errors->error() != CUDA_SUCCESS; }

void GridTask::Overdue(std::chrono::seconds limit) {
  launch_.errors->Raise(CUDA_ERROR_LAUNCH_TIMEOUT,
                        Format("kernel {}: it ran for more than {} s and was terminated; "
                               "CUSPAN_SOFT_WATCHDOG sets the limit",
                               launch_.kernel, limit.count()));
}

std::unique_ptr<Task> GridTask::Next() {
  return launch_.children == nullptr || Cancelled() ? nullptr : launch_.children->Next();
}

Resident* GridTask::Start(Worker& worker, std::uint64_t unit) {
  std::unique_ptr<Block> block = worker.TakeBlock();
  if (block->Start(worker, launch_, unit)) {
    worker.GiveBlock(std::move(block));
    return nullptr;
  }
  return block.release();  // Comes back through Release.
}

bool GridTask::Execute(Worker& worker, std::uint64_t begin, std::uint64_t end) {
  if (launch_.needs_fibers) return false;
  std::unique_ptr<Block> block = worker.TakeBlock();
  block->Execute(worker, launch_, begin, end);
  worker.GiveBlock(std::move(block));
  return true;
}

}  // namespace cuspan::softgpu
