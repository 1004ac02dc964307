// CUDA contexts, the owners of streams, events, memory and modules. Every device has a primary
// context, shared by all its users, besides those created by the program. Each context has a proxy.
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

// A primary context begins with its first use and ends with its reset. Each period between the two
// is a generation, represented by a ContextConnection; all objects belong to one generation. A
// created context has one generation and is destroyed after it.
class Context : public std::enable_shared_from_this<Context> {
 public:
  enum class Kind { kPrimary, kCreated };
  // `number`, from 1, is unique in the process. Primary context: its device's number plus 1.
  Context(Kind kind, std::uint64_t number, int device)
      : kind_(kind), number_(number), device_(device) {}
  Context(const Context&) = delete;

  bool is_primary() const { return kind_ == Kind::kPrimary; }
  std::uint64_t number() const { return number_; }
  // Number of the context at the agents.
  std::uint32_t agent_number() const { return static_cast<std::uint32_t>(number_ - 1); }
  int device() const { return device_; }
  bool destroyed() const { return destroyed_.load(std::memory_order_acquire); }
  // State, read without a lock: CUDA_SUCCESS with a usable generation, the sticky error of a lost
  // device, CUDA_ERROR_CONTEXT_IS_DESTROYED without a generation.
  CUresult state() const {
    return static_cast<CUresult>(generation_.load(std::memory_order_acquire) & 0xffff'ffff);
  }
  // Number of the current generation, ContextConnection::number(); 0: none.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire) >> 32; }
  // Records `result` as the failure of the generation `generation`, if it is current and healthy.
  void Fail(std::uint64_t generation, CUresult result) {
    std::uint64_t healthy = GenerationOf(generation, CUDA_SUCCESS);
    generation_.compare_exchange_strong(healthy, GenerationOf(generation, result));
  }

  // Number of retains of a primary context by the program without a matching release.
  std::atomic<int> retained{0};
  // True from the runtime's first use of the context, or its choice by cudaSetDevice, until its
  // reset. The context begins with the first call needing it, of either API.
  std::atomic<bool> used_by_runtime{false};
  // Flags of a created context, as in CUctx_flags.
  std::atomic<unsigned> flags{0};

 private:
  friend class Devices;
  const Kind kind_;
  // 32 bits suffice for generations: each one starts a proxy.
  static constexpr std::uint64_t GenerationOf(std::uint64_t generation, CUresult result) {
    return generation << 32 | static_cast<std::uint32_t>(result);
  }
  std::atomic<bool> destroyed_{false};
  std::atomic<std::uint64_t> generation_{GenerationOf(0, CUDA_ERROR_CONTEXT_IS_DESTROYED)};
  const std::uint64_t number_;
  const int device_;
  Mutex opening_;  // Held while a generation begins or ends.
  // Both are guarded by Devices::connections_mutex_.
  std::shared_ptr<ContextConnection> connection_;
  std::shared_ptr<ContextConnection> starting_;  // Not open to the program's calls yet.
};

// Contexts made current by a thread, the latest on top. A destroyed context stays on the stack.
// Threads: the owner only.
class ContextStack {
 public:
  // Null if the stack is empty: the first device's primary context is meant.
  Context* top() const { return contexts_.empty() ? nullptr : contexts_.back().get(); }
  // Replaces the context on top.
  void Set(Context* context) {
    std::shared_ptr<Context> kept = context != nullptr ? context->shared_from_this() : nullptr;
    if (contexts_.empty())
      contexts_.push_back(std::move(kept));
    else
      contexts_.back() = std::move(kept);
  }
  void Push(Context* context) { contexts_.push_back(context->shared_from_this()); }
  // Null if the stack is empty.
  std::shared_ptr<Context> Pop() {
    if (contexts_.empty()) return nullptr;
    std::shared_ptr<Context> was = std::move(contexts_.back());
    contexts_.pop_back();
    return was;
  }

 private:
  std::vector<std::shared_ptr<Context>> contexts_;
};

// A table of objects belonging to contexts. Streams, events, arrays and the like are kept in tables
// for all contexts: their handles do not name the context.
class ContextTable {
 public:
  // Called when a generation begins: it takes calls, but no other thread uses it yet. Threads: any.
  virtual void Began(ContextConnection& /*connection*/) {}
  // Called once after a generation has ended and before the next begins: its objects are gone. Any
  // thread.
  virtual void Forget(const ContextConnection& ended) = 0;
  // Called when the device is lost: work in flight will never complete. Forget may follow. Threads:
  // the receiver thread only.
  virtual void Lost(const ContextConnection& /*lost*/) {}

 protected:
  ~ContextTable() = default;
};

}  // namespace cuspan
