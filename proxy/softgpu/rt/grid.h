// A launch as a task of the worker pool: its blocks are the units.
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
  // `workers` decides how many blocks a worker takes at a time.
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
  // With the best code that there is by now.
  const Launch& Current();
  // Called with blocks before they are begun: until when their worker is to wait once it has
  // executed them. Without a pace there is nothing to wait for.
  std::chrono::steady_clock::time_point Reserve(std::uint64_t blocks);

  const Launch launch_;
  // The launch with better code, which may come while it runs.
  std::mutex better_mutex_;
  struct Better {
    const CompiledKernel* code;  // As LaterCode has it.
    Launch launch;
  };
  std::deque<Better> better_;  // Guarded by the mutex; each stays, since blocks may have it.
  std::atomic<const Better*> best_ = nullptr;
  std::mutex reserve_mutex_;    // Held while time is reserved, so that later calls get later times.
  std::uint64_t reserved_ = 0;  // How many blocks have theirs; guarded by it.
};

}  // namespace cuspan::softgpu
