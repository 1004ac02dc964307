// What a program is told of devices beyond their attributes.
#pragma once

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

// Bytes of the device; either may be null.
Error GetMemoryInfo(Session& session, Link& link, std::size_t* free, std::size_t* total);

}  // namespace cuspan
