// The ways in and out of every function of the libcuda face. What a function needs decides how it
// begins:
//
//   AnswerAlways(body)       nothing: body() → Error
//   AnswerWithDriver(body)   cuInit, or a runtime that has done the same: body(Session&) → Error
//   AnswerInContext(body)    a current context that lives: body(Session&, Link&) → Error
//
// A body may call what is in calls/: the current context is then open.
#pragma once

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
  return Error(body()).driver();
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

template <typename Body>
CUresult AnswerInContext(Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    const Context* const context = ThisThread().contexts.top();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const std::shared_ptr<Link> link = session.devices().Opened(*context);
    // Reset, or released by all who retained it.
    if (link == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const CUresult lost = link->fault(); lost != CUDA_SUCCESS) return lost;
    return body(session, *link);
  });
}

}  // namespace cuspan
