// The way in and out of every function of the libcudart face: Answer() refuses
// calls after shutdown and keeps failures for cudaGetLastError; between
// them WithSession, OnCurrentDevice and OnStream give a body what it works on.
//
//   CUSPAN_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
//     return Answer([&]() -> Error {
//       return OnCurrentDevice([&](Session&, Link& link) -> Error { … });
//     });
//   }
#pragma once

#include <cuda.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "interpose/client/cancellation.h"
#include "interpose/client/session.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/api.h"

namespace cuspan {

// A result of the runtime, made from one of its own or one of the driver's.
class [[nodiscard]] Error {
 public:
  Error(cudaError_t error) : value_(error) {}             // NOLINT: implicit by design
  Error(CUresult result) : value_(FromDriver(result)) {}  // NOLINT: the same
  bool failed() const { return value_ != cudaSuccess; }
  cudaError_t value() const { return value_; }

 private:
  // The two enumerations agree in their numbers; what only the driver has is cudaErrorUnknown.
  static cudaError_t FromDriver(CUresult result);
  cudaError_t value_;
};

// Leaves the enclosing function, which returns an Error, when `expression` failed.
#define CUSPAN_RETURN_IF_FAILED(expression)                                          \
  do {                                                                               \
    if (const ::cuspan::Error error_ = (expression); error_.failed()) return error_; \
  } while (false)

// True when this library's part of the process has ended.
bool Unloading();

// Keeps a failure as the calling thread's last error, as CUDA does: a success
// does not clear it, and cudaErrorNotReady is none.
cudaError_t KeepError(Error error);

// cudaErrorNotSupported, said once per `what` ("cudaLaunchKernelExC with attribute 4").
Error NotSupported(std::string_view what);

// --- Stream capture (capture.cc). What a call that no graph can hold does to a capture: ends it,
// with the error returned; cudaSuccess where none is concerned.
extern constinit std::atomic<int> captures_active;
inline bool AnyCapture() { return captures_active.load(std::memory_order_acquire) != 0; }
Error RefuseCapture(Session& session, const StreamTarget& target);
Error RefuseCaptureOnDevice(Session& session, int device);

// Runs the body of an entry point.
template <typename Body>
cudaError_t Answer(Body&& body) {
  const CancellationOff cancellation;
  if (Unloading()) return cudaErrorCudartUnloading;
  return KeepError(body());
}

// What runs in a stream's order must not wait for one, and may call nothing that could.
inline Error CheckMayCall() {
  return ThisThread().in_host_call ? cudaErrorNotPermitted : cudaSuccess;
}

// body(Session&) → Error.
template <typename Body>
Error WithSession(Body&& body) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  CUresult result = CUDA_SUCCESS;
  Session* const session = Session::Get(&result);
  if (session == nullptr) return result;
  return body(*session);
}

// body(Session&, Link&) → Error, with the proxy of the thread's current device.
template <typename Body>
Error OnCurrentDevice(Body&& body) {
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<Link> link;
    CUSPAN_RETURN_IF_FAILED(session.CurrentLink(&link));
    return body(session, *link);
  });
}

// body(Session&, const StreamTarget&) → Error. When the body worked, the
// failure of an op that this thread posted earlier is returned instead. For
// calls that can not be captured; see capture.h for the others.
template <typename Body>
Error OnStream(cudaStream_t stream, DefaultStream meaning, Body&& body) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.ResolveStream(stream, meaning, &target));
    if (AnyCapture()) [[unlikely]] {
      CUSPAN_RETURN_IF_FAILED(RefuseCapture(session, target));
    }
    CUSPAN_RETURN_IF_FAILED(body(session, target));
    return target.link->TakePostedFailure();
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
