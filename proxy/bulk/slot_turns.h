// Turns of several copies for the free slots of a channel.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "protocol/channel/channel.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Copies in need of slots. Each gets one in turn, so that a long copy does not delay short ones.
// Threads: the receiving thread.
template <typename T>
class SlotTurns {
 public:
  void Add(std::shared_ptr<T> copy) CUSPAN_REQUIRES(receiving_thread) {
    waiting_.push_back(std::move(copy));
  }
  void Remove(const std::shared_ptr<T>& copy) CUSPAN_REQUIRES(receiving_thread) {
    std::erase(waiting_, copy);
  }
  // The channel is gone, and its slots.
  void Clear() CUSPAN_REQUIRES(receiving_thread) {
    waiting_.clear();
    spare_.reset();
  }
  // Nobody waits any more.
  void Forget() CUSPAN_REQUIRES(receiving_thread) { waiting_.clear(); }

  // Whether one waits and there is a slot. Cheap; for Bell::Wait.
  bool MayGoOn(Channel& channel) CUSPAN_REQUIRES(receiving_thread) {
    if (waiting_.empty()) return false;
    if (!spare_) spare_ = channel.TryTakeSlot();
    return spare_.has_value();
  }
  // A slot for a new copy: none while others wait.
  std::optional<std::uint32_t> TakeSlot(Channel& channel) CUSPAN_REQUIRES(receiving_thread) {
    if (!waiting_.empty()) return std::nullopt;
    return spare_ ? std::exchange(spare_, std::nullopt) : channel.TryTakeSlot();
  }
  // Gives out the free slots: use(copy, slot) → true for another one.
  template <typename Use>
  void GoOn(Channel& channel, Use&& use) CUSPAN_REQUIRES(receiving_thread) {
    while (MayGoOn(channel)) {
      const std::shared_ptr<T> copy = std::move(waiting_.front());
      waiting_.pop_front();
      if (use(copy, *std::exchange(spare_, std::nullopt))) waiting_.push_back(copy);
    }
  }

 private:
  std::deque<std::shared_ptr<T>> waiting_ CUSPAN_GUARDED_BY(receiving_thread);
  // Taken by MayGoOn, and not given to a copy yet.
  std::optional<std::uint32_t> spare_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
