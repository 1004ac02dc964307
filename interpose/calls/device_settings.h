// What a program may set for a device: flags, limits, preferences. What is only
// a hint is remembered here and answered when asked for.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// Whether the flags are those of a device, as in CUctx_flags.
bool AreDeviceFlags(unsigned flags);
// CUDA_ERROR_INVALID_VALUE for those that are none.
Error SetDeviceFlags(int device, unsigned flags);
unsigned DeviceFlags(int device);

Error GetLimit(ContextConnection& connection, CUlimit limit, std::size_t* value);
Error SetLimit(ContextConnection& connection, CUlimit limit, std::size_t value);

// A preference between cache and shared memory of all kernels of a device.
inline bool IsCacheConfig(CUfunc_cache config) {
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
}
Error SetDeviceCacheConfig(int device, CUfunc_cache config);
CUfunc_cache DeviceCacheConfig(int device);

// How what the calling thread does affects captures of others: the former mode takes the place of
// the new one.
Error ExchangeCaptureMode(CUstreamCaptureMode* mode);

}  // namespace cuspan
