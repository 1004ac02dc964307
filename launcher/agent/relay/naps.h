// Duration of an idle agent's or lane's back-off sleeps. MPI has no wake-up, so both must poll.
#pragma once

#include <algorithm>
#include <chrono>

#include "protocol/channel/bell.h"

namespace cuspan {

// Measured with MPI over TCP: sleeps of 500 µs cost 1.6 % of a core and add 0.3 ms to the first
// message after them; sleeps of 1 ms cost 0.9 % and add 0.5 ms.
constexpr std::chrono::microseconds kFirstBackoff{50};
constexpr std::chrono::microseconds kLongestBackoff{500};
// Time of naps after the last message or bulk: a transport may still have to move bytes of a send
// reported as finished, left in its buffers while a socket was full. It moves them while polled.
constexpr std::chrono::milliseconds kSettles{5};
// Duration of polling without a sleep. While an answer is due, a sleep would add to its latency;
// for answers later than this limit, the addition is negligible. MPI does not move bulk during a
// sleep either. With sleeps between chunks, copies of 256 MiB through shared memory took an eighth
// longer on 16 cores, and no longer on two.
inline std::chrono::nanoseconds YieldLimit(const WaitStages& stages, bool awaiting) {
  constexpr std::chrono::nanoseconds kAwaitYield = std::chrono::milliseconds(2);
  return awaiting ? std::max({stages.yield, stages.await, kAwaitYield}) : stages.yield;
}

}  // namespace cuspan
