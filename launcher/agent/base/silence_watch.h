// Finds peers silent for too long, in ticks of the caller's clock. If this process itself was
// stopped for a while, it counts one tick and reports no peer for that.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace cuspan {

class SilenceWatch {
 public:
  // Peers silent for `limit` ticks in a row are reported.
  explicit SilenceWatch(std::uint32_t limit) : limit_(limit) {}

  // Starts watching a peer; `received`: number of its messages so far.
  void Add(std::uint32_t rank, std::uint64_t received) { watched_.try_emplace(rank, received); }

  // Called once a tick. `received(rank)` returns the number of messages of a peer so far. Returns
  // peers silent for too long and stops watching them.
  template <typename Received>
  std::vector<std::uint32_t> Tick(Received&& received) {
    std::vector<std::uint32_t> silent;
    for (auto& [rank, state] : watched_) {
      const std::uint64_t now = received(rank);
      state.ticks = now == state.received ? state.ticks + 1 : 0;
      state.received = now;
      if (state.ticks >= limit_) silent.push_back(rank);
    }
    for (const std::uint32_t rank : silent) watched_.erase(rank);
    return silent;
  }

 private:
  struct State {
    explicit State(std::uint64_t received) : received(received) {}
    std::uint64_t received;
    std::uint32_t ticks = 0;
  };
  const std::uint32_t limit_;
  std::map<std::uint32_t, State> watched_;
};

}  // namespace cuspan
