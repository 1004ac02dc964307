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
  void Overdue(std::chrono::seconds limit) override;

 private:
  const Launch launch_;
};

}  // namespace cuspan::softgpu
