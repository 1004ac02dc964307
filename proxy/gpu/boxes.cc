#include "proxy/gpu/boxes.h"

namespace cuspan::proxy {
namespace {

// Fills in the device side of a copy, starting at `piece` of the box.
void SetDestination(const DeviceBox& box, const BoxPiece& piece, CUDA_MEMCPY3D& copy) {
  copy.dstMemoryType = box.array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
  copy.dstArray = box.array;
  copy.dstDevice = box.location.address;
  copy.dstPitch = box.location.pitch;
  copy.dstHeight = box.location.plane_rows;
  copy.dstXInBytes = box.location.x + piece.x;
  copy.dstY = box.location.y + piece.y;
  copy.dstZ = box.location.z + piece.z;
}

void SetSource(const DeviceBox& box, const BoxPiece& piece, CUDA_MEMCPY3D& copy) {
  copy.srcMemoryType = box.array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
  copy.srcArray = box.array;
  copy.srcDevice = box.location.address;
  copy.srcPitch = box.location.pitch;
  copy.srcHeight = box.location.plane_rows;
  copy.srcXInBytes = box.location.x + piece.x;
  copy.srcY = box.location.y + piece.y;
  copy.srcZ = box.location.z + piece.z;
}

void SetExtent(const BoxExtent& extent, CUDA_MEMCPY3D& copy) {
  copy.WidthInBytes = extent.width;
  copy.Height = extent.rows;
  copy.Depth = extent.planes;
}

}  // namespace

CUresult CopyToBox(const Driver& driver, const DeviceBox& to, std::uint64_t offset,
                   const std::byte* packed, std::uint64_t bytes, CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  ForEachPiece(to.extent, offset, bytes, [&](const BoxPiece& piece) {
    if (result != CUDA_SUCCESS) return;
    CUDA_MEMCPY3D copy{};
    SetDestination(to, piece, copy);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = packed + (piece.packed - offset);
    copy.srcPitch = piece.extent.width;
    copy.srcHeight = piece.extent.rows;
    SetExtent(piece.extent, copy);
    result = driver.cuMemcpy3DAsync(&copy, stream);
  });
  return result;
}

CUresult CopyRowsToBox(const Driver& driver, const DeviceBox& to, std::uint64_t offset,
                       const std::byte* packed, std::uint64_t bytes, CUstream stream) {
  if (to.array != nullptr) return CopyToBox(driver, to, offset, packed, bytes, stream);
  const BoxLocation& location = to.location;
  CUresult result = CUDA_SUCCESS;
  ForEachPiece(to.extent, offset, bytes, [&](const BoxPiece& piece) {
    const std::byte* row = packed + (piece.packed - offset);
    for (std::uint64_t z = 0; z < piece.extent.planes; ++z) {
      for (std::uint64_t y = 0; y < piece.extent.rows; ++y) {
        if (result != CUDA_SUCCESS) return;
        const std::uint64_t rows =
            (location.z + piece.z + z) * location.plane_rows + location.y + piece.y + y;
        result = driver.cuMemcpyHtoDAsync(
            location.address + rows * location.pitch + location.x + piece.x, row,
            piece.extent.width, stream);
        row += piece.extent.width;
      }
    }
  });
  return result;
}

CUresult CopyFromBox(const Driver& driver, const DeviceBox& from, std::uint64_t offset,
                     std::byte* packed, std::uint64_t bytes, CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  ForEachPiece(from.extent, offset, bytes, [&](const BoxPiece& piece) {
    if (result != CUDA_SUCCESS) return;
    CUDA_MEMCPY3D copy{};
    SetSource(from, piece, copy);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = packed + (piece.packed - offset);
    copy.dstPitch = piece.extent.width;
    copy.dstHeight = piece.extent.rows;
    SetExtent(piece.extent, copy);
    result = driver.cuMemcpy3DAsync(&copy, stream);
  });
  return result;
}

CUDA_MEMCPY3D DescribeCopy(const DeviceBox& to, const DeviceBox& from) {
  CUDA_MEMCPY3D copy{};
  SetDestination(to, {}, copy);
  SetSource(from, {}, copy);
  SetExtent(to.extent, copy);
  return copy;
}

CUresult CopyBetweenBoxes(const Driver& driver, const DeviceBox& to, const DeviceBox& from,
                          CUstream stream) {
  const CUDA_MEMCPY3D copy = DescribeCopy(to, from);
  return driver.cuMemcpy3DAsync(&copy, stream);
}

}  // namespace cuspan::proxy
