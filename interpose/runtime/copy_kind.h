// The directions of copies.
#pragma once

#include "interpose/calls/copy.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

// cudaErrorInvalidMemcpyDirection when `kind` is none.
Error SidesOf(cudaMemcpyKind kind, CopySides* sides);

}  // namespace cuspan
