// The calling thread's last error, and what errors are called.
#include <utility>

#include "interpose/calls/error.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

constexpr const char* kNoSuchError = "unrecognized error code";

// Null for what only the driver has, too.
const ErrorEntry* FindRuntimeError(cudaError_t error) {
  const ErrorEntry* const entry = FindError(error);
  return entry != nullptr && entry->runtime_name != nullptr ? entry : nullptr;
}

}  // namespace

cudaError_t KeepError(Error error) {
  const cudaError_t value = error.runtime();
  if (value != cudaSuccess && value != cudaErrorNotReady) [[unlikely]] {
    ThisThread().last_error = value;
    if (value == cudaErrorDevicesUnavailable) ThisThread().heard_of_loss = true;
  }
  return value;
}

}  // namespace cuspan

// For the entry points that are not implemented, which live in interpose/load.
extern "C" __attribute__((visibility("hidden"))) void cuspan_set_last_error(int error) {
  cuspan::ThisThread().last_error = error;
}

CUSPAN_EXPORT cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(std::exchange(cuspan::ThisThread().last_error, cudaSuccess));
}

CUSPAN_EXPORT cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(cuspan::ThisThread().last_error);
}

CUSPAN_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const cuspan::ErrorEntry* const entry = cuspan::FindRuntimeError(error);
  return entry != nullptr ? entry->runtime_name : cuspan::kNoSuchError;
}

CUSPAN_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const cuspan::ErrorEntry* const entry = cuspan::FindRuntimeError(error);
  return entry != nullptr ? cuspan::TextOf(*entry) : cuspan::kNoSuchError;
}
