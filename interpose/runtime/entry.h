// The way out of every function of the libcudart face: Answer() refuses calls after shutdown and
// keeps failures for cudaGetLastError. The ways in are those of all faces (calls/ways_in.h):
//
//   CUSPAN_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
//     return Answer([&]() -> Error {
//       return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error { … });
//     });
//   }
#pragma once

#include "common/cancellation.h"
#include "interpose/calls/ways_in.h"
#include "interpose/runtime/api.h"

namespace cuspan {

// Keeps a failure as the calling thread's last error in the runtime of the code at `caller`, as
// CUDA does: a success does not clear it, and cudaErrorNotReady is none.
cudaError_t KeepError(Error error, const void* caller);

// Runs the body of an entry point. Its own caller is the program, as long as this is called in the
// entry point itself: a helper between the two is inlined or hands the address on.
template <typename Body>
cudaError_t Answer(Body&& body, const void* caller = __builtin_return_address(0)) {
  const CancellationOff cancellation;
  if (Unloading()) return cudaErrorCudartUnloading;
  return KeepError(body(), caller);
}

// The same for a call that needs nothing of the device and reports a fault in its context.
template <typename Body>
cudaError_t AnswerUnlessFaulted(Body&& body, const void* caller = __builtin_return_address(0)) {
  return Answer([&]() -> Error { return UnlessFaulted(body); }, caller);
}

}  // namespace cuspan
