// Which of those that are watched have been silent for too long, in ticks of the caller's clock: a
// process that was itself stopped for a while counts one tick when it goes on, and accuses nobody.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace cuspan {

class SilenceWatch {
 public:
  // Whoever is silent for `limit` ticks in a row is reported.
  explicit SilenceWatch(std::uint32_t limit) : limit_(limit) {}

  // From now on; `heard` is how much was heard of it so far.
  void Add(std::uint32_t rank, std::uint64_t heard) { watched_.try_emplace(rank, heard); }

  // A tick has passed. `heard(rank)` says how much was heard of it so far. Those that have been
  // silent for too long are returned and not watched any more.
  template <typename Heard>
  std::vector<std::uint32_t> Tick(Heard&& heard) {
    std::vector<std::uint32_t> silent;
    for (auto& [rank, state] : watched_) {
      const std::uint64_t now = heard(rank);
      state.ticks = now == state.heard ? state.ticks + 1 : 0;
      state.heard = now;
      if (state.ticks >= limit_) silent.push_back(rank);
    }
    for (const std::uint32_t rank : silent) watched_.erase(rank);
    return silent;
  }

 private:
  struct State {
    explicit State(std::uint64_t heard) : heard(heard) {}
    std::uint64_t heard;
    std::uint32_t ticks = 0;
  };
  const std::uint32_t limit_;
  std::map<std::uint32_t, State> watched_;
};

}  // namespace cuspan
