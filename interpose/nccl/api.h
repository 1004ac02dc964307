// How this library defines NCCL's functions. Their parameters are NCCL's, with numbers in place of
// its enumerations (protocol/nccl/nccl.h).
#pragma once

#include <cstddef>

#include "protocol/nccl/nccl.h"

// In front of every definition that programs call.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// ncclComm_t.
struct ncclComm;  // NOLINT(readability-identifier-naming): the name is NCCL's.
