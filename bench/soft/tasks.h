// What is timed: each task does one thing on the software GPU and, where there is something
// to compare with, the same in plain C++ with the same number of threads.
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
  // Allocates, computes both sides once and compares the results: kInternal when they
  // differ. Called once, before the others.
  virtual Status Prepare() { return Status::Ok(); }
  // Once on the software GPU: seconds, or what the task is about.
  virtual Result<double> OnGpu() = 0;
  // Once in plain C++, in seconds.
  virtual Result<double> OnHost() {
    return Status::Unsupported("there is nothing to compare this task with");
  }
};

// `threads` is what the C++ side uses; the software GPU has been told the same.
std::unique_ptr<Task> MakeTask(TaskId id, Gpu& gpu, unsigned threads);

// Instructions of the kernel that kFirstLaunch or kFirstLargeLaunch launches.
int FirstLaunchInstructions(TaskId task);

}  // namespace cuspan::bench::soft
