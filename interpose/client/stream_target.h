// Where an op goes, and what a program's stream 0 means.
#pragma once

#include <cstdint>
#include <memory>

#include "interpose/client/context_connection.h"

namespace cuspan {

// A proxy, and the stream there (0: legacy default stream).
struct StreamTarget {
  std::shared_ptr<ContextConnection> connection;
  std::uint64_t stream = 0;
};

// How a function takes stream 0: as the legacy default stream, or (its _ptds
// and _ptsz twin) as the calling thread's own.
enum class DefaultStream { kLegacy, kPerThread };

}  // namespace cuspan
