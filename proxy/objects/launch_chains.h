// Graphs for launching several kernels of a stream at once: chains of kernel nodes with parameters
// set before each launch. On an H200, a single launch takes driver and device 3.5 µs. In a chain of
// 4 or 32, a launch takes 1.0 or 0.65 µs (measured).
//
// They are created while the device has no work. The driver needs more memory for some of them (the
// 7th or 34th, measured on an H200). Then it first waits for all kernels running, and accepts no
// other work meanwhile. A kernel waiting for data from the program would never end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "proxy/gpu/driver.h"
#include "proxy/objects/kernel_call.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/queues.h"

namespace cuspan::proxy {

// Enough chains for a stream with any number of launches. Created once, used by any stream.
//
// Threads: the receiving thread. When it is not used any more, the worker may call End.
class LaunchChains {
 public:
  struct Chain {
    CUgraphExec driver = nullptr;
    const std::vector<CUgraphNode>* nodes = nullptr;
    // It still runs until this stream has completed `last_launch`. Null before its first launch.
    std::shared_ptr<Completer::StreamProgress> stream;
    std::uint64_t last_launch = 0;

    bool Runs() const { return stream != nullptr && stream->completed() < last_launch; }
  };

  // Nodes are created like `model`, a launch.
  LaunchChains(const Driver& driver, const KernelCall& model)
      : driver_(driver), model_(model), modules_{model.kernel->module} {
    model_.Keep();
  }
  LaunchChains(const LaunchChains&) = delete;
  ~LaunchChains() { End(); }

  enum class State { kToBeMade, kReady, kFailed };
  State state() const { return state_; }
  // Creates the next chain, in some 0.1 ms. Requires kToBeMade.
  void MakeNext();
  // Releases the driver's objects.
  void End();

  // Fewer launches fill no chain.
  static constexpr std::size_t kShortest = 4;
  // Returns one of the longest chains with at most `launches` nodes. Null if all of them run: a
  // running one cannot be changed.
  Chain* FindFree(std::size_t launches);
  // Sets the parameters of a node for the next launch of `chain`.
  CUresult Set(const Chain& chain, std::size_t node, const KernelCall& call,
               std::vector<void*>& pointers);
  // True if it ever contained kernels of this module.
  bool MadeOf(std::uint64_t module) const { return modules_.contains(module); }

 private:
  struct Size {
    std::size_t nodes;
    std::size_t chains;
  };
  // A stream is paused if 256 launches are pending, and progress is marked every 64. With these
  // numbers of chains, a stream alone always has a free one unless it is paused.
  static constexpr std::array<Size, 2> kSizes = {
      {{StreamQueues::kMaxInBatch, 10}, {kShortest, 16}}};
  // The chains of a size, used in rotation.
  struct Rotation {
    CUgraph graph = nullptr;
    std::vector<CUgraphNode> nodes;
    std::vector<Chain> chains;
    std::size_t next = 0;
  };
  CUresult MakeGraph(const Size& size, Rotation& made) const;
  CUresult MakeIn(const Size& size, Rotation& made) const;

  const Driver& driver_;
  KernelCall model_;
  State state_ = State::kToBeMade;
  std::array<Rotation, kSizes.size()> sizes_;
  std::unordered_set<std::uint64_t> modules_;
};

}  // namespace cuspan::proxy
