// Copies of boxes between memory and arrays, on one device and between two.
#pragma once

#include "interpose/calls/copy.h"

namespace cuspan {

// One side as the program names it: looked up when the copy is made.
struct BoxEnd {
  std::uint64_t array = 0;            // Its handle; 0: memory.
  void* pointer = nullptr;            // Of memory: where its first row starts.
  std::uint64_t pitch = 0;            // Of memory: bytes from one row to the next,
  std::uint64_t plane_rows = 0;       // and rows from one plane to the next.
  std::uint64_t x = 0, y = 0, z = 0;  // Where the box starts: bytes, rows, planes.
};
struct BoxRequest {
  BoxEnd destination;
  BoxEnd source;
  BoxExtent extent;
  CopySides sides = CopySides::kDefault;
  int destination_device = -1;  // Both ≥ 0 for a peer copy; -1: what the pointers say.
  int source_device = -1;
};

// The array behind a handle. CUDA_ERROR_INVALID_HANDLE when there is none.
Error FindArray(Session& session, std::uint64_t array, std::shared_ptr<const Array>* found);

// A copy of one run of bytes, said as a copy of a box.
BoxRequest BoxOfRun(void* destination, const void* source, std::size_t bytes, CopySides sides);

// The copy that is asked for, when it makes sense; what it points to is checked when it is used.
// Its extent has no bytes when there is nothing to do.
Error DescribeBox(Session& session, const BoxRequest& request, bool asynchronous, BoxCopy* copy);

// Makes it on `target`, wherever the sides lie.
Error CopyBox(Session& session, const StreamTarget& target, const BoxRequest& request,
              bool asynchronous);

}  // namespace cuspan
