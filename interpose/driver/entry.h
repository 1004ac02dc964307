// Wrappers around every function of the libcuda replacement. The wrapper depends on the
// requirements of the function:
//
//   AnswerAlways(body)       none: body() → Error
//   AnswerWithDriver(body)   cuInit, or a runtime that has done the same: body(Session&) → Error
//   AnswerInContext(body)    a valid current context: body(Session&) → Error, or
//                            body(Session&, ContextConnection&) → Error
//   AnswerInAny(body)        as AnswerInContext, but also without a current context: the handles
//                            passed determine the context
//   AnswerOnStream(s, body)  AnswerInContext for a default stream, AnswerInAny for others
//   AnswerLocally(body)      as AnswerInContext, for data held by the client: also if the device
//                            is lost
//   AnswerFromTables(body)   as AnswerWithDriver, for queries made thousands of times
//   AnswerUnlessLost(answer) one of the above, for kernels and fills without a waiting caller
//   InHostFunctionsToo(answer) one of the above, for calls allowed in host functions
//
// Bodies may call functions of calls/: the current context is then open. The body of
// AnswerFromTables only reads tables of the session. It must not block, write, or reach a
// cancellation point. It must not use the current device either, because this would be the
// runtime's.
#pragma once

#include <type_traits>

#include "common/cancellation.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/driver/api.h"

namespace cuspan {

// Marks the calling thread as inside a driver call, for the lifetime of the object.
class InDriverCall {
 public:
  InDriverCall() : thread_(ThisThread()), before_(thread_.in_driver_call) {
    thread_.in_driver_call = true;
  }
  ~InDriverCall() { thread_.in_driver_call = before_; }
  InDriverCall(const InDriverCall&) = delete;

  ThreadState& thread() { return thread_; }

 private:
  ThreadState& thread_;
  const bool before_;
};

template <typename Body>
CUresult AnswerAlways(Body&& body) {
  const CancellationOff cancellation;
  if (Unloading()) return CUDA_ERROR_DEINITIALIZED;
  const CUresult result = Error(body()).driver();
  if (result == CUDA_ERROR_DEVICE_UNAVAILABLE) [[unlikely]]
    ThisThread().loss_reported = true;
  return result;
}

template <typename Body>
CUresult AnswerWithDriver(Body&& body) {
  return AnswerAlways([&]() -> Error {
    Session* const session = Session::IfStarted();
    if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    CUSPAN_RETURN_IF_FAILED(CheckMayCall());
    const InDriverCall call;
    return body(*session);
  });
}

// State of the current context. CUDA_ERROR_CONTEXT_IS_DESTROYED if it was reset, or released as
// often as retained.
inline CUresult CurrentContextState() {
  const Context* const context = ThisThread().contexts.top();
  return context != nullptr ? context->state() : CUDA_ERROR_INVALID_CONTEXT;
}

// Same, after opening the primary context if cudaSetDevice selected it. Since CUDA 12,
// cudaSetDevice itself does this natively. Here it would start a process, so it is deferred to
// first use.
inline CUresult BeginCurrentContext(Session& session) {
  const CUresult state = CurrentContextState();
  if (state != CUDA_ERROR_CONTEXT_IS_DESTROYED) [[likely]]
    return state;
  Context& context = *ThisThread().contexts.top();
  if (!context.used_by_runtime.load(std::memory_order_relaxed)) return state;
  std::shared_ptr<ContextConnection> connection;
  return session.devices().Open(context, &connection);
}

template <typename Body>
CUresult AnswerInContext(Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(BeginCurrentContext(session));
    if constexpr (std::is_invocable_v<Body, Session&>) {
      return body(session);
    } else {
      const std::shared_ptr<ContextConnection> connection =
          session.devices().Opened(*ThisThread().contexts.top());
      if (connection == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
      return body(session, *connection);
    }
  });
}

// Treats a lost device as success, for calls answered by the client alone. Calls needing the device
// report the loss.
inline CUresult ButLost(CUresult result) {
  return result == CUDA_ERROR_DEVICE_UNAVAILABLE ? CUDA_SUCCESS : result;
}

template <typename Body>
CUresult AnswerLocally(Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (CurrentContextState() != CUDA_ERROR_DEVICE_UNAVAILABLE)
      CUSPAN_RETURN_IF_FAILED(BeginCurrentContext(session));
    const std::shared_ptr<ContextConnection> connection =
        session.devices().Opened(*ThisThread().contexts.top());
    if (connection == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return body(session, *connection);
  });
}

template <typename Body>
CUresult AnswerInAny(Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (ThisThread().contexts.top() != nullptr)
      CUSPAN_RETURN_IF_FAILED(BeginCurrentContext(session));
    return body(session);
  });
}

template <typename Body>
CUresult AnswerOnStream(CUstream stream, Body&& body) {
  return IsDefaultStream(stream) ? AnswerInContext(body) : AnswerInAny(body);
}

// answer() → CUresult: one of the above. Host functions may make the call, too, except on a default
// stream.
template <typename Answering>
CUresult InHostFunctionsToo(CUstream stream, Answering&& answer) {
  if (IsDefaultStream(stream)) return answer();
  const HostFunctionMayCall permission;
  return answer();
}
template <typename Answering>
CUresult InHostFunctionsToo(Answering&& answer) {
  const HostFunctionMayCall permission;
  return answer();
}

template <typename Body>
CUresult AnswerFromTables(Body&& body) {
  if (Unloading()) return CUDA_ERROR_DEINITIALIZED;
  Session* const session = Session::IfStarted();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (const Error refused = CheckMayCall(); refused.failed()) return refused.driver();
  return Error(body(*session)).driver();
}

// answer() → CUresult, for launches and fills. If the current context's device is lost, but not yet
// reported to the calling thread, they succeed, as if it were lost a moment later. Libraries
// (cuBLAS, cuDNN) replace a launch's error by a status without text. This way the loss reaches the
// program in a call of its own, or of its framework, together with the message naming the host.
template <typename Answering>
CUresult AnswerUnlessLost(Answering&& answer) {
  constexpr int kMaxLaunchesSinceLoss = 1000;  // Limit for threads without other calls.
  ThreadState& thread = ThisThread();
  const bool heard = thread.loss_reported;
  const CUresult result = answer();
  if (result != CUDA_ERROR_DEVICE_UNAVAILABLE || heard) [[likely]]
    return result;
  // If the device is not lost, another failure caused this error. It is reported only once.
  if (CurrentContextState() != CUDA_ERROR_DEVICE_UNAVAILABLE) return result;
  if (++thread.launches_since_loss > kMaxLaunchesSinceLoss) return result;
  thread.loss_reported = false;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
