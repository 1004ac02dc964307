// Destination of an op, and the meaning of the program's stream 0.
#pragma once

#include <cstdint>
#include <memory>

#include "interpose/client/context_connection.h"

namespace cuspan {

// A proxy and a stream there (0: legacy default stream).
struct StreamTarget {
  std::shared_ptr<ContextConnection> connection;
  std::uint64_t stream = 0;
};

// Meaning of stream 0 for a function: the legacy default stream, or (_ptds and _ptsz variants) the
// calling thread's own.
enum class DefaultStream { kLegacy, kPerThread };

}  // namespace cuspan
