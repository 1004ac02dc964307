// First steps of every call of the program, common to all APIs. WithSession, OnCurrentDevice,
// OnStream and InStream (graph/in_stream.h) pass session, device or stream to a body. The body is a
// function returning an Error:
//
//   OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error { … });
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "interpose/calls/base/error.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/client/session.h"

namespace cuspan {

// True once the process runs this library's destructors.
bool Unloading();

// CUDA_ERROR_NOT_SUPPORTED; logs each `what` ("cudaLaunchKernelExC with attribute 4") once.
Error NotSupported(std::string_view what);

// Returns the session of this process, started if necessary. Null on failure; *result is the
// reason.
Session* StartedSession(CUresult* result);

// True if a device has this number.
inline bool HasDevice(const Session& session, int device) {
  return device >= 0 && device < session.devices().count();
}

// Host functions in streams may make few calls; others are refused.
inline Error CheckMayCall() {
  const ThreadState& thread = ThisThread();
  return thread.in_host_call && !thread.host_call_permitted ? CUDA_ERROR_NOT_PERMITTED
                                                            : CUDA_SUCCESS;
}

// While it exists, the calling thread makes a call permitted to host functions, with the context of
// the function's stream as current. The driver permits (measured, driver 580, CUDA 13.0) most calls
// about created streams and about events. It permits none about devices, contexts, memory, pointers
// and code.
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

// True if the thread is in a call of the driver API and has no current context.
inline bool IsAnywhere() {
  const ThreadState& thread = ThisThread();
  return thread.in_driver_call && thread.contexts.top() == nullptr;
}

// Error left by a kernel's fault in the current context, until its reset. The driver returns it
// from nearly every call. Success without a fault; only calls needing a device report its loss.
// Threads: any; takes no lock.
Error CurrentFault();

// Calls body() → Error.
template <typename Body>
Error UnlessFaulted(Body&& body) {
  CUSPAN_RETURN_IF_FAILED(CurrentFault());
  return body();
}

// Calls body(Session&) → Error.
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

// Calls body(Session&, ContextConnection&) → Error with the connection of the thread's current
// device.
template <typename Body>
Error OnCurrentDevice(Body&& body) {
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&connection));
    return body(session, *connection);
  });
}

// Conversions between handles of the program and numbers of the client.
inline std::uint64_t NumberOf(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}
template <typename Handle>
Handle HandleOf(std::uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}

}  // namespace cuspan
