// Copies of rows and of boxes, in memory and in arrays.
#include "interpose/driver/copy_box.h"

#include "interpose/calls/context.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"

namespace cuspan {
namespace {

// One side of a copy, common to all parameter structures.
struct Side {
  std::size_t x, y, z;
  CUmemorytype kind;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t pitch;
  std::size_t rows;  // Distance between planes.
};

// Units of `extent`: bytes, rows and planes. If the pitch is 0, there is one row. If `rows` is 0,
// there is one plane.
Error EndOf(const Side& side, const BoxExtent& extent, BoxEnd* end) {
  *end = {};
  end->x = side.x;
  end->y = side.y;
  end->z = side.z;
  switch (side.kind) {
    case CU_MEMORYTYPE_ARRAY:
      end->array = NumberOf(side.array);
      return end->array != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEMORYTYPE_HOST:
      end->pointer = const_cast<void*>(side.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      end->pointer = HandleOf<void*>(side.device);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  end->pitch = side.pitch != 0 ? side.pitch : side.x + extent.width;
  end->plane_rows = side.rows != 0 ? side.rows : side.y + extent.rows;
  if (end->pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return side.x + extent.width > end->pitch ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool IsHost(const Side& side) { return side.kind == CU_MEMORYTYPE_HOST; }
bool IsDevice(const Side& side) {
  return side.kind == CU_MEMORYTYPE_DEVICE || side.kind == CU_MEMORYTYPE_ARRAY;
}

CopySides SidesOf(const Side& to, const Side& from) {
  if (IsHost(to)) {
    if (IsHost(from)) return CopySides::kHostToHost;
    return IsDevice(from) ? CopySides::kDeviceToHost : CopySides::kDefault;
  }
  if (!IsDevice(to)) return CopySides::kDefault;
  if (IsHost(from)) return CopySides::kHostToDevice;
  return IsDevice(from) ? CopySides::kDeviceToDevice : CopySides::kDefault;
}

Error BoxBetween(const Side& to, const Side& from, const BoxExtent& extent, BoxRequest* box) {
  *box = {};
  box->extent = extent;
  box->sides = SidesOf(to, from);
  if (extent.width == 0 || extent.rows == 0 || extent.planes == 0) return CUDA_SUCCESS;
  CUSPAN_RETURN_IF_FAILED(EndOf(to, extent, &box->destination));
  return EndOf(from, extent, &box->source);
}

Error BoxOf(const CUDA_MEMCPY2D& p, BoxRequest* box) {
  return BoxBetween({p.dstXInBytes, p.dstY, 0, p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray,
                     p.dstPitch, 0},
                    {p.srcXInBytes, p.srcY, 0, p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray,
                     p.srcPitch, 0},
                    {p.WidthInBytes, p.Height, 1}, box);
}

// Description: a type accepted by BoxOf.
template <typename Description>
CUresult CopyAs(const Description* copy, bool asynchronous, CUstream stream,
                DefaultStream meaning) {
  return AnswerInContext([&](Session&) -> Error {
    if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxOf(*copy, &box));
    const auto run = [&](Session& session, const StreamTarget& target) {
      return CopyBox(session, target, box, asynchronous);
    };
    if (!asynchronous) return OnStream(stream, meaning, run);
    return InStream(stream, meaning, run, [&](Session&, const StreamTarget&, Work* work) {
      return DescribeCopy(box, work);
    });
  });
}

CUresult CopyPeerAs(const CUDA_MEMCPY3D_PEER* p, bool asynchronous, CUstream stream,
                    DefaultStream meaning) {
  return AnswerInContext([&](Session& session) -> Error {
    if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* to = nullptr;
    Context* from = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContextOrCurrent(session, p->dstContext, &to));
    CUSPAN_RETURN_IF_FAILED(FindContextOrCurrent(session, p->srcContext, &from));
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(
        BoxBetween({p->dstXInBytes, p->dstY, p->dstZ, p->dstMemoryType, p->dstHost, p->dstDevice,
                    p->dstArray, p->dstPitch, p->dstHeight},
                   {p->srcXInBytes, p->srcY, p->srcZ, p->srcMemoryType, p->srcHost, p->srcDevice,
                    p->srcArray, p->srcPitch, p->srcHeight},
                   {p->WidthInBytes, p->Height, p->Depth}, &box));
    box.destination_device = to->device();
    box.source_device = from->device();
    return OnStream(stream, meaning, [&](Session& there, const StreamTarget& target) {
      return CopyBox(there, target, box, asynchronous);
    });
  });
}

// Copies a run of bytes from or to an array.
CUresult CopyWithArray(const Side& to, const Side& from, std::size_t bytes, bool asynchronous,
                       CUstream stream, DefaultStream meaning) {
  return AnswerInContext([&](Session&) -> Error {
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxBetween(to, from, {bytes, 1, 1}, &box));
    return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) {
      return CopyBox(session, target, box, asynchronous);
    });
  });
}

Side InArray(CUarray array, std::size_t offset) {
  return {offset, 0, 0, CU_MEMORYTYPE_ARRAY, nullptr, 0, array, 0, 0};
}
Side OnHost(const void* memory) { return {0, 0, 0, CU_MEMORYTYPE_HOST, memory, 0, nullptr, 0, 0}; }
Side OnDevice(CUdeviceptr memory) {
  return {0, 0, 0, CU_MEMORYTYPE_DEVICE, nullptr, memory, nullptr, 0, 0};
}

}  // namespace

Error BoxOf(const CUDA_MEMCPY3D& p, BoxRequest* box) {
  return BoxBetween({p.dstXInBytes, p.dstY, p.dstZ, p.dstMemoryType, p.dstHost, p.dstDevice,
                     p.dstArray, p.dstPitch, p.dstHeight},
                    {p.srcXInBytes, p.srcY, p.srcZ, p.srcMemoryType, p.srcHost, p.srcDevice,
                     p.srcArray, p.srcPitch, p.srcHeight},
                    {p.WidthInBytes, p.Height, p.Depth}, box);
}

CUDA_MEMCPY3D ParametersOf(const BoxRequest& box) {
  CUDA_MEMCPY3D out{};
  const auto kind_of = [](const BoxEnd& end, bool host) {
    return end.array != 0 ? CU_MEMORYTYPE_ARRAY : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  };
  const bool to_host = box.sides == CopySides::kHostToHost || box.sides == CopySides::kDeviceToHost;
  const bool from_host =
      box.sides == CopySides::kHostToHost || box.sides == CopySides::kHostToDevice;
  const BoxEnd& to = box.destination;
  const BoxEnd& from = box.source;
  out.dstXInBytes = to.x;
  out.dstY = to.y;
  out.dstZ = to.z;
  out.dstMemoryType = kind_of(to, to_host);
  out.dstArray = HandleOf<CUarray>(to.array);
  if (to_host)
    out.dstHost = to.pointer;
  else
    out.dstDevice = NumberOf(to.pointer);
  out.dstPitch = to.pitch;
  out.dstHeight = to.plane_rows;
  out.srcXInBytes = from.x;
  out.srcY = from.y;
  out.srcZ = from.z;
  out.srcMemoryType = kind_of(from, from_host);
  out.srcArray = HandleOf<CUarray>(from.array);
  if (from_host)
    out.srcHost = from.pointer;
  else
    out.srcDevice = NumberOf(from.pointer);
  out.srcPitch = from.pitch;
  out.srcHeight = from.plane_rows;
  out.WidthInBytes = box.extent.width;
  out.Height = box.extent.rows;
  out.Depth = box.extent.planes;
  return out;
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy),
                    CopyAs(copy, false, nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy),
                    CopyAs(copy, false, nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* copy, CUstream stream),
                    CopyAs(copy, true, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy),
                    CopyAs(copy, false, nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* copy, CUstream stream),
                    CopyAs(copy, true, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* copy),
                    CopyPeerAs(copy, false, nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream),
                    CopyPeerAs(copy, true, stream, meaning))

// --- To and from arrays of one dimension

CUSPAN_EXPORT_TWINS(cuMemcpyDtoA_v2, _ptds,
                    (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes),
                    CopyWithArray(InArray(to, offset), OnDevice(from), bytes, false, nullptr,
                                  meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyAtoD_v2, _ptds,
                    (CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes),
                    CopyWithArray(OnDevice(to), InArray(from, offset), bytes, false, nullptr,
                                  meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyHtoA_v2, _ptds,
                    (CUarray to, std::size_t offset, const void* from, std::size_t bytes),
                    CopyWithArray(InArray(to, offset), OnHost(from), bytes, false, nullptr,
                                  meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyAtoH_v2, _ptds,
                    (void* to, CUarray from, std::size_t offset, std::size_t bytes),
                    CopyWithArray(OnHost(to), InArray(from, offset), bytes, false, nullptr,
                                  meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyAtoA_v2, _ptds,
                    (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset,
                     std::size_t bytes),
                    CopyWithArray(InArray(to, to_offset), InArray(from, from_offset), bytes, false,
                                  nullptr, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyHtoAAsync_v2, _ptsz,
                    (CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                     CUstream stream),
                    CopyWithArray(InArray(to, offset), OnHost(from), bytes, true, stream, meaning))
CUSPAN_EXPORT_TWINS(cuMemcpyAtoHAsync_v2, _ptsz,
                    (void* to, CUarray from, std::size_t offset, std::size_t bytes,
                     CUstream stream),
                    CopyWithArray(OnHost(to), InArray(from, offset), bytes, true, stream, meaning))
