// What every call of the program does first, whichever face it came through: WithSession,
// OnCurrentDevice, OnStream and InStream (capture.h) give a body what it works on. Each takes the
// work as a function that returns an Error:
//
//   OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error { … });
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "interpose/calls/error.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/client/session.h"

namespace cuspan {

// True when this library's part of the process has ended.
bool Unloading();

// CUDA_ERROR_NOT_SUPPORTED, said once per `what` ("cudaLaunchKernelExC with attribute 4").
Error NotSupported(std::string_view what);

// The session of this process, started if it was not. Null when it can not be had; *result says
// why.
Session* StartedSession(CUresult* result);

// Whether there is a device of this number.
inline bool HasDevice(const Session& session, int device) {
  return device >= 0 && device < session.devices().count();
}

// --- Stream capture (capture.cc). What a call that no graph can hold does to a capture: ends it,
// with the error returned; success where none is concerned.
extern constinit std::atomic<int> captures_active;
inline bool AnyCapture() { return captures_active.load(std::memory_order_acquire) != 0; }
Error RefuseCapture(Session& session, const StreamTarget& target);
Error RefuseCaptureOnDevice(Session& session, int device);
// The same for what may wait for a device, or do other things that no capture knows of: refused
// while there is a capture that forbids it to the calling thread, see
// cuThreadExchangeStreamCaptureMode.
Error RefuseUnsafe();

// Functions that the program puts into streams may make few calls; others are refused.
inline Error CheckMayCall() {
  const ThreadState& thread = ThisThread();
  return thread.in_host_call && !thread.host_call_permitted ? CUDA_ERROR_NOT_PERMITTED
                                                            : CUDA_SUCCESS;
}

// While it lives, the calling thread makes a call that such functions may make, as if the context
// of the function's stream were current. These are the calls that the driver takes there (measured,
// driver 580, CUDA 13.0): most about streams that were made and about events; none about devices,
// contexts, memory, pointers and code.
class HostFunctionMayCall {
 public:
  HostFunctionMayCall() : thread_(ThisThread()) {
    if (!thread_.in_host_call || thread_.host_call_context == nullptr) [[likely]]
      return;
    thread_.host_call_permitted = within_ = true;
    thread_.contexts.Push(thread_.host_call_context);
  }
  ~HostFunctionMayCall() {
    if (!within_) [[likely]]
      return;
    thread_.contexts.Pop();
    thread_.host_call_permitted = false;
  }
  HostFunctionMayCall(const HostFunctionMayCall&) = delete;

 private:
  ThreadState& thread_;
  bool within_ = false;
};

// Whether the thread is in a call of the driver and has no current context.
inline bool IsAnywhere() {
  const ThreadState& thread = ThisThread();
  return thread.in_driver_call && thread.contexts.top() == nullptr;
}

// The error that a fault of a kernel has left in the current context, until that is reset. The
// driver returns it from nearly every call, whatever the call is about. Success where there is
// none; the loss of a device is reported only by calls that need it. Any thread; takes no lock.
Error CurrentFault();

// body() → Error.
template <typename Body>
Error UnlessFaulted(Body&& body) {
  CUSPAN_RETURN_IF_FAILED(CurrentFault());
  return body();
}

// body(Session&) → Error.
template <typename Body>
Error WithSession(Body&& body) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  CUresult result = CUDA_SUCCESS;
  Session* session = Session::IfStarted();
  if (session == nullptr) [[unlikely]]
    session = StartedSession(&result);
  if (session == nullptr) return result;
  return body(*session);
}

// body(Session&, ContextConnection&) → Error, with the proxy of the thread's current device.
template <typename Body>
Error OnCurrentDevice(Body&& body) {
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&connection));
    return body(session, *connection);
  });
}

// body(Session&, const StreamTarget&) → Error. When the body worked, the
// failure of an op that this thread posted earlier is returned instead. For
// calls that can not be captured; see capture.h for the others.
template <typename Body>
Error OnStream(CUstream stream, DefaultStream meaning, Body&& body) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    if (AnyCapture()) [[unlikely]] {
      CUSPAN_RETURN_IF_FAILED(RefuseCapture(session, target));
    }
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.connection->TakePostedFailure();
  });
}

// Handles as the program holds them and as the client numbers them.
inline std::uint64_t NumberOf(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}
template <typename Handle>
Handle HandleOf(std::uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}

}  // namespace cuspan
