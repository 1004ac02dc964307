// Round-robin distribution of a channel's free slots among copies.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "protocol/channel/channel.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Copies waiting for slots. Each gets one slot in turn, so long copies do not delay short ones.
// Threads: the receiving thread.
template <typename T>
class SlotQueue {
 public:
  void Add(std::shared_ptr<T> copy) CUSPAN_REQUIRES(receiving_thread) {
    waiting_.push_back(std::move(copy));
  }
  void Remove(const std::shared_ptr<T>& copy) CUSPAN_REQUIRES(receiving_thread) {
    std::erase(waiting_, copy);
  }
  // Removes all copies; the channel and its slots are gone.
  void Clear() CUSPAN_REQUIRES(receiving_thread) {
    waiting_.clear();
    spare_.reset();
  }
  // Removes all copies; the channel stays usable.
  void Forget() CUSPAN_REQUIRES(receiving_thread) { waiting_.clear(); }

  // True if a copy waits and a slot is free. Cheap; for Bell::Wait.
  bool MayGoOn(Channel& channel) CUSPAN_REQUIRES(receiving_thread) {
    if (waiting_.empty()) return false;
    if (!spare_) spare_ = channel.TryAcquireSlot();
    return spare_.has_value();
  }
  // Returns a slot for a new copy; none while other copies wait.
  std::optional<std::uint32_t> AcquireSlot(Channel& channel) CUSPAN_REQUIRES(receiving_thread) {
    if (!waiting_.empty()) return std::nullopt;
    return spare_ ? std::exchange(spare_, std::nullopt) : channel.TryAcquireSlot();
  }
  // Distributes the free slots. use(copy, slot) returns true if the copy needs another one.
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
  // Slot taken by MayGoOn and not yet given to a copy.
  std::optional<std::uint32_t> spare_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
