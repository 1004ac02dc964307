// How long an agent, or a lane of it, rests when nothing has moved: MPI wakes nobody, so it has to
// look.
#pragma once

#include <algorithm>
#include <chrono>

#include "protocol/channel/bell.h"

namespace cuspan {

// As measured with MPI over TCP: naps of 500 µs cost 1.6 % of a core and add 0.3 ms to the first
// message after them, naps of 1 ms 0.9 % and 0.5 ms.
constexpr std::chrono::microseconds kFirstBackoff{50};
constexpr std::chrono::microseconds kLongestBackoff{500};
// How long to go on looking without a nap. While an answer is owed a nap would add to its time; but
// what takes this long does not notice one. Nor does MPI move bulk during a nap: with naps between
// chunks copies of 256 MiB through shared memory took an eighth longer, measured on 16 cores; on
// two it makes no difference.
inline std::chrono::nanoseconds YieldLimit(const WaitStages& stages, bool awaiting) {
  constexpr std::chrono::nanoseconds kAwaitYield = std::chrono::milliseconds(2);
  return awaiting ? std::max({stages.yield, stages.await, kAwaitYield}) : stages.yield;
}

}  // namespace cuspan
