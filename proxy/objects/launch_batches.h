// Batches of kernel launches. They are launched as graphs (launch_chains.h), wanted when launches
// arrive faster than they are submitted, and kept for all streams of the session.
//
// Order, results and errors do not change: if the driver refuses a batch, its launches are
// submitted one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proxy/gpu/driver.h"
#include "proxy/objects/kernel_call.h"
#include "proxy/objects/launch_chains.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class LaunchBatches {
 public:
  // Both references outlive it. The worker destroys the graphs.
  LaunchBatches(const Driver& driver, Worker& worker) : driver_(driver), worker_(worker) {}

  // True if Launch may succeed.
  bool ready() const CUSPAN_REQUIRES(receiving_thread);
  // Counts a launch submitted later than it arrived. After some, graphs are wanted for launches
  // like it, and more of them when all are in use.
  void Count(const KernelCall& call) CUSPAN_REQUIRES(receiving_thread);
  // True if MakeNext has to be called while the device has no work.
  bool wants_graphs() const CUSPAN_REQUIRES(receiving_thread) {
    return !chains_.empty() && chains_.back()->state() == LaunchChains::State::kToBeMade;
  }
  // Creates the next graph. Requires wants_graphs().
  void MakeNext() CUSPAN_REQUIRES(receiving_thread);
  // Launches the first `calls` in the stream, and returns their number: 0 if the first one has to
  // be launched alone.
  std::size_t Launch(const Stream& stream, std::span<const KernelCall* const> calls)
      CUSPAN_REQUIRES(receiving_thread);
  // Removes the graphs with kernels of `module`, or all without it. They end with their last
  // reference, or by End().
  std::vector<std::shared_ptr<LaunchChains>> Extract(std::optional<std::uint64_t> module)
      CUSPAN_REQUIRES(receiving_thread);

 private:
  // A chain with at most `launches` nodes and not running, with its owner; or nothing.
  struct Found {
    LaunchChains* owner = nullptr;
    LaunchChains::Chain* chain = nullptr;
  };
  Found FindFree(std::size_t launches) CUSPAN_REQUIRES(receiving_thread);
  // Ends all graphs, and creates none for some time.
  void GiveUp() CUSPAN_REQUIRES(receiving_thread);

  // Launches counted before graphs are wanted: their creation takes some milliseconds in all.
  static constexpr std::uint64_t kWorthGraphs = 256;
  // Their number grows by this factor each time the driver refuses graphs. Memory may be exhausted,
  // or the kernel may be unsuitable.
  static constexpr std::uint64_t kPatience = 16;
  static constexpr std::uint64_t kMostWorth = 1'000'000;
  // Maximum of streams with all their launches in batches.
  static constexpr std::size_t kMost = 8;

  const Driver& driver_;
  Worker& worker_;
  std::vector<std::shared_ptr<LaunchChains>> chains_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t counted_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t worth_graphs_ CUSPAN_GUARDED_BY(receiving_thread) = kWorthGraphs;
  // No chain was free for a batch since the last ones were added.
  bool all_run_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::vector<void*> pointers_ CUSPAN_GUARDED_BY(receiving_thread);  // Arguments of a launch.
};

}  // namespace cuspan::proxy
