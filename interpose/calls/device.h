// What a program is told of devices beyond their attributes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "interpose/calls/ways_in.h"

namespace cuspan {

// The version of CUDA that every device's driver has; 0 without devices.
int DriverVersion(const Session& session);

// With its end, into `length` bytes. CUDA_ERROR_INVALID_VALUE when there is no room.
Error GetPciBusId(const Session& session, int device, char* text, int length);
// Devices of different hosts may have the same address: the first one counts.
Error FindByPciBusId(const Session& session, const char* text, int* device);

// The elements that a texture of linear memory may have, of a CUarray_format and so many channels.
// CUDA_ERROR_INVALID_VALUE where there are no such elements.
Error LinearTextureWidth(const DeviceDescription& device, std::uint32_t format, unsigned channels,
                         std::size_t* elements);

// What atomic operations can be made over a device's connection to the host or to another device:
// none, as its attributes say. CUDA_ERROR_INVALID_VALUE for null pointers, no operations, and what
// is none. `Operation` is CUatomicOperation or the runtime's, which has its numbers.
template <typename Operation>
Error AtomicsOverLink(const Operation* operations, unsigned count, unsigned* capabilities) {
  if (operations == nullptr || capabilities == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const bool known = std::all_of(operations, operations + count, [](Operation operation) {
    return operation >= 0 && operation < static_cast<int>(CU_ATOMIC_OPERATION_MAX);
  });
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  std::fill_n(capabilities, count, 0U);
  return CUDA_SUCCESS;
}

// Bytes of the device; either may be null.
Error GetMemoryInfo(Session& session, ContextConnection& connection, std::size_t* free,
                    std::size_t* total);

}  // namespace cuspan
