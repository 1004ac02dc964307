// A kernel's code for some blocks, and how to run it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu {

class LaterCode;

struct CompiledKernel {
  KernelEntry entry = nullptr;
  bool needs_fibers = false;
  bool warps = false;             // One call executes a warp, not a thread.
  std::uint32_t frame_bytes = 0;  // Of all functions, where the code is not optimised; else 0.
  // What takes its place when it is compiled; null when this is the best that there will be.
  std::shared_ptr<const LaterCode> later;

  // The best code that there is by now.
  CompiledKernel Best() const;
};

// Better code that is compiled while a kernel runs already. One thread at a time provides, any
// thread asks.
class LaterCode {
 public:
  // The best so far, without its `later`; null until there is some. Stays as long as this object.
  const CompiledKernel* get() const { return best_.load(std::memory_order_acquire); }
  // Whether no better code will come.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  void Provide(const CompiledKernel& code) {
    best_.store(&codes_.emplace_back(code), std::memory_order_release);
  }
  void End() { ended_.store(true, std::memory_order_release); }

 private:
  std::deque<CompiledKernel> codes_;
  std::atomic<const CompiledKernel*> best_ = nullptr;
  std::atomic<bool> ended_ = false;
};

inline CompiledKernel CompiledKernel::Best() const {
  if (later == nullptr) return *this;
  const bool last = later->ended();  // Before the question: what comes with the end is seen.
  const CompiledKernel* const better = later->get();
  CompiledKernel best = better != nullptr ? *better : *this;
  best.later = last ? nullptr : later;
  return best;
}

}  // namespace cuspan::softgpu
