// Macros to define NCCL's functions. The parameters are NCCL's, with integers instead of its
// enumerations (protocol/nccl/nccl.h).
#pragma once

#include <cstddef>

#include "protocol/nccl/nccl.h"

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

// ncclComm_t.
struct ncclComm;  // NOLINT(readability-identifier-naming): the name is NCCL's.
