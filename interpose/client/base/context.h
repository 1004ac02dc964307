// CUDA contexts: what streams, events, memory and modules belong to. Every device has a primary
// one, which all its users share, and those that the program creates. Each has a proxy of its own.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

class ContextConnection;

// A primary context begins with the first use of it and ends when it is reset: each time it has
// another life, which is a ContextConnection. What belongs to it belongs to one of its lives. A
// created one has one life, and is destroyed after it.
class Context : public std::enable_shared_from_this<Context> {
 public:
  enum class Kind { kPrimary, kCreated };
  // `number` from 1 tells those of a process apart: a primary one has its device's and 1.
  Context(Kind kind, std::uint64_t number, int device)
      : kind_(kind), number_(number), device_(device) {}
  Context(const Context&) = delete;

  bool is_primary() const { return kind_ == Kind::kPrimary; }
  std::uint64_t number() const { return number_; }
  // As agents number it.
  std::uint32_t agent_number() const { return static_cast<std::uint32_t>(number_ - 1); }
  int device() const { return device_; }
  bool destroyed() const { return destroyed_.load(std::memory_order_acquire); }
  // Whether it can be used, without a lock: success in a life, the sticky error of one whose device
  // is lost, CUDA_ERROR_CONTEXT_IS_DESTROYED where it has none.
  CUresult state() const {
    return static_cast<CUresult>(life_.load(std::memory_order_acquire) & 0xffff'ffff);
  }
  // The number of the life that it has, ContextConnection::number(); 0 if it has none.
  std::uint64_t life() const { return life_.load(std::memory_order_acquire) >> 32; }
  // That life fails.
  void Fail(std::uint64_t life, CUresult result) {
    std::uint64_t healthy = LifeOf(life, CUDA_SUCCESS);
    life_.compare_exchange_strong(healthy, LifeOf(life, result));
  }

  // How often the program has retained a primary one and not released it.
  std::atomic<int> retained{0};
  // The runtime has used it, or cudaSetDevice chosen it, and keeps it until it is reset. It begins
  // with the first call that needs it, whichever face that comes through.
  std::atomic<bool> used_by_runtime{false};
  // Of a created one, as in CUctx_flags.
  std::atomic<unsigned> flags{0};

 private:
  friend class Devices;
  const Kind kind_;
  // Lives are few: each took the start of a process.
  static constexpr std::uint64_t LifeOf(std::uint64_t life, CUresult result) {
    return life << 32 | static_cast<std::uint32_t>(result);
  }
  std::atomic<bool> destroyed_{false};
  std::atomic<std::uint64_t> life_{LifeOf(0, CUDA_ERROR_CONTEXT_IS_DESTROYED)};
  const std::uint64_t number_;
  const int device_;
  Mutex opening_;  // One thread begins or ends a life; others wait.
  // Both guarded by the mutex of Devices.
  std::shared_ptr<ContextConnection> connection_;
  std::shared_ptr<ContextConnection> starting_;  // Used by nobody but the one who opens it.
};

// The contexts that a thread has made current, the last one on top. A context that is destroyed
// meanwhile stays there. Threads: its own only.
class ContextStack {
 public:
  // Null when there is none: the first device's primary one is meant.
  Context* top() const { return contexts_.empty() ? nullptr : contexts_.back().get(); }
  // Makes it current instead of the one on top.
  void Set(Context* context) {
    std::shared_ptr<Context> kept = context != nullptr ? context->shared_from_this() : nullptr;
    if (contexts_.empty())
      contexts_.push_back(std::move(kept));
    else
      contexts_.back() = std::move(kept);
  }
  void Push(Context* context) { contexts_.push_back(context->shared_from_this()); }
  // Null when there is none.
  std::shared_ptr<Context> Pop() {
    if (contexts_.empty()) return nullptr;
    std::shared_ptr<Context> was = std::move(contexts_.back());
    contexts_.pop_back();
    return was;
  }

 private:
  std::vector<std::shared_ptr<Context>> contexts_;
};

// Something that holds what belongs to contexts. Streams, events, arrays and the like are kept in
// tables for all contexts, since handles do not say which they belong to.
class ContextTable {
 public:
  // A life of a context begins: it takes calls, and no other thread uses it yet. Any thread.
  virtual void Began(ContextConnection& /*connection*/) {}
  // A life of a context has ended: what belonged to it is gone. Once, and before another life
  // begins. Any thread.
  virtual void Forget(const ContextConnection& ended) = 0;
  // The device is lost: nothing that is under way will complete. By the thread that receives, or
  // the one that found out. Forget may follow, or not.
  virtual void Lost(const ContextConnection& /*lost*/) {}

 protected:
  ~ContextTable() = default;
};

}  // namespace cuspan
