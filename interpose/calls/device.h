// Properties of devices reported to the program, except attributes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// CUDA version supported by the drivers of all devices; 0 without devices.
int DriverVersion(const Session& session);

// Writes at most `length` bytes including the NUL. CUDA_ERROR_INVALID_VALUE if the text is cut.
Error GetPciBusId(const Session& session, int device, char* text, int length);
// Devices of different hosts may have the same address: the first one is returned.
Error FindByPciBusId(const Session& session, const char* text, int* device);

// Maximum number of elements of a texture in linear memory, for a CUarray_format and a number of
// channels. CUDA_ERROR_INVALID_VALUE for unsupported elements.
Error LinearTextureWidth(const DeviceDescription& device, std::uint32_t format, unsigned channels,
                         std::size_t* elements);

// Atomic operations supported over a device's connection to the host or to another device: none, in
// agreement with its attributes. CUDA_ERROR_INVALID_VALUE for null pointers, count 0, and unknown
// operations. `Operation` is CUatomicOperation or the runtime's type, with the same numbers.
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

// Memory of the device, in bytes; either may be null.
Error GetMemoryInfo(Session& session, ContextConnection& connection, std::size_t* free,
                    std::size_t* total);

}  // namespace cuspan
