// Work of a device that is kept to a rate.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace cuspan::softgpu {

// Keeps work to a rate: together its units (bytes of copies one way, blocks of kernels) take as
// long as they need at that rate. Any thread calls.
class Pace {
 public:
  // Units a second; 0: as fast as it goes.
  explicit Pace(double units_a_second) : rate_(units_a_second) {}
  bool limited() const { return rate_ != 0; }
  // How many units `time` is enough for.
  std::uint64_t UnitsIn(std::chrono::duration<double> time) const;
  // Called with each piece of the work, before it is executed: when it may be done.
  std::chrono::steady_clock::time_point Reserve(std::uint64_t units);

 private:
  const double rate_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_from_{};
};

}  // namespace cuspan::softgpu
