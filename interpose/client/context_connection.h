// One generation of a context (context.h): the connection to its proxy, its memory and its modules.
// A reset device gets a new one.
//
// Threads: any. Functions return the driver's results; for a lost device every call returns its
// sticky error.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <optional>

#include "interpose/client/connection/connection.h"
#include "interpose/client/connection/wait_marks.h"
#include "interpose/client/limits.h"
#include "interpose/client/memory/coherence.h"
#include "interpose/client/memory/device_memory.h"
#include "interpose/client/modules.h"
#include "interpose/client/tensor_maps.h"

namespace cuspan {

class Context;
class ContextConnection;

// Arguments of ContextConnection's constructor. The pointers outlive the ContextConnection.
struct ContextConnectionParts {
  Context* context = nullptr;
  ProxyLocation place;
  std::uint64_t number = 0;
  AddressWindow window;
  std::unique_ptr<Channel> channel;
  ConnectionCommon* common = nullptr;
  SharedRegion* region = nullptr;
  ManagedVariables* variables = nullptr;
  PieceListener* pieces = nullptr;  // Null: no listener.
  // Called for completions and for communicators, on the receiving thread.
  const std::function<void(const EventReached&)>* on_event = nullptr;
  const std::function<void(const ContextConnection&, const CommunicatorNotice&)>* on_communicator =
      nullptr;
};

// Answers a proxy asking for bytes of the program's files.
class FileListener {
 public:
  // False if nothing waits for them. Must not block. Threads: the receiving thread.
  virtual bool OnWanted(const std::shared_ptr<ContextConnection>& connection,
                        const FileWanted& wanted) = 0;

 protected:
  ~FileListener() = default;
};

class ContextConnection final : public Connection {
 public:
  explicit ContextConnection(ContextConnectionParts parts);

  // Posts an op without a reply, and keeps memory shared with the program coherent. Send does not:
  // it is for the coherence work itself, and for ops only describing work. *place: position among
  // all posted ops.
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
    if (shared) coherence_.After(op, sequence);
    return result;
  }
  // CallAndStore for the program, reporting work as complete to it.
  template <typename T>
  CUresult Synchronize(const T& op, std::uint64_t* sequence = nullptr) {
    coherence_.BeforeWait(T::kOp == Op::kStreamQuery);
    const CUresult result = CallAndStore(op, sequence);
    if (result != CUDA_SUCCESS) return result;
    return Synchronized(T::kOp == Op::kDeviceSynchronize);
  }
  // Synchronize with a stream, without a call if possible: see WaitMarks.
  CUresult WaitForStream(std::uint64_t stream, std::uint64_t* sequence);
  // To be called before work of the device is reported as complete to the program: all of it, or
  // some.
  CUresult Synchronized(bool all) {
    common().output.WriteKept();
    return coherence_.Synchronized(all);
  }

  // True if work in flight may write memory read by the program.
  bool MayWriteHost() {
    // The device completes a copy before its last bytes are stored here.
    if (common().receiving.load(std::memory_order_acquire) != 0) return true;
    const std::uint64_t completed = memory_.completed();
    return completed < LastPosted() && coherence_.MayWriteHost(completed);
  }

  Context& context() const { return *context_; }
  WaitMarks& wait_marks() { return wait_marks_; }
  Coherence& coherence() { return coherence_; }
  DeviceMemory& memory() { return memory_; }
  const DeviceMemory& memory() const { return memory_; }
  Modules& modules() { return modules_; }
  TensorMaps& tensor_maps() { return tensor_maps_; }
  Limits& limits() { return limits_; }
  // `listener` outlives the connection; always the same one.
  void SetFileListener(FileListener* listener) { files_.store(listener); }
  // True if CUDA_LAUNCH_BLOCKING was 1 when the context began: launches of kernels and graphs block
  // until these have ended, and report their errors.
  bool launches_block() const { return launches_block_; }

 private:
  void OnEvent(const EventReached& reached) override { (*on_event_)(reached); }
  bool OnFrame(const Frame& frame) override;
  void OnCompleted(std::uint64_t sequence) override { memory_.Completed(sequence); }
  std::uint64_t completed() const override { return memory_.completed(); }
  void OnFailed(CUresult result) override;
  void OnLongWait() override;

  const std::shared_ptr<Context> context_;  // A reference cycle until the generation ends.
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
  WaitMarks wait_marks_{this};
  const bool launches_block_;
  std::atomic<FileListener*> files_{nullptr};
};

}  // namespace cuspan
