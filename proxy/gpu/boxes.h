// Copies of boxes (rows in planes) between device arrays or device memory and staging buffers with
// the bytes packed.
#pragma once

#include "protocol/api/box.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// A box in an array or in memory of the device.
struct DeviceBox {
  CUarray array = nullptr;  // Null: memory.
  BoxLocation location;
  BoxExtent extent;
};

// Contiguous memory.
inline DeviceBox RunAt(std::uint64_t address, std::uint64_t bytes) {
  DeviceBox box;
  box.location.address = address;
  box.extent = {bytes, 1, 1};
  return box;
}
// True for contiguous memory: the driver copies it faster, and at any length.
inline bool IsRun(const DeviceBox& box) {
  return box.array == nullptr && box.extent.rows == 1 && box.extent.planes == 1;
}

// Copy the bytes [offset, offset + bytes) of the packed box from or to `packed`. The box must
// contain them. If several driver calls are needed, the first failure is returned.
CUresult CopyToBox(const Driver& driver, const DeviceBox& to, std::uint64_t offset,
                   const std::byte* packed, std::uint64_t bytes, CUstream stream);
// CopyToBox by a driver call for each row of memory: from pageable memory, the driver may wait for
// the stream with a box.
CUresult CopyRowsToBox(const Driver& driver, const DeviceBox& to, std::uint64_t offset,
                       const std::byte* packed, std::uint64_t bytes, CUstream stream);
CUresult CopyFromBox(const Driver& driver, const DeviceBox& from, std::uint64_t offset,
                     std::byte* packed, std::uint64_t bytes, CUstream stream);
// Copies between two boxes; the extent of `to` is used for both.
CUDA_MEMCPY3D DescribeCopy(const DeviceBox& to, const DeviceBox& from);
CUresult CopyBetweenBoxes(const Driver& driver, const DeviceBox& to, const DeviceBox& from,
                          CUstream stream);

}  // namespace cuspan::proxy
