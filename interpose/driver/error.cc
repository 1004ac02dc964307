// Names and descriptions of errors.
#include "interpose/calls/base/error.h"

#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  return AnswerAlways([&]() -> Error {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ErrorEntry* const entry = FindError(static_cast<int>(error));
    *name = entry != nullptr ? entry->driver_name : nullptr;
    return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUSPAN_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  return AnswerAlways([&]() -> Error {
    if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ErrorEntry* const entry = FindError(static_cast<int>(error));
    *text = entry != nullptr && entry->driver_name != nullptr ? TextOf(*entry) : nullptr;
    return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
