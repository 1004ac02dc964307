// Reports failed driver calls to the client, once each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "protocol/channel/channel.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Origin of an op, used to report its failure.
struct Origin {
  std::uint64_t sequence = 0;
  std::uint32_t request = 0;  // Posted op: the program's thread. Call: the caller's token.
  Op op{};
};

// Explanation of a fault by which a session's context was lost.
struct FaultExplanation {
  CUresult result;  // Result returned to the session's program.
  // Explanation for the log; empty if other runs did not cause the fault.
  const char* text;
};

// Threads: any with the device's context current.
class Faults {
 public:
  Faults(const Driver& driver, Channel& channel) : driver_(driver), channel_(channel) {}

  // Examines the result of a driver call and returns it. If the context is lost, the first such
  // call posts DeviceFault to the client and wakes the receiving thread.
  CUresult Check(CUresult result) {
    if (result != CUDA_SUCCESS) [[unlikely]]
      Examine(result);
    return result;
  }
  // The same for a posted op. If the context is not lost, the failure is reported by PostedFailure.
  void Posted(const Origin& origin, CUresult result);

  // Set if other runs can cause a loss of the context: `explain` tells if one did. It is called
  // once, on any thread. To be called before the first op.
  void SetExplanation(std::function<FaultExplanation(CUresult)> explain) {
    explain_ = std::move(explain);
  }

  // Result of every op from now on; CUDA_SUCCESS while the context is usable.
  CUresult lost() const { return static_cast<CUresult>(lost_.load(std::memory_order_acquire)); }

 private:
  void Examine(CUresult result);

  const Driver& driver_;
  Channel& channel_;
  std::function<FaultExplanation(CUresult)> explain_;
  std::atomic<int> lost_ = CUDA_SUCCESS;
};

}  // namespace cuspan::proxy
