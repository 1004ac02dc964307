// Runs kernels written in C++ on the software GPU's runtime like compiled kernels: one call for
// each thread.
#pragma once

#include <cuda.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/fault.h"
#include "proxy/softgpu/rt/grid.h"
#include "proxy/softgpu/rt/heap.h"
#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// Keeps the first error, and does not log it.
class QuietSink : public ErrorSink {
 public:
  void Raise(CUresult error, const std::string& message) override {
    std::lock_guard lock(mutex_);
    if (error_ != CUDA_SUCCESS) return;
    message_ = message;
    error_ = error;
  }
  CUresult error() const override { return error_; }
  std::string message() const {
    std::lock_guard lock(mutex_);
    return message_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  std::string message_;
};

struct Outcome {
  CUresult error;
  std::string message;
};

inline constexpr unsigned kTestWorkers = 2;

// Makes a launch of `entry` with the pointer `argument` as its only parameter.
inline Launch MakeLaunch(KernelEntry entry, Dimensions grid, Dimensions block, void* argument) {
  Launch launch;
  launch.kernel = "test";
  launch.compiled.entry = entry;
  launch.compiled.needs_fibers = true;
  launch.grid = grid;
  launch.block = block;
  launch.params = {reinterpret_cast<std::uint64_t>(argument)};
  launch.stack_bytes = 64 * 1024;
  return launch;
}

// Executes the launch and waits for its end.
inline Outcome RunLaunch(Launch launch) {
  InstallFaultHandlers();
  static auto* const pool = new WorkerPool(kTestWorkers);
  auto sink = std::make_shared<QuietSink>();
  launch.errors = sink;
  GridTask task(std::move(launch), 0, kTestWorkers);
  std::promise<void> finished;
  pool->Add(task, [&] { finished.set_value(); });
  finished.get_future().wait();
  return {sink->error(), sink->message()};
}

inline Outcome RunLaunch(KernelEntry entry, Dimensions grid, Dimensions block, void* argument) {
  return RunLaunch(MakeLaunch(entry, grid, block, argument));
}

// The kernel's parameter.
template <typename T>
T& Argument(const ThreadContext* context) {
  return **reinterpret_cast<T* const*>(context->params);
}

// The thread's number in its block.
inline std::uint32_t Thread(const ThreadContext* context) {
  return (context->tid[2] * context->ntid[1] + context->tid[1]) * context->ntid[0] +
         context->tid[0];
}

inline constexpr std::uint32_t kAllLanes = 0xffffffff;

}  // namespace cuspan::softgpu
