// Conditions of one launch of a graph. Its kernels set them (cudaGraphSetConditional), its
// conditional nodes read them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace cuspan::softgpu {

// Threads: any.
class GraphConditions {
 public:
  struct Condition {
    std::uint64_t handle;
    std::uint32_t value;
  };

  // Sorted by handle, without duplicates.
  explicit GraphConditions(std::vector<Condition> conditions)
      : conditions_(std::move(conditions)) {}

  // Returns false if `handle`, any number, is not among these.
  bool Set(std::uint64_t handle, std::uint32_t value) {
    const auto found = Find(handle);
    if (found == conditions_.end()) return false;
    std::atomic_ref(found->value).store(value, std::memory_order_relaxed);
    return true;
  }
  // Returns 0 if `handle` is not among these.
  std::uint32_t Get(std::uint64_t handle) {
    const auto found = Find(handle);
    return found == conditions_.end()
               ? 0
               : std::atomic_ref(found->value).load(std::memory_order_relaxed);
  }

 private:
  std::vector<Condition>::iterator Find(std::uint64_t handle) {
    const auto found = std::lower_bound(
        conditions_.begin(), conditions_.end(), handle,
        [](const Condition& condition, std::uint64_t wanted) { return condition.handle < wanted; });
    return found != conditions_.end() && found->handle == handle ? found : conditions_.end();
  }

  std::vector<Condition> conditions_;
};

}  // namespace cuspan::softgpu
