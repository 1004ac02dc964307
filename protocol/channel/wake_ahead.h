// Wakes the processes behind the receiver of a channel ahead of frames, after a pause: each takes
// some 50 µs to wake, one after the other.
#pragma once

#include <atomic>
#include <cstdint>

#include "protocol/channel/bell.h"
#include "protocol/channel/far_wake.h"

namespace cuspan {

// One side's view of the channel's words for it. Threads: any.
class WakeAhead {
 public:
  // Shared by both sides; all zero at first.
  struct Words {
    // Indexes are directions: 0 client to proxy, 1 back.
    std::atomic<std::uint32_t> expected[2];   // 1: frames come soon.
    std::atomic<std::uint32_t> has_far_wake;  // 1 once `far_wake` is set.
    std::atomic<std::uint32_t> far_woken;     // 1 when the client has sent it.
    FarWake far_wake;
  };
  // Both outlive it. `direction`: of this side's frames.
  WakeAhead(Words* words, Bell* peer, int direction)
      : words_(*words), peer_(*peer), direction_(direction) {}

  // Wakes the receiver of this side's frames, which it may await.
  void Expect() {
    words_.expected[direction_].store(1);
    peer_.Ring();
  }
  // True once after each Expect of the other side.
  bool ConsumeExpected() {
    std::atomic<std::uint32_t>& expected = words_.expected[1 - direction_];
    return expected.load(std::memory_order_relaxed) != 0 && expected.exchange(0) != 0;
  }

  // Called by a client's agent, at most once: the client wakes the agent at the route's other end,
  // too, if it finds this one asleep.
  void SetFarWake(const FarWake& wake) {
    words_.far_wake = wake;
    words_.has_far_wake.store(1, std::memory_order_release);
  }
  // Called by the agent: true once after the client has done so.
  bool ConsumeFarWoken() {
    return words_.far_woken.load(std::memory_order_relaxed) != 0 &&
           words_.far_woken.exchange(0) != 0;
  }
  // Called after a frame of this side has woken the receiver.
  void WokeReceiver() {
    if (direction_ != 0 || words_.has_far_wake.load(std::memory_order_acquire) == 0) return;
    words_.far_woken.store(1);
    const FarWake wake = words_.far_wake;
    waker_.Send(wake);
  }

 private:
  Words& words_;
  Bell& peer_;
  const int direction_;
  FarWaker waker_;
};

}  // namespace cuspan
