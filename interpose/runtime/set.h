// Filling device memory.
#pragma once

#include "interpose/runtime/entry.h"

namespace cuspan {

// Sets rows of elements of 1, 2 or 4 bytes, as a node of a graph says it. cudaErrorInvalidValue for
// memory that is not there.
Error SetElements(Session& session, const StreamTarget& target, const cudaMemsetParams& set);

}  // namespace cuspan
