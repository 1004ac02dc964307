#include "proxy/softgpu/rt/grid.h"

#include <algorithm>
#include <utility>

#include "common/format.h"
#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {
namespace {

// Blocks that never suspend are taken several at a time, yet so that each
// worker comes back often enough for even shares.
constexpr std::uint64_t kSharesOfAWorker = 16;
constexpr std::uint64_t kMostAtATime = 64;

std::uint64_t BlocksAtATime(const Launch& launch, unsigned workers) {
  if (launch.needs_fibers) return 1;
  return std::clamp<std::uint64_t>(launch.grid.count() / (workers * kSharesOfAWorker), 1,
                                   kMostAtATime);
}

}  // namespace

GridTask::GridTask(Launch launch, int priority, unsigned workers)
    : Task(launch.grid.count(), BlocksAtATime(launch, workers), priority, launch.cooperative),
      launch_(std::move(launch)) {}

bool GridTask::Cancelled() const { return launch_.errors->error() != CUDA_SUCCESS; }

void GridTask::Overdue(std::chrono::seconds limit) {
  launch_.errors->Raise(CUDA_ERROR_LAUNCH_TIMEOUT,
                        Format("kernel {}: it has run for more than {} s and was ended; "
                               "CUSPAN_SOFT_WATCHDOG sets how long kernels may run",
                               launch_.kernel, limit.count()));
}

Resident* GridTask::Start(Worker& worker, std::uint64_t unit) {
  std::unique_ptr<Block> block = worker.TakeBlock();
  if (block->Start(worker, launch_, unit)) {
    worker.GiveBlock(std::move(block));
    return nullptr;
  }
  return block.release();  // Comes back through Release.
}

}  // namespace cuspan::softgpu
