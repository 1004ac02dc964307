// Copies of boxes between memory and arrays, on one device and between two.
#include "interpose/runtime/copy_box.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {
namespace {

struct Side3D {
  cudaArray_const_t array;
  cudaPos position;
  cudaPitchedPtr memory;
};

// True if the side has exactly one of array and memory.
bool NamesOneSide(const Side3D& side) {
  return (side.array != nullptr) != (side.memory.ptr != nullptr);
}

// `element`: unit of positions in an array, in bytes.
BoxEnd EndOf(const Side3D& side, std::size_t element) {
  BoxEnd end;
  const cudaPos& at = side.position;
  end.y = at.y;
  end.z = at.z;
  if (side.array != nullptr) {
    end.array = NumberOf(side.array);
    end.x = at.x * element;
    return end;
  }
  end.pointer = side.memory.ptr;
  end.pitch = side.memory.pitch;
  end.plane_rows = side.memory.ysize;
  end.x = at.x;
  return end;
}

// Bytes of an array's element. 1 for memory.
Error ElementOf(Session& session, const Side3D& side, std::size_t* bytes) {
  *bytes = 1;
  if (side.array == nullptr) return cudaSuccess;
  std::shared_ptr<const Array> array;
  CUSPAN_RETURN_IF_FAILED(FindArray(session, NumberOf(side.array), &array));
  *bytes = array->element_bytes();
  return cudaSuccess;
}

// Unit of `extent`: elements of the array if one is involved, otherwise bytes.
Error BoxBetween(Session& session, const Side3D& destination, const Side3D& source,
                 const cudaExtent& extent, cudaMemcpyKind kind, BoxRequest* box) {
  *box = {};
  CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &box->sides));
  if (!NamesOneSide(destination) || !NamesOneSide(source)) return cudaErrorInvalidValue;
  std::size_t of_source = 1;
  std::size_t of_destination = 1;
  CUSPAN_RETURN_IF_FAILED(ElementOf(session, source, &of_source));
  CUSPAN_RETURN_IF_FAILED(ElementOf(session, destination, &of_destination));
  // Two arrays must have the same element size.
  if (of_source != 1 && of_destination != 1 && of_source != of_destination)
    return cudaErrorInvalidValue;
  const std::size_t element = of_destination != 1 ? of_destination : of_source;
  std::size_t width = 0;
  if (__builtin_mul_overflow(extent.width, element, &width)) return cudaErrorInvalidValue;
  box->extent = {width, extent.height, extent.depth};
  box->destination = EndOf(destination, of_destination);
  box->source = EndOf(source, of_source);
  return cudaSuccess;
}

Error Copy3D(const cudaMemcpy3DParms* parameters, bool asynchronous, cudaStream_t stream,
             DefaultStream meaning) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const auto copy = [&](Session& session, const StreamTarget& target) -> Error {
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxOf(session, *parameters, &box));
    return CopyBox(session, target, box, asynchronous);
  };
  if (!asynchronous) return OnStream(stream, meaning, copy);
  return InStream(stream, meaning, copy,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    BoxRequest box;
                    CUSPAN_RETURN_IF_FAILED(BoxOf(session, *parameters, &box));
                    return DescribeCopy(box, work);
                  });
}

Error Copy3DPeer(const cudaMemcpy3DPeerParms* parameters, bool asynchronous, cudaStream_t stream,
                 DefaultStream meaning) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const cudaMemcpy3DPeerParms& p = *parameters;
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    const auto is_device = [&](int device) {
      return device >= 0 && device < session.devices().count();
    };
    return is_device(p.dstDevice) && is_device(p.srcDevice) ? cudaSuccess : cudaErrorInvalidDevice;
  }));
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxBetween(session, {p.dstArray, p.dstPos, p.dstPtr},
                                       {p.srcArray, p.srcPos, p.srcPtr}, p.extent,
                                       cudaMemcpyDeviceToDevice, &box));
    box.destination_device = p.dstDevice;
    box.source_device = p.srcDevice;
    return CopyBox(session, target, box, asynchronous);
  });
}

cudaMemcpyKind KindOf(CopySides sides) {
  switch (sides) {
    case CopySides::kHostToHost:
      return cudaMemcpyHostToHost;
    case CopySides::kHostToDevice:
      return cudaMemcpyHostToDevice;
    case CopySides::kDeviceToHost:
      return cudaMemcpyDeviceToHost;
    case CopySides::kDeviceToDevice:
      return cudaMemcpyDeviceToDevice;
    case CopySides::kDefault:
      break;
  }
  return cudaMemcpyDefault;
}

// Bytes of an array's element. 1 for memory, and for a destroyed array.
std::size_t ElementOf(Session& session, const BoxEnd& end) {
  const auto array = end.array != 0 ? session.arrays().Find(end.array) : nullptr;
  return array != nullptr ? array->element_bytes() : 1;
}

}  // namespace

Error BoxOf(Session& session, const cudaMemcpy3DParms& p, BoxRequest* box) {
  return BoxBetween(session, {p.dstArray, p.dstPos, p.dstPtr}, {p.srcArray, p.srcPos, p.srcPtr},
                    p.extent, p.kind, box);
}

cudaMemcpy3DParms ParametersOf(Session& session, const BoxRequest& box) {
  cudaMemcpy3DParms out{};
  std::size_t element = 1;
  const auto set = [&](const BoxEnd& end, cudaArray_t* array, cudaPos* position,
                       cudaPitchedPtr* memory) {
    const std::size_t bytes = ElementOf(session, end);
    if (bytes != 1) element = bytes;
    *array = HandleOf<cudaArray_t>(end.array);
    *position = {end.x / bytes, end.y, end.z};
    *memory = {end.pointer, end.pitch, end.pitch, end.plane_rows};
  };
  set(box.source, &out.srcArray, &out.srcPos, &out.srcPtr);
  set(box.destination, &out.dstArray, &out.dstPos, &out.dstPtr);
  out.extent = {box.extent.width / element, box.extent.rows, box.extent.planes};
  out.kind = KindOf(box.sides);
  return out;
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
