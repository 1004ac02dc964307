// Signals: numbered dependencies. A signal may arrive before the wait for it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Each signal has exactly one wait. The first of the two to arrive is stored until the other
// arrives. Threads: one at a time.
class Signals {
 public:
  // Returns the dependency to wait for; null if `signal` has already arrived.
  std::shared_ptr<Dependency> Await(std::uint64_t signal) CUSPAN_REQUIRES(receiving_thread) {
    if (came_.erase(signal) != 0) return nullptr;
    std::shared_ptr<Dependency>& dependency = awaited_[signal];
    if (dependency == nullptr) dependency = std::make_shared<Dependency>();
    return dependency;
  }

  // The signal has arrived. Returns the dependency to open; null if no op waits for it yet.
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
