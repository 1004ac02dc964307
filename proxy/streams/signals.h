// Signals: gates by number that may be opened before anybody waits at them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Every signal is for one wait: whichever of the two comes first is remembered
// until the other comes. Threads: one at a time.
class Signals {
 public:
  // The dependency at which to wait for `signal`; null when the signal has come.
  std::shared_ptr<Dependency> Await(std::uint64_t signal) CUSPAN_REQUIRES(receiving_thread) {
    if (came_.erase(signal) != 0) return nullptr;
    std::shared_ptr<Dependency>& dependency = awaited_[signal];
    if (dependency == nullptr) dependency = std::make_shared<Dependency>();
    return dependency;
  }

  // The signal has come. Returns the dependency to open, or null when nobody waits yet.
  std::shared_ptr<Dependency> Arrive(std::uint64_t signal) CUSPAN_REQUIRES(receiving_thread) {
    const auto found = awaited_.find(signal);
    if (found == awaited_.end()) {
      came_.insert(signal);
      return nullptr;
    }
    std::shared_ptr<Dependency> dependency = std::move(found->second);
    awaited_.erase(found);
    return dependency;
  }

 private:
  std::unordered_set<std::uint64_t> came_ CUSPAN_GUARDED_BY(receiving_thread);
  std::unordered_map<std::uint64_t, std::shared_ptr<Dependency>> awaited_
      CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
