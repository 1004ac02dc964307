// Limit of page-locked bytes of files.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace cuspan::store {

// Threads: any.
class MemoryBudget {
 public:
  // A part of it, given back at its end. The budget outlives it.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->used_ -= bytes_;
    }

    bool valid() const { return budget_ != nullptr; }

   private:
    friend class MemoryBudget;
    Share(MemoryBudget& budget, std::uint64_t bytes) : budget_(&budget), bytes_(bytes) {}

    MemoryBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  explicit MemoryBudget(std::uint64_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;

  // That of this process: CUSPAN_FILE_MEMORY, or a quarter of the memory available at the first
  // call. It never ends.
  static MemoryBudget& OfProcess();

  std::uint64_t limit() const { return limit_; }
  // Not valid if less is left.
  Share Take(std::uint64_t bytes) {
    std::uint64_t used = used_.load();
    do {
      if (bytes > limit_ - std::min(used, limit_)) return {};
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return {*this, bytes};
  }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_ = 0;
};

}  // namespace cuspan::store
