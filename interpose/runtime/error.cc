// The calling thread's last error, and what errors are called.
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "common/log.h"
#include "common/strict.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/error_table.h"

namespace cuspan {
namespace {

constinit std::atomic<bool> unloading{false};

// Static objects of the program may call us after this; everything of ours is
// still there, but the process is about to end.
__attribute__((destructor)) void BeginUnloading() {
  unloading.store(true, std::memory_order_relaxed);
}

constexpr const char* kNoSuchError = "unrecognized error code";

}  // namespace

bool Unloading() { return unloading.load(std::memory_order_relaxed); }

cudaError_t Error::FromDriver(CUresult result) {
  if (result == CUDA_SUCCESS) [[likely]] {
    return cudaSuccess;
  }
  const ErrorEntry* const entry = FindError(result);
  return entry != nullptr ? entry->error : cudaErrorUnknown;
}

cudaError_t KeepError(Error error) {
  if (error.failed() && error.value() != cudaErrorNotReady) [[unlikely]] {
    ThisThread().last_error = error.value();
  }
  return error.value();
}

Error NotSupported(std::string_view what) {
  static auto* const mutex = new std::mutex;
  static auto* const named = new std::set<std::string, std::less<>>;
  {
    std::lock_guard lock(*mutex);
    if (named->find(what) != named->end()) return cudaErrorNotSupported;
    named->emplace(what);
  }
  LogError("{} is not supported yet; the call returns cudaErrorNotSupported", what);
  EndIfStrict();
  return cudaErrorNotSupported;
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
  const cuspan::ErrorEntry* const entry = cuspan::FindError(error);
  return entry != nullptr ? entry->name : cuspan::kNoSuchError;
}

CUSPAN_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const cuspan::ErrorEntry* const entry = cuspan::FindError(error);
  return entry != nullptr ? entry->text : cuspan::kNoSuchError;
}
