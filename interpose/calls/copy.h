// Copies of one run of bytes.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// For a call on `target`. CUDA_ERROR_INVALID_VALUE for null pointers and extents that are not
// there.
Error CopyBytes(Session& session, const StreamTarget& target, void* destination, const void* source,
                std::size_t bytes, CopySides sides, bool asynchronous);

// The same in a stream of the program, which may be capturing where the call is asynchronous.
Error Copy(void* destination, const void* source, std::size_t bytes, CopySides sides,
           bool asynchronous, CUstream stream, DefaultStream meaning);

// Between two devices.
struct PeerCopy {
  void* destination;
  int destination_device;
  const void* source;
  int source_device;
  std::size_t bytes;
};
Error CopyPeer(const PeerCopy& copy, bool asynchronous, CUstream stream, DefaultStream meaning);

}  // namespace cuspan
