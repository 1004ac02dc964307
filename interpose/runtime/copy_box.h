// What the copies of rows and planes have in common.
#pragma once

#include "interpose/runtime/copy_kind.h"

namespace cuspan {

// The array behind a handle. cudaErrorInvalidResourceHandle when there is none.
Error FindArray(Session& session, cudaArray_const_t array, std::shared_ptr<const Array>* found);

// The place in a variable on the current device, when [offset, offset + bytes) lies inside
// (copy_symbol.cc); cudaErrorInvalidSymbol or cudaErrorInvalidValue when not.
Error PlaceInVariable(Session& session, const void* symbol, std::size_t offset, std::size_t bytes,
                      std::byte** place);

// A copy of one run of bytes, said as a copy of a box.
cudaMemcpy3DParms ParametersOfRun(void* destination, const void* source, std::size_t bytes,
                                  cudaMemcpyKind kind);

// cudaMemcpy3DAsync on `target`, wherever the sides lie (copy_3d.cc).
Error CopyBox(Session& session, const StreamTarget& target, const cudaMemcpy3DParms& parameters);

// The copy that the parameters describe, when they make sense; what they point to is checked when
// they are used. Its extent has no bytes when there is nothing to do.
Error DescribeBox(Session& session, const cudaMemcpy3DParms& parameters, Session::BoxCopy* copy);

// A side in memory: rows a pitch apart.
inline Session::BoxSide MemorySide(const void* pointer, std::size_t pitch, std::size_t plane_rows) {
  Session::BoxSide side;
  side.pointer = pointer;
  side.pitch = pitch;
  side.plane_rows = plane_rows;
  return side;
}

inline Error CopyBoxOn(Session& session, const Session::BoxCopy& copy, const StreamTarget& target) {
  CUSPAN_RETURN_IF_FAILED(session.CopyBox(copy, target));
  // What came before it in its stream is complete, too.
  if (!copy.asynchronous) session.shared().registered().Synchronized();
  return cudaSuccess;
}

// A side in an array: x in bytes.
inline Session::BoxSide ArraySide(std::shared_ptr<const Array> array, std::size_t x, std::size_t y,
                                  std::size_t z) {
  Session::BoxSide side;
  side.array = std::move(array);
  side.x = x;
  side.y = y;
  side.z = z;
  return side;
}

}  // namespace cuspan
