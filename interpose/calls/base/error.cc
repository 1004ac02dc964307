#include "interpose/calls/base/error.h"

#include <algorithm>
#include <iterator>

#include "interpose/client/session.h"

namespace cuspan {
namespace {

// Sorted by number.
constexpr ErrorEntry kEntries[] = {
#define CUSPAN_CUDA_ERROR(number, runtime, driver, text) \
  {number, #runtime, #driver, static_cast<CUresult>(number), text},
#define CUSPAN_RUNTIME_ERROR(number, runtime, answer, text) \
  {number, #runtime, nullptr, answer, text},
#define CUSPAN_DRIVER_ERROR(number, driver, text) \
  {number, nullptr, #driver, static_cast<CUresult>(number), text},
#include "common/cuda_errors.def"
#undef CUSPAN_CUDA_ERROR
#undef CUSPAN_RUNTIME_ERROR
#undef CUSPAN_DRIVER_ERROR
};

constexpr bool ByNumber(const ErrorEntry& a, const ErrorEntry& b) { return a.number < b.number; }
static_assert(std::is_sorted(std::begin(kEntries), std::end(kEntries), ByNumber));

}  // namespace

const ErrorEntry* FindError(int number) {
  const auto* const found =
      std::lower_bound(std::begin(kEntries), std::end(kEntries), number,
                       [](const ErrorEntry& entry, int wanted) { return entry.number < wanted; });
  return found != std::end(kEntries) && found->number == number ? found : nullptr;
}

const char* TextOf(const ErrorEntry& entry) {
  if (entry.number != CUDA_ERROR_DEVICE_UNAVAILABLE) return entry.text;
  Session* const session = Session::IfStarted();
  const char* const lost = session != nullptr ? session->devices().lost_text() : nullptr;
  return lost != nullptr ? lost : entry.text;
}

cudaError_t Error::ToRuntime(int number) {
  const ErrorEntry* const entry = FindError(number);
  return entry != nullptr && entry->runtime_name != nullptr ? static_cast<cudaError_t>(number)
                                                            : cudaErrorUnknown;
}

CUresult Error::ToDriver(int number) {
  const ErrorEntry* const entry = FindError(number);
  return entry != nullptr ? entry->driver : CUDA_ERROR_UNKNOWN;
}

}  // namespace cuspan
