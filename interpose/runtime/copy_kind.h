// The directions of copies.
#pragma once

#include "interpose/runtime/entry.h"

namespace cuspan {

// cudaErrorInvalidMemcpyDirection when `kind` is none.
Error SidesOf(cudaMemcpyKind kind, Session::CopyRequest::Sides* sides);

// A copy of one run of bytes between what the pointers say, for a call on
// `target`. cudaErrorInvalidValue for null pointers and extents that are not there.
Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, cudaMemcpyKind kind, bool asynchronous);

}  // namespace cuspan
