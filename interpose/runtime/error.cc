// Last error of the calling thread, and names of errors.
#include <cstdint>
#include <utility>
#include <vector>

#include "interpose/calls/base/error.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/load/load.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

constexpr const char* kNoSuchError = "unrecognized error code";

// Null if only the driver has this error.
const ErrorEntry* FindRuntimeError(cudaError_t error) {
  const ErrorEntry* const entry = FindError(error);
  return entry != nullptr && entry->runtime_name != nullptr ? entry : nullptr;
}

// Last error of the calling thread in the runtime of the code at `caller`. Null if there was none.
ThreadState::LastError* FindLastError(const void* caller) {
  std::vector<ThreadState::LastError>& errors = ThisThread().last_errors;
  if (errors.empty()) [[likely]]
    return nullptr;
  const std::uint64_t runtime = LinkedRuntime(caller);
  for (ThreadState::LastError& last : errors)
    if (last.runtime == runtime) return &last;
  return nullptr;
}

void SetLastError(int error, const void* caller) {
  if (ThreadState::LastError* const last = FindLastError(caller); last != nullptr)
    last->error = error;
  else
    ThisThread().last_errors.push_back({LinkedRuntime(caller), error});
}

}  // namespace

cudaError_t KeepError(Error error, const void* caller) {
  const cudaError_t value = error.runtime();
  if (value != cudaSuccess && value != cudaErrorNotReady) [[unlikely]] {
    SetLastError(value, caller);
    if (value == cudaErrorDevicesUnavailable) ThisThread().loss_reported = true;
  }
  return value;
}

}  // namespace cuspan

// Called by entry points without an implementation (interpose/load).
extern "C" __attribute__((visibility("hidden"))) void cuspan_set_last_error(int error,
                                                                            const void* caller) {
  cuspan::SetLastError(error, caller);
}

CUSPAN_EXPORT cudaError_t cudaGetLastError() {
  cuspan::ThreadState::LastError* const last = cuspan::FindLastError(__builtin_return_address(0));
  return last != nullptr ? static_cast<cudaError_t>(std::exchange(last->error, cudaSuccess))
                         : cudaSuccess;
}

CUSPAN_EXPORT cudaError_t cudaPeekAtLastError() {
  const cuspan::ThreadState::LastError* const last =
      cuspan::FindLastError(__builtin_return_address(0));
  return last != nullptr ? static_cast<cudaError_t>(last->error) : cudaSuccess;
}

CUSPAN_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const cuspan::ErrorEntry* const entry = cuspan::FindRuntimeError(error);
  return entry != nullptr ? entry->runtime_name : cuspan::kNoSuchError;
}

CUSPAN_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const cuspan::ErrorEntry* const entry = cuspan::FindRuntimeError(error);
  return entry != nullptr ? cuspan::TextOf(*entry) : cuspan::kNoSuchError;
}
