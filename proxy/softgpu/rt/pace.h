// Rate limit for the work of a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace cuspan::softgpu {

// Limits work to a rate: its units (bytes of copies in one direction, blocks of kernels) together
// take as long as needed at this rate. Threads: any.
class Pace {
 public:
  // Units per second; 0: unlimited.
  explicit Pace(double units_a_second) : rate_(units_a_second) {}
  bool limited() const { return rate_ != 0; }
  // Number of units possible in `time`.
  std::uint64_t UnitsIn(std::chrono::duration<double> time) const;
  // Returns the earliest end of a piece of work. Called before its execution.
  std::chrono::steady_clock::time_point Reserve(std::uint64_t units);

 private:
  const double rate_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_from_{};
};

}  // namespace cuspan::softgpu
