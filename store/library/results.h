// Results of the C functions, CUSPAN_STORE_…, and their reasons.
#pragma once

#include "common/status.h"
#include "include/cuspan/store.h"

namespace cuspan::store {

// Codes of failures in this folder: kInvalid is INVALID_VALUE, kNotFound INVALID_FILE, kRefused
// NOT_PERMITTED, kUnavailable DEVICE, kUnsupported NOT_SUPPORTED, others SYSTEM.
int ResultOf(const Status& status);
// The reverse, for results of libcuspan.so.
Status StatusOf(int result, const char* problem);

}  // namespace cuspan::store
