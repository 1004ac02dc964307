// Timed tasks. Each runs once on the software GPU. If there is a comparison, it does the same in
// plain C++ with the same number of threads.
#pragma once

#include <memory>
#include <string_view>

#include "bench/soft/gpu.h"
#include "common/status.h"

namespace cuspan::bench::soft {

enum class TaskId : std::uint32_t {
  kMultiply32,
  kMultiply16,
  kAdd,
  kSumStriding,
  kSumEach,
  kTransform,
  kCountSteps,
  kCountQueens,
  kRunMachines,
  kSolveSystems,
  kTransformPoints,
  kBarrier,
  kFirstLaunch,
  kFirstLargeLaunch,
  kLoadModule,
  kResidentMemory,
};

class Task {
 public:
  virtual ~Task() = default;
  // Allocates, computes both sides once, and compares the results: kInternal if they differ. Called
  // once, before the other functions.
  virtual Status Prepare() { return Status::Ok(); }
  // Runs once on the software GPU. Returns seconds, or another value measured by the task.
  virtual Result<double> OnGpu() = 0;
  // Runs once in plain C++. Returns seconds.
  virtual Result<double> OnHost() {
    return Status::Unsupported("this task has no reference to compare with");
  }
};

// `threads`: threads of the C++ side, and of the software GPU.
std::unique_ptr<Task> MakeTask(TaskId id, Gpu& gpu, unsigned threads);

// Number of instructions of the kernel launched by kFirstLaunch or kFirstLargeLaunch.
int FirstLaunchInstructions(TaskId task);

}  // namespace cuspan::bench::soft
