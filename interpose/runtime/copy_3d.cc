// Copies of boxes between memory and arrays, on one device and between two.
#include "interpose/runtime/capture.h"
#include "interpose/runtime/copy_box.h"

namespace cuspan {
namespace {

struct Side3D {
  cudaArray_const_t array;
  cudaPos position;
  cudaPitchedPtr memory;
};

// One side of a copy. `element` is what widths and positions in an array are
// counted in, and 1 where no array takes part.
Error SideOf(Session& session, const Side3D& side, std::size_t width, const cudaExtent& extent,
             Session::BoxSide* out) {
  const cudaPos& at = side.position;
  if (side.array != nullptr) {
    std::shared_ptr<const Array> array;
    CUSPAN_RETURN_IF_FAILED(FindArray(session, side.array, &array));
    const std::size_t element = array->element_bytes();
    *out = ArraySide(std::move(array), at.x * element, at.y, at.z);
    return cudaSuccess;
  }
  const cudaPitchedPtr& memory = side.memory;
  if (memory.ptr == nullptr) return cudaErrorInvalidValue;
  std::size_t row_end = 0;
  if (__builtin_add_overflow(at.x, width, &row_end)) return cudaErrorInvalidValue;
  if (row_end > memory.pitch && (extent.height > 1 || extent.depth > 1 || at.y > 0 || at.z > 0))
    return cudaErrorInvalidPitchValue;
  if (extent.depth > 1 || at.z > 0) {
    // The planes must not overlap.
    if (extent.height > memory.ysize || at.y > memory.ysize - extent.height)
      return cudaErrorInvalidValue;
  }
  std::size_t offset = 0;
  if (__builtin_mul_overflow(at.z, memory.ysize, &offset) ||
      __builtin_add_overflow(offset, at.y, &offset) ||
      __builtin_mul_overflow(offset, memory.pitch, &offset) ||
      __builtin_add_overflow(offset, at.x, &offset)) {
    return cudaErrorInvalidValue;
  }
  *out = MemorySide(static_cast<const std::byte*>(memory.ptr) + offset, memory.pitch, memory.ysize);
  return cudaSuccess;
}

// Exactly one of the two names a side.
bool NamesOneSide(const Side3D& side) {
  return (side.array != nullptr) != (side.memory.ptr != nullptr);
}

struct Copy3DCall {
  Side3D destination;
  Side3D source;
  cudaExtent extent;  // Elements of the array where one takes part, otherwise bytes.
  cudaMemcpyKind kind;
  bool asynchronous;
  int destination_device = -1;
  int source_device = -1;
};

// Fills in `copy`; its extent has no bytes when there is nothing to do.
Error Prepare(Session& session, const Copy3DCall& call, Session::BoxCopy* copy) {
  CUSPAN_RETURN_IF_FAILED(SidesOf(call.kind, &copy->sides));
  if (!NamesOneSide(call.destination) || !NamesOneSide(call.source)) return cudaErrorInvalidValue;
  std::size_t element = 1;
  for (const Side3D* side : {&call.source, &call.destination}) {
    if (side->array == nullptr) continue;
    std::shared_ptr<const Array> array;
    CUSPAN_RETURN_IF_FAILED(FindArray(session, side->array, &array));
    // Two arrays must have elements of one size.
    if (element != 1 && element != array->element_bytes()) return cudaErrorInvalidValue;
    element = array->element_bytes();
  }
  std::size_t width = 0;
  if (__builtin_mul_overflow(call.extent.width, element, &width)) return cudaErrorInvalidValue;
  copy->extent = {width, call.extent.height, call.extent.depth};
  if (width == 0 || call.extent.height == 0 || call.extent.depth == 0) return cudaSuccess;
  copy->asynchronous = call.asynchronous;
  copy->destination_device = call.destination_device;
  copy->source_device = call.source_device;
  CUSPAN_RETURN_IF_FAILED(
      SideOf(session, call.destination, width, call.extent, &copy->destination));
  return SideOf(session, call.source, width, call.extent, &copy->source);
}

Copy3DCall CallOf(const cudaMemcpy3DParms& p, bool asynchronous) {
  return {{p.dstArray, p.dstPos, p.dstPtr},
          {p.srcArray, p.srcPos, p.srcPtr},
          p.extent,
          p.kind,
          asynchronous};
}

Error Copy3DOn(Session& session, const StreamTarget& target, const Copy3DCall& call) {
  Session::BoxCopy copy{};
  CUSPAN_RETURN_IF_FAILED(Prepare(session, call, &copy));
  return CopyBoxOn(session, copy, target);
}

Error Copy3D(const cudaMemcpy3DParms* parameters, bool asynchronous, cudaStream_t stream,
             DefaultStream meaning) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const auto copy = [&](Session& session, const StreamTarget& target) {
    return Copy3DOn(session, target, CallOf(*parameters, asynchronous));
  };
  if (!asynchronous) return OnStream(stream, meaning, copy);
  return InStream(stream, meaning, copy,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    Session::BoxCopy described;
                    CUSPAN_RETURN_IF_FAILED(DescribeBox(session, *parameters, &described));
                    *work = CopyWork{*parameters};
                    return cudaSuccess;
                  });
}

Error Copy3DPeer(const cudaMemcpy3DPeerParms* parameters, bool asynchronous, cudaStream_t stream,
                 DefaultStream meaning) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const cudaMemcpy3DPeerParms& p = *parameters;
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    const auto is_device = [&](int device) {
      return device >= 0 && device < session.device_count();
    };
    return is_device(p.dstDevice) && is_device(p.srcDevice) ? cudaSuccess : cudaErrorInvalidDevice;
  }));
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) {
    return Copy3DOn(session, target,
                    {{p.dstArray, p.dstPos, p.dstPtr},
                     {p.srcArray, p.srcPos, p.srcPtr},
                     p.extent,
                     cudaMemcpyDeviceToDevice,
                     asynchronous,
                     p.dstDevice,
                     p.srcDevice});
  });
}

}  // namespace

Error CopyBox(Session& session, const StreamTarget& target, const cudaMemcpy3DParms& parameters) {
  return Copy3DOn(session, target, CallOf(parameters, true));
}

Error DescribeBox(Session& session, const cudaMemcpy3DParms& parameters, Session::BoxCopy* copy) {
  *copy = {};
  return Prepare(session, CallOf(parameters, true), copy);
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* parameters),
                    Answer([&] { return Copy3D(parameters, false, nullptr, meaning); }))

CUSPAN_EXPORT_TWINS(cudaMemcpy3DAsync, _ptsz,
                    (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
                    Answer([&] { return Copy3D(parameters, true, stream, meaning); }))

CUSPAN_EXPORT_TWINS(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* parameters),
                    Answer([&] { return Copy3DPeer(parameters, false, nullptr, meaning); }))

CUSPAN_EXPORT_TWINS(cudaMemcpy3DPeerAsync, _ptsz,
                    (const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream),
                    Answer([&] { return Copy3DPeer(parameters, true, stream, meaning); }))
