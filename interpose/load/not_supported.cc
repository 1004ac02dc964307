#include "interpose/load/not_supported.h"

#include <atomic>

#include "common/cancellation.h"
#include "common/log.h"
#include "common/strict.h"
#include "interpose/load/exports.h"

namespace cuspan::load {
namespace {

constexpr int kCudaErrorNotSupported = 801;

// One flag per export, in table order. Larger than the table will ever be.
constexpr std::size_t kMarks = 1024;
constinit std::atomic<bool> named[kMarks] = {};

bool FirstTime(const char* name) {
  const std::size_t index = RuntimeExports().Find(name);
  return index >= kMarks || !named[index].exchange(true, std::memory_order_relaxed);
}

}  // namespace
}  // namespace cuspan::load

int cuspan_not_supported(const char* name, const void* caller) {
  const cuspan::CancellationOff cancellation;
  if (cuspan::load::FirstTime(name)) {
    cuspan::LogError("{} is not supported yet; the call returns cudaErrorNotSupported", name);
  }
  cuspan::EndIfStrict();
  if (cuspan_set_last_error != nullptr) {
    cuspan_set_last_error(cuspan::load::kCudaErrorNotSupported, caller);
  }
  return cuspan::load::kCudaErrorNotSupported;
}
