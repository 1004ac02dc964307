// How long an agent, or a lane of it, rests when nothing has moved: MPI wakes nobody, so it has to
// look.
#pragma once

#include <chrono>

namespace cuspan {

// As measured with MPI over TCP: naps of 500 µs cost 1.6 % of a core and add 0.3 ms to the first
// message after them, naps of 1 ms 0.9 % and 0.5 ms.
constexpr std::chrono::microseconds kFirstNap{50};
constexpr std::chrono::microseconds kLongestNap{500};
// While a reply is owed a nap would add to its time; but what takes this long does not notice one.
// Nor does MPI move bulk during a nap: with naps between chunks copies of 256 MiB over TCP on
// loopback took an eighth longer, measured on 16 cores.
constexpr std::chrono::milliseconds kAwaitYield{2};

}  // namespace cuspan
