// Wrapper around every function of the libcudart replacement: Answer() returns an error after
// shutdown, and stores failures for cudaGetLastError. Wrappers for the arguments are common to all
// replaced libraries (calls/base/ways_in.h):
//
//   CUSPAN_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
//     return Answer([&]() -> Error {
//       return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error { … });
//     });
//   }
#pragma once

#include "common/cancellation.h"
#include "interpose/calls/base/ways_in.h"
#include "interpose/runtime/api.h"

namespace cuspan {

// Stores a failure as the calling thread's last error, in the runtime of the code at `caller`. As
// in CUDA, a success does not clear it, and cudaErrorNotReady is not stored.
cudaError_t KeepError(Error error, const void* caller);

// Runs the body of an entry point. The default of `caller` is only right if the entry point itself
// calls this function. Helpers in between must be inlined or pass the address on.
template <typename Body>
cudaError_t Answer(Body&& body, const void* caller = __builtin_return_address(0)) {
  const CancellationOff cancellation;
  if (Unloading()) return cudaErrorCudartUnloading;
  return KeepError(body(), caller);
}

// Same, for calls not needing the device but reporting a fault in its context.
template <typename Body>
cudaError_t AnswerUnlessFaulted(Body&& body, const void* caller = __builtin_return_address(0)) {
  return Answer([&]() -> Error { return UnlessFaulted(body); }, caller);
}

}  // namespace cuspan
