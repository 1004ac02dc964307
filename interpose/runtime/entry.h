// The way out of every function of the libcudart face: Answer() refuses calls after shutdown and
// keeps failures for cudaGetLastError. The ways in are those of all faces (calls/ways_in.h):
//
//   CUSPAN_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
//     return Answer([&]() -> Error {
//       return OnCurrentDevice([&](Session&, Link& link) -> Error { … });
//     });
//   }
#pragma once

#include "common/cancellation.h"
#include "interpose/calls/ways_in.h"
#include "interpose/runtime/api.h"

namespace cuspan {

// Keeps a failure as the calling thread's last error, as CUDA does: a success
// does not clear it, and cudaErrorNotReady is none.
cudaError_t KeepError(Error error);

// Whether there is a device of this number.
inline bool HasDevice(const Session& session, int device) {
  return device >= 0 && device < session.devices().count();
}

// Runs the body of an entry point.
template <typename Body>
cudaError_t Answer(Body&& body) {
  const CancellationOff cancellation;
  if (Unloading()) return cudaErrorCudartUnloading;
  return KeepError(body());
}

}  // namespace cuspan
