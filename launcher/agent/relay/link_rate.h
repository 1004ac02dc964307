// Measures the rate of a link for bulk, and limits the bulk in flight accordingly: a small frame
// must not wait long behind megabytes.
#pragma once

#include <chrono>
#include <cstdint>

#include "protocol/channel/channel.h"

namespace cuspan {

// Estimate from the sends to one agent. Threads: one.
class LinkRate {
 public:
  // `least_chunk`: see Transport::Limits.
  explicit LinkRate(std::uint64_t least_chunk) : least_chunk_(least_chunk) {}

  using Time = std::chrono::steady_clock::time_point;

  // Start and end of a send. Its bytes are divided by the time with any send in flight.
  void Started(Time now);
  void Finished(std::uint32_t bytes, Time now);

  double bytes_per_second() const { return rate_; }
  // Maximum number of bytes in flight.
  std::uint64_t window_bytes() const;
  // Chunk size and number of slots for the copies of each of `routes` routes.
  Pace PaceFor(const ChannelLayout& layout, std::size_t routes) const;

 private:
  // Assumed rate of an unmeasured link, in bytes/s. Its first chunks must neither block a slow link
  // for long nor leave a fast one idle.
  static constexpr double kFirstGuess = 1e9;
  const std::uint64_t least_chunk_;
  double rate_ = kFirstGuess;
  int under_way_ = 0;
  Time last_{};
  std::chrono::nanoseconds busy_{0};
  std::uint64_t bytes_ = 0;
};

}  // namespace cuspan
