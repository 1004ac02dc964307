// Settings of a device: flags, limits, preferences. Mere hints are stored here and returned on
// request.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// True if all flags are device flags, as in CUctx_flags.
bool AreDeviceFlags(unsigned flags);
// CUDA_ERROR_INVALID_VALUE for other flags.
Error SetDeviceFlags(Session& session, int device, unsigned flags);
unsigned DeviceFlags(Session& session, int device);

Error GetLimit(ContextConnection& connection, CUlimit limit, std::size_t* value);
Error SetLimit(ContextConnection& connection, CUlimit limit, std::size_t value);

// Preference between cache and shared memory, for all kernels of a device.
inline bool IsCacheConfig(CUfunc_cache config) {
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
}
Error SetDeviceCacheConfig(Session& session, int device, CUfunc_cache config);
CUfunc_cache DeviceCacheConfig(Session& session, int device);

// Exchanges the calling thread's mode towards captures of other threads: *mode is the new mode
// before the call, the former one after it.
Error ExchangeCaptureMode(CUstreamCaptureMode* mode);

}  // namespace cuspan
