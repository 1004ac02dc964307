// Who of several that wait for one resource is to have it: a priority that also looks at how long
// each has waited and how much it has had, so that none starves and none is served twice because
// it asks more often.
//
// The formula is that of PTask (Rossbach et al., "PTask: operating system abstractions to manage
// GPUs as compute devices", SOSP 2011):
//
//   effective = static + W0 · (last wait − average wait)
//                      + W1 · (own average wait − decayed average wait)
//                      + W2 · (average GPU time − own GPU time)
//                      + W3 · (proxy priority − average proxy priority)
//
// Averages are over all that are compared. Knows no clock: all times are the caller's.
#pragma once

#include <span>

namespace cuspan::scheduling {

// One that wants the resource. Times are in milliseconds.
struct Claim {
  double priority = 0;        // Static; higher goes first.
  double last_wait = 0;       // How long it has waited now.
  double average_wait = 0;    // Its own, of the past.
  double gpu_time = 0;        // What it has had.
  double proxy_priority = 0;  // Of the process that asks for it, with the operating system.
};

struct PriorityWeights {
  double last_wait = 0.01;  // One step of priority for each 100 ms.
  double average_wait = 0.001;
  double gpu_time = 0.01;
  double proxy_priority = 1;
};

// A step of priority: what lies further apart is told apart whatever the GPU times are, since their
// term is kept within one step.
inline constexpr double kPriorityStep = 1;

// Fills `effective`, which is as long as `claims`. `decayed_wait` is the caller's decaying average
// of the waits of all.
void EffectivePriorities(std::span<const Claim> claims, double decayed_wait,
                         const PriorityWeights& weights, std::span<double> effective);

}  // namespace cuspan::scheduling
