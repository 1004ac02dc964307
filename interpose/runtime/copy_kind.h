// Directions of copies.
#pragma once

#include "interpose/calls/copy.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

// cudaErrorInvalidMemcpyDirection if `kind` is invalid.
Error SidesOf(cudaMemcpyKind kind, CopySides* sides);

}  // namespace cuspan
