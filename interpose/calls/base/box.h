// Descriptions of copies of boxes between memory and arrays, as given by the program.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// One side as given by the program; resolved when the copy is made.
struct BoxEnd {
  std::uint64_t array = 0;            // Handle; 0: memory.
  void* pointer = nullptr;            // Memory: address of the first row.
  std::uint64_t pitch = 0;            // Memory: bytes from row to row.
  std::uint64_t plane_rows = 0;       // Memory: rows from plane to plane.
  std::uint64_t x = 0, y = 0, z = 0;  // Start of the box: bytes, rows, planes.
};
struct BoxRequest {
  BoxEnd destination;
  BoxEnd source;
  BoxExtent extent;
  CopySides sides = CopySides::kDefault;
  int destination_device = -1;  // Both ≥ 0 for a peer copy; -1: from the pointers.
  int source_device = -1;
};

// Finds the array. CUDA_ERROR_INVALID_HANDLE if it is unknown or mipmapped.
Error FindArray(Session& session, std::uint64_t array, std::shared_ptr<const Array>* found);

// Describes a copy of a contiguous range as a copy of a box.
BoxRequest BoxOfRun(void* destination, const void* source, std::size_t bytes, CopySides sides);

// Checks the request and converts it to a copy. Memory ranges are checked when the copy is made. If
// nothing is to be copied, the extent has no bytes.
Error DescribeBox(Session& session, const BoxRequest& request, bool asynchronous, BoxCopy* copy);

}  // namespace cuspan
