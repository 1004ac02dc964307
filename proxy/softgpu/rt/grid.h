// A launch as a task of the worker pool: its blocks are the units.
#pragma once

#include <memory>

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
  std::unique_ptr<Task> Next() override;

 private:
  static Launch Numbered(Launch launch);

  const Launch launch_;
};

}  // namespace cuspan::softgpu
