// Kernel launches of one stream that are handed to the driver together: as a graph, a chain of
// kernel nodes whose parameters are set before each launch of it. On an H200 a launch by itself
// takes the driver and the device 3.5 µs, as one of 4 or 32 in a chain 1.0 or 0.65 (measured).
//
// What runs in which order, with which results and which errors is the same: a batch that the
// driver refuses is not launched, and its launches are then handed over one by one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "proxy/gpu/driver.h"
#include "proxy/objects/kernel_call.h"
#include "proxy/streams/queues.h"

namespace cuspan::proxy {

// Threads: the worker makes it, and ends it when nobody uses it; the rest is the receiving
// thread's.
class LaunchBatches {
 public:
  // Several that are launched by turns, since only one that is not running can be changed.
  struct Chain {
    CUgraphExec driver = nullptr;
    const std::vector<CUgraphNode>* nodes = nullptr;
    std::uint64_t last_launch = 0;  // Stream::submitted behind it.
  };

  LaunchBatches(const Driver& driver, const Kernel& kernel)
      : driver_(driver), modules_{kernel.module} {}
  LaunchBatches(const LaunchBatches&) = delete;
  ~LaunchBatches() { End(); }

  // Makes the chains, of nodes like this one. What fails is not ready, ever.
  void Make(const KernelCall& call);
  bool ready() const { return !given_up_ && made_.load(std::memory_order_acquire); }
  // It is never ready from now on, made or not.
  void GiveUp() { given_up_ = true; }
  // Gives back what the driver has of it.
  void End();

  // One for as many of `launches` as it has nodes; null when there is none, or when it still runs:
  // of the stream so much is `completed`.
  Chain* Next(std::size_t launches, std::uint64_t completed);
  // What the node of this number does when `chain` is launched the next time; valid until then.
  CUresult Set(const Chain& chain, std::size_t node, const KernelCall& call,
               std::vector<void*>& pointers);
  // Whether kernels of this module were ever in it.
  bool MadeOf(std::uint64_t module) const { return modules_.contains(module); }

 private:
  struct Size {
    std::size_t nodes;
    std::size_t chains;
  };
  // A stream is paused when 256 launches of it are pending, and looked at every 64: with so many
  // full batches one is free whenever it is not.
  static constexpr std::array<Size, 2> kSizes = {{{StreamQueues::kMaxInBatch, 10}, {4, 16}}};
  struct Chains {
    CUgraph graph = nullptr;
    std::vector<CUgraphNode> nodes;
    std::vector<Chain> chains;
    std::size_t next = 0;
  };
  CUresult MakeOne(const Size& size, const KernelCall& call, Chains& made) const;

  const Driver& driver_;
  std::atomic<bool> made_ = false;
  bool given_up_ = false;  // The receiving thread's.
  std::array<Chains, kSizes.size()> sizes_;
  std::unordered_set<std::uint64_t> modules_;
};

}  // namespace cuspan::proxy
