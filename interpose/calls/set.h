// Setting device memory to a value.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Rows of bytes.
struct FillArea {
  void* start;
  std::size_t pitch;  // Bytes from row to row.
  std::size_t width;  // Bytes per row.
  std::size_t rows;
};

// Sets each byte of the area, in a stream of the program. If `asynchronous`, the stream may be
// capturing. CUDA_ERROR_INVALID_VALUE for invalid memory.
Error Fill(const FillArea& area, int value, bool asynchronous, CUstream stream,
           DefaultStream meaning);

// Same with elements of 1, 2 or 4 bytes, aligned to their size, described as for a graph node.
Error FillElements(const CUDA_MEMSET_NODE_PARAMS& set, bool asynchronous, CUstream stream,
                   DefaultStream meaning);

// Sets rows of elements of 1, 2 or 4 bytes, described as for a graph node. CUDA_ERROR_INVALID_VALUE
// for invalid memory.
Error SetElements(Session& session, const StreamTarget& target, const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace cuspan
