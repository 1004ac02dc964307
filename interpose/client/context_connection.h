// One life of a context (context.h): the connection to its proxy, its memory and its modules. A
// device that is reset gets a new one.
//
// Any thread may use a connection. Functions return the driver's results; a lost device makes every
// call return its sticky error.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <optional>

#include "interpose/client/connection/connection.h"
#include "interpose/client/limits.h"
#include "interpose/client/memory/coherence.h"
#include "interpose/client/memory/device_memory.h"
#include "interpose/client/modules.h"
#include "interpose/client/tensor_maps.h"

namespace cuspan {

class Context;
class ContextConnection;

// What a connection is made from. The pointers outlive it.
struct ContextConnectionParts {
  Context* context = nullptr;
  ProxyLocation place;
  std::uint64_t number = 0;
  AddressWindow window;
  std::unique_ptr<Channel> channel;
  ConnectionCommon* common = nullptr;
  SharedRegion* region = nullptr;
  ManagedVariables* variables = nullptr;
  PieceListener* pieces = nullptr;  // Null: nobody wants to know.
  // Are told of completions, and of communicators, by the thread that receives.
  const std::function<void(const EventReached&)>* on_event = nullptr;
  const std::function<void(const ContextConnection&, const CommunicatorNotice&)>* on_communicator =
      nullptr;
};

class ContextConnection final : public Connection {
 public:
  explicit ContextConnection(ContextConnectionParts parts);

  // Posts an op that nobody waits for. What it may do with shared memory is seen to, which Send
  // does not: that is for the work of shared memory itself, and for what only describes work.
  // *place is its place among all that was posted.
  template <typename T>
  CUresult Post(const T& op, std::uint64_t* place = nullptr) {
    const bool shared = coherence_.Concerns(op);
    if (shared) {
      if (const CUresult result = coherence_.Before(op); result != CUDA_SUCCESS) return result;
    }
    std::uint64_t sequence = 0;
    const CUresult result = Send(op, &sequence);
    if (result == CUDA_SUCCESS) [[likely]]
      coherence_.Posted(op, sequence);
    if (place != nullptr) *place = sequence;
    if (shared) coherence_.After(op);
    return result;
  }
  // CallAndStore for the program, which hears that work is complete.
  template <typename T>
  CUresult Synchronize(const T& op, std::uint64_t* sequence = nullptr) {
    coherence_.BeforeWait(T::kOp == Op::kStreamQuery);
    const CUresult result = CallAndStore(op, sequence);
    if (result != CUDA_SUCCESS) return result;
    return Synchronized(T::kOp == Op::kDeviceSynchronize);
  }
  // The program is about to hear that work of the device is complete: all of it, or some.
  CUresult Synchronized(bool all) {
    common().output.WriteKept();
    return coherence_.Synchronized(all);
  }

  // Whether something is under way that writes memory which the program reads.
  bool MayWriteHost() {
    // The device has completed a copy before the last of its bytes are stored here.
    if (common().receiving.load(std::memory_order_acquire) != 0) return true;
    const std::uint64_t completed = memory_.completed();
    return completed < LastPosted() && coherence_.MayWriteHost(completed);
  }

  Context& context() const { return *context_; }
  Coherence& coherence() { return coherence_; }
  DeviceMemory& memory() { return memory_; }
  const DeviceMemory& memory() const { return memory_; }
  Modules& modules() { return modules_; }
  TensorMaps& tensor_maps() { return tensor_maps_; }
  Limits& limits() { return limits_; }
  // True if CUDA_LAUNCH_BLOCKING was 1 when the context began: launches of kernels and graphs
  // return when these have ended, and report their errors.
  bool launches_block() const { return launches_block_; }

 private:
  void OnEvent(const EventReached& reached) override { (*on_event_)(reached); }
  void OnCommunicator(const CommunicatorNotice& told) override { (*on_communicator_)(*this, told); }
  void OnCompleted(std::uint64_t sequence) override { memory_.Completed(sequence); }
  std::uint64_t completed() const override { return memory_.completed(); }
  void OnFailed(CUresult result) override;
  void OnLongWait() override;

  const std::shared_ptr<Context> context_;  // Until it has no life, they hold each other.
  SharedRegion* const region_;
  const std::function<void(const EventReached&)>* const on_event_;
  const std::function<void(const ContextConnection&, const CommunicatorNotice&)>* const
      on_communicator_;
  std::atomic<bool> said_what_is_waited_for_{false};
  Coherence coherence_;
  DeviceMemory memory_;
  Modules modules_;
  TensorMaps tensor_maps_;
  Limits limits_;
  const bool launches_block_;
};

}  // namespace cuspan
