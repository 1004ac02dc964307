// Copies of boxes (rows in planes) between arrays and memory of the device, and
// staging buffers in which their bytes lie packed.
#pragma once

#include "protocol/api/box.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// A place on the device, and a box there.
struct DeviceBox {
  CUarray array = nullptr;  // Null: memory.
  BoxLocation place;
  BoxExtent extent;
};

// Contiguous memory.
inline DeviceBox RunAt(std::uint64_t address, std::uint64_t bytes) {
  DeviceBox box;
  box.place.address = address;
  box.extent = {bytes, 1, 1};
  return box;
}
// Whether it is contiguous: the driver copies that faster, and at any length.
inline bool IsRun(const DeviceBox& box) {
  return box.array == nullptr && box.extent.rows == 1 && box.extent.planes == 1;
}

// The bytes [offset, offset + bytes) of the packed box, which is at least so
// large, from or to `packed`. Of several copies of the driver the first failure is returned.
CUresult CopyToBox(const Driver& driver, const DeviceBox& to, std::uint64_t offset,
                   const std::byte* packed, std::uint64_t bytes, CUstream stream);
CUresult CopyFromBox(const Driver& driver, const DeviceBox& from, std::uint64_t offset,
                     std::byte* packed, std::uint64_t bytes, CUstream stream);
// Between two boxes of one extent, that of `to`.
CUDA_MEMCPY3D DescribeCopy(const DeviceBox& to, const DeviceBox& from);
CUresult CopyBetweenBoxes(const Driver& driver, const DeviceBox& to, const DeviceBox& from,
                          CUstream stream);

}  // namespace cuspan::proxy
