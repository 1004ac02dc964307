// Filling device memory.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// Rows of bytes.
struct FillArea {
  void* start;
  std::size_t pitch;  // From one row to the next, in bytes.
  std::size_t width;  // Of a row, in bytes.
  std::size_t rows;
};

// Sets each byte of the area in a stream of the program, which may be capturing where the call is
// asynchronous. CUDA_ERROR_INVALID_VALUE for memory that is not there.
Error Fill(const FillArea& area, int value, bool asynchronous, CUstream stream,
           DefaultStream meaning);

// The same with elements of 1, 2 or 4 bytes, at a multiple of their size, as a node of a graph says
// it.
Error FillElements(const CUDA_MEMSET_NODE_PARAMS& set, bool asynchronous, CUstream stream,
                   DefaultStream meaning);

// Sets rows of elements of 1, 2 or 4 bytes, as a node of a graph says it. CUDA_ERROR_INVALID_VALUE
// for memory that is not there.
Error SetElements(Session& session, const StreamTarget& target, const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace cuspan
