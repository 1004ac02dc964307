// Copies of one contiguous range.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Copies in `target`. CUDA_ERROR_INVALID_VALUE for null pointers and invalid ranges.
Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, CopySides sides, bool asynchronous);

// Same in a stream of the program. If `asynchronous`, the stream may be capturing.
Error Copy(void* destination, const void* source, std::size_t bytes, CopySides sides,
           bool asynchronous, CUstream stream, DefaultStream meaning);

// A copy between two devices.
struct PeerCopy {
  void* destination;
  int destination_device;
  const void* source;
  int source_device;
  std::size_t bytes;
};
Error CopyPeer(const PeerCopy& copy, bool asynchronous, CUstream stream, DefaultStream meaning);

}  // namespace cuspan
