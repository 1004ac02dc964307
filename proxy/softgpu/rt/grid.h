// A launch as a task of the worker pool; its units are blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "proxy/softgpu/rt/launch.h"
#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

class GridTask : public Task {
 public:
  // `workers` determines the number of blocks taken at a time.
  GridTask(Launch launch, int priority, unsigned workers);

  bool Cancelled() const override;
  Resident* Start(Worker& worker, std::uint64_t unit) override;
  bool Execute(Worker& worker, std::uint64_t begin, std::uint64_t end) override;
  void Overdue(std::chrono::seconds limit) override;
  void Stuck(std::chrono::seconds waited, std::uint64_t resident) override;
  std::unique_ptr<Task> Next() override;
  std::uint64_t threads_of_unit() const override { return launch_.block.count(); }

 private:
  static Launch Begun(Launch launch);
  static Launch Numbered(Launch launch);
  // Returns the launch with the best code available now.
  const Launch& Current();
  // Called before blocks begin. Returns the time until their worker must wait after executing them.
  // Without a pace, this time is in the past.
  std::chrono::steady_clock::time_point Reserve(std::uint64_t blocks);

  const Launch launch_;
  // The launch with better code, perhaps ready only while it runs.
  std::mutex better_mutex_;
  struct Better {
    const CompiledKernel* code;  // Owned by LaterCode.
    Launch launch;
  };
  std::deque<Better> better_;  // Guarded by the mutex. Entries stay: blocks may use them.
  std::atomic<const Better*> best_ = nullptr;
  std::mutex reserve_mutex_;    // Held while reserving, so later calls get later times.
  std::uint64_t reserved_ = 0;  // Blocks with a reserved time; guarded by it.
};

}  // namespace cuspan::softgpu
