// How fast a link takes bulk, and what follows from it: how much may be under
// way at a time, so that a small frame never waits long behind megabytes.
#pragma once

#include <chrono>
#include <cstdint>

#include "protocol/channel/channel.h"

namespace cuspan {

// An estimate from the sends to one agent. One thread.
class LinkRate {
 public:
  // `least_chunk`: of Transport::Limits.
  explicit LinkRate(std::uint64_t least_chunk) : least_chunk_(least_chunk) {}

  using Time = std::chrono::steady_clock::time_point;

  // A send was begun; one has ended. Its bytes count for the time in which any was under way.
  void Started(Time now);
  void Finished(std::uint32_t bytes, Time now);

  double bytes_per_second() const { return rate_; }
  // How many bytes may be under way at a time.
  std::uint64_t window_bytes() const;
  // How one of `routes` should cut its copies.
  Pace PaceFor(const ChannelLayout& layout, std::size_t routes) const;

 private:
  // Of a link of which nothing is known yet: its first chunks shall neither hold up a slow one
  // long nor slow down a fast one.
  static constexpr double kFirstGuess = 1e9;
  const std::uint64_t least_chunk_;
  double rate_ = kFirstGuess;
  int under_way_ = 0;
  Time last_{};
  std::chrono::nanoseconds busy_{0};
  std::uint64_t bytes_ = 0;
};

}  // namespace cuspan
