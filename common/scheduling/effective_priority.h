// Priorities of several claimants of one resource. They also depend on each one's waiting time and
// past usage: no claimant starves, and frequent requests bring no advantage.
//
// The formula is that of PTask (Rossbach et al., "PTask: operating system abstractions to manage
// GPUs as compute devices", SOSP 2011):
//
//   effective = static + W0 · (last wait − average wait)
//                      + W1 · (own average wait − decayed average wait)
//                      + W2 · (average GPU time − own GPU time)
//                      + W3 · (proxy priority − average proxy priority)
//
// Averages are over all claimants. Reads no clock: all times are the caller's.
#pragma once

#include <span>

namespace cuspan::scheduling {

// A claimant of the resource. Times are in milliseconds.
struct Claim {
  double priority = 0;        // Static; higher goes first.
  double last_wait = 0;       // Duration of the current wait.
  double average_wait = 0;    // Average of its past waits.
  double gpu_time = 0;        // GPU time used.
  double proxy_priority = 0;  // Operating system priority of the claiming process.
};

struct PriorityWeights {
  double last_wait = 0.01;  // One priority step per 100 ms.
  double average_wait = 0.001;
  double gpu_time = 0.01;
  double proxy_priority = 1;
};

// One priority step. The term of GPU times is clamped to half a step in either direction, so it
// never reverses larger differences.
inline constexpr double kPriorityStep = 1;

// Fills `effective`, as long as `claims`. `decayed_wait` is the caller's decaying average of all
// waits.
void EffectivePriorities(std::span<const Claim> claims, double decayed_wait,
                         const PriorityWeights& weights, std::span<double> effective);

}  // namespace cuspan::scheduling
