// A kernel's code for some of its blocks, and its execution model.
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
  std::uint32_t frame_bytes = 0;  // Sum of all functions, if not optimised; else 0.
  // Replacement being compiled; null if this is the best possible code.
  std::shared_ptr<const LaterCode> later;

  // Returns the best code available now.
  CompiledKernel Best() const;
};

// Better code, compiled while a kernel already runs. Threads: one at a time provides, any reads.
class LaterCode {
 public:
  // Returns the best so far, without its `later`; null before the first. Valid until destruction.
  const CompiledKernel* get() const { return best_.load(std::memory_order_acquire); }
  // True if no better code will follow.
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
  const bool last = later->ended();  // Read first: code provided before End is not missed.
  const CompiledKernel* const better = later->get();
  CompiledKernel best = better != nullptr ? *better : *this;
  best.later = last ? nullptr : later;
  return best;
}

}  // namespace cuspan::softgpu
