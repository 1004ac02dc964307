// Decides whether the receiving thread polls through a pause of the program, or sleeps.
//
// Waking it costs the program some 60 to 120 µs. Many programs pause for some milliseconds between
// bursts of calls, so the thread polls that long if the last long poll was not in vain. Otherwise
// it tries again after 1, 2, 4, … 64 pauses: 1 % of a core for a program calling every 10 ms.
#pragma once

#include <algorithm>
#include <chrono>

namespace cuspan::proxy {

class PausePolling {
 public:
  // Longest pause polled through.
  static constexpr std::chrono::milliseconds kLongest{6};

  // `has_core`: a core may be used for it.
  explicit PausePolling(bool has_core) : has_core_(has_core) {}

  // A pause has begun. True if the thread should poll for up to kLongest: it reports the end by one
  // of the functions below.
  bool Begin() {
    if (!has_core_ || left_ == 0) return has_core_;
    --left_;
    return false;
  }
  // There was something to do.
  void Ended() { between_ = 1; }
  // There was not.
  void InVain() {
    left_ = between_;
    between_ = std::min(2 * between_, kMostBetween);
  }

 private:
  static constexpr unsigned kMostBetween = 64;

  const bool has_core_;
  unsigned left_ = 0;     // Pauses until the next poll.
  unsigned between_ = 1;  // Pauses between polls if the next one is in vain.
};

}  // namespace cuspan::proxy
