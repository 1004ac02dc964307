#include "launcher/agent/node/agent_loop.h"

#include <algorithm>

#include "launcher/agent/relay/naps.h"

namespace cuspan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr microseconds kIdleSleep{1000};
constexpr milliseconds kIdleAfter{100};
// On a slow host, sleeps of 1 ms cost 2.3 % of a core, these 1.4 %. A program idle for a second can
// wait 1 ms more.
constexpr microseconds kLongIdleSleep{2000};
constexpr milliseconds kLongIdleAfter{1000};
// Interval of polling sockets and children while frames move.
constexpr milliseconds kPollEvery{1};
// Sleep limit if the transport can wake the agent.
constexpr nanoseconds kLongSleep = std::chrono::hours(1);
// Sleep without routes: only control messages arrive, at the start and end of a session.
constexpr milliseconds kRoutelessSleep{2};

// Negative limits are none.
milliseconds Sooner(milliseconds a, milliseconds b) {
  if (a.count() < 0 || b.count() < 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

void RunAgentLoop(Poller& poller, Relay* relay, Bell* bell, AgentSleep& sleep,
                  const std::function<bool()>& step) {
  // Sleeps on descriptors, process ends, timers and bells at once. No function called from here
  // blocks on one of them without a limit.
  if (relay == nullptr) {
    do {
      poller.Wait(milliseconds(-1));
    } while (step());
    return;
  }
  const WaitStages stages = WaitStages::ForThisMachine();
  const WaitStages sleep_at_once{nanoseconds(0), nanoseconds(0)};
  const bool is_woken = sleep.on_bell != nullptr || sleep.on_descriptors != nullptr;
  Clock::time_point moved_last = Clock::now();
  Clock::time_point polled_last{};
  microseconds backoff = kFirstBackoff;
  for (;;) {
    const bool moved = relay->Progress();
    const Clock::time_point now = Clock::now();
    if (moved) {
      moved_last = now;
      backoff = kFirstBackoff;
    }
    if (now - polled_last >= kPollEvery) {
      poller.Wait(milliseconds(0));
      polled_last = now;
      if (!step()) return;
    }
    const nanoseconds idle = now - moved_last;
    if (idle < stages.spin) continue;
    if (idle < YieldLimit(stages, relay->awaiting())) {
      ::sched_yield();
      continue;
    }
    // Recent events may have changed the result of `step`.
    if (is_woken && !step()) return;
    // A transport without wake-up progresses only while polled.
    const Transport::Rest rest = is_woken ? relay->Arm() : Transport::Rest::kNaps;
    if (rest == Transport::Rest::kNone) {
      ::sched_yield();
      continue;
    }
    const bool may_sleep = rest == Transport::Rest::kUntilWoken;
    // Lanes may still move bulk of closed routes. They ring the bell, and this branch does not wait
    // for it.
    if (!relay->has_routes() && (!is_woken || relay->quiet())) {
      poller.Wait(may_sleep ? relay->longest_rest() : kRoutelessSleep);
      polled_last = Clock::now();
      if (!step()) return;
      continue;
    }
    if (may_sleep && sleep.on_descriptors != nullptr) {
      sleep.on_descriptors->Listen();
      sleep.message = false;
      if (!relay->HasWork()) poller.Wait(relay->longest_rest());
      if (sleep.message) relay->WakeNextProxy();
      sleep.on_descriptors->Stop();
      continue;
    }
    if (may_sleep) {
      sleep.on_bell->Watch();
      const milliseconds limit = Sooner(poller.limit(), relay->longest_rest());
      bell->Wait(
          [&] {
            agent_thread.AssertHeld();
            return relay->HasWork() || sleep.on_bell->fired();
          },
          limit.count() < 0 ? kLongSleep : nanoseconds(limit), sleep_at_once);
      if (relay->PassOnFirst()) {
        // The answer is polled for, like any other.
        moved_last = Clock::now();
        backoff = kFirstBackoff;
      }
      polled_last = {};
      continue;
    }
    bell->Wait(
        [relay] {
          agent_thread.AssertHeld();
          return relay->HasWork();
        },
        backoff, sleep_at_once);
    backoff = std::min(2 * backoff, idle < kIdleAfter       ? kLongestBackoff
                                    : idle < kLongIdleAfter ? kIdleSleep
                                                            : kLongIdleSleep);
  }
}

}  // namespace cuspan
