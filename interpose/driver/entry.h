// The ways in and out of every function of the libcuda face. What a function needs decides how it
// begins:
//
//   AnswerAlways(body)       nothing: body() → Error
//   AnswerWithDriver(body)   cuInit, or a runtime that has done the same: body(Session&) → Error
//   AnswerInContext(body)    a current context that lives: body(Session&) → Error, or
//                            body(Session&, ContextConnection&) → Error
//   AnswerInAny(body)        as AnswerInContext, but none need be current: what the call names says
//                            which context it is about
//   AnswerOnStream(s, body)  AnswerInContext for a default stream, AnswerInAny for others
//   AnswerOfKnown(body)      as AnswerInContext, for what the client knows: the device may be lost
//   AnswerFromTables(body)   as AnswerWithDriver, for what programs ask thousands of times
//   AnswerUnlessLost(answer) one of the above, for kernels and fills that nobody waits for
//   InHostFunctionsToo(answer) one of the above, for calls that host functions may make
//
// A body may call what is in calls/: the current context is then open. That of AnswerFromTables
// only looks into tables of the session: nothing on its way may wait or write, be a point of
// cancellation, or take the device as the runtime's.
#pragma once

#include <type_traits>

#include "common/cancellation.h"
#include "interpose/calls/ways_in.h"
#include "interpose/driver/api.h"

namespace cuspan {

// While it lives, the calling thread has come through the driver's functions.
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
    ThisThread().heard_of_loss = true;
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

// Of the current context; CUDA_ERROR_CONTEXT_IS_DESTROYED when it was reset, or released by all who
// retained it.
inline CUresult CurrentContextState() {
  const Context* const context = ThisThread().contexts.top();
  return context != nullptr ? context->state() : CUDA_ERROR_INVALID_CONTEXT;
}

// The same when it has begun, as it does here where cudaSetDevice has chosen it: since CUDA 12 that
// begins the primary context, for which here a process would start.
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

// For what the client answers itself: that a device is lost is told by who needs it.
inline CUresult ButLost(CUresult result) {
  return result == CUDA_ERROR_DEVICE_UNAVAILABLE ? CUDA_SUCCESS : result;
}

template <typename Body>
CUresult AnswerOfKnown(Body&& body) {
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

// answer() → CUresult, one of the above. Host functions may make the call, too, unless it is about
// a default stream.
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

// answer() → CUresult. To a thread that has not heard of a lost device yet, the first work on that
// of its current context succeeds, as work does of which the device was lost a moment later.
// Libraries (cuBLAS, cuDNN) make a status of their own of a launch's error, which has no words: so
// the program hears of the loss from a call of its own, or of its framework's, and finds the
// sentence that names the host.
template <typename Answering>
CUresult AnswerUnlessLost(Answering&& answer) {
  constexpr int kMaxUnheard = 1000;  // Of one who does nothing else.
  ThreadState& thread = ThisThread();
  const bool heard = thread.heard_of_loss;
  const CUresult result = answer();
  if (result != CUDA_ERROR_DEVICE_UNAVAILABLE || heard) [[likely]]
    return result;
  // Of a device that lives it is the failure of something else, which is told once.
  if (CurrentContextState() != CUDA_ERROR_DEVICE_UNAVAILABLE) return result;
  if (++thread.launches_unheard > kMaxUnheard) return result;
  thread.heard_of_loss = false;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
