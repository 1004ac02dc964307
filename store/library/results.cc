#include "store/library/results.h"

namespace cuspan::store {
namespace {

struct Pair {
  StatusCode code;
  int result;
};
constexpr Pair kPairs[] = {{StatusCode::kInvalid, CUSPAN_STORE_INVALID_VALUE},
                           {StatusCode::kNotFound, CUSPAN_STORE_INVALID_FILE},
                           {StatusCode::kRefused, CUSPAN_STORE_NOT_PERMITTED},
                           {StatusCode::kUnavailable, CUSPAN_STORE_DEVICE},
                           {StatusCode::kUnsupported, CUSPAN_STORE_NOT_SUPPORTED}};

}  // namespace

int ResultOf(const Status& status) {
  if (status.ok()) return CUSPAN_STORE_SUCCESS;
  for (const Pair& pair : kPairs)
    if (pair.code == status.code()) return pair.result;
  return CUSPAN_STORE_SYSTEM;
}

Status StatusOf(int result, const char* problem) {
  if (result == CUSPAN_STORE_SUCCESS) return Status::Ok();
  for (const Pair& pair : kPairs)
    if (pair.result == result) return {pair.code, problem};
  return {StatusCode::kInternal, problem};
}

}  // namespace cuspan::store
