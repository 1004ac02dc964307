// What became of driver calls that failed: told to the client, once each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "protocol/channel/channel.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Where an op came from, for the report of its failure.
struct Origin {
  std::uint64_t sequence = 0;
  std::uint32_t request = 0;  // Of a posted op the app's thread, of a call the caller's token.
  Op op{};
};

// What a failed call means that ended a session's context.
struct FaultExplanation {
  CUresult result;  // What the session's program is told.
  // A clause for people; empty where other runs have nothing to do with it.
  const char* text;
};

// Threads: any whose current context is the device's.
class Faults {
 public:
  Faults(const Driver& driver, Channel& channel) : driver_(driver), channel_(channel) {}

  // Looks at the result of a driver call and returns it. When it means that the
  // context is lost, the client is told by DeviceFault, the first time, and the
  // receiving thread is woken.
  CUresult Check(CUresult result) {
    if (result != CUDA_SUCCESS) [[unlikely]]
      Examine(result);
    return result;
  }
  // The same for a posted op, whose failure is reported by PostedFailure while the context lives.
  void Posted(const Origin& origin, CUresult result);

  // Who else may have lost the context, where other runs can: asked once, by any thread. To be
  // called before the first op.
  void SetExplanation(std::function<FaultExplanation(CUresult)> explain) {
    explain_ = std::move(explain);
  }

  // The result that every op has now: CUDA_SUCCESS while the context lives.
  CUresult lost() const { return static_cast<CUresult>(lost_.load(std::memory_order_acquire)); }

 private:
  void Examine(CUresult result);

  const Driver& driver_;
  Channel& channel_;
  std::function<FaultExplanation(CUresult)> explain_;
  std::atomic<int> lost_ = CUDA_SUCCESS;
};

}  // namespace cuspan::proxy
