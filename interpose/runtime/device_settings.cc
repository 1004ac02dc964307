// Settings of a device: flags, limits, preferences.
#include "interpose/calls/device_settings.h"

#include "interpose/runtime/entry.h"
#include "interpose/runtime/kernel.h"

namespace cuspan {
namespace {

bool IsBankSize(cudaSharedMemConfig config) {
  return config >= cudaSharedMemBankSizeDefault && config <= cudaSharedMemBankSizeEightByte;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return Answer([&] {
    return WithSession(
        [&](Session& session) { return SetDeviceFlags(session, CurrentDevice(), flags); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return Answer([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      // Always reported by CUDA since unified addressing.
      *flags = DeviceFlags(session, CurrentDevice()) | cudaDeviceMapHost;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      std::shared_ptr<ContextConnection> connection;
      if (device < 0 || device >= session.devices().count()) return cudaErrorInvalidDevice;
      if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
        CUSPAN_RETURN_IF_FAILED(SetDeviceFlags(session, device, device_flags));
      }
      return session.devices().Open(device, &connection);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, ContextConnection& connection) {
      return GetLimit(connection, static_cast<CUlimit>(limit), value);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return Answer([&] {
    return OnCurrentDevice([&](Session&, ContextConnection& connection) {
      return SetLimit(connection, static_cast<CUlimit>(limit), value);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return Answer([&]() -> Error {
    if (config == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      *config = static_cast<cudaFuncCache>(DeviceCacheConfig(session, connection.device()));
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return Answer([&]() -> Error {
    if (config < cudaFuncCachePreferNone || config > cudaFuncCachePreferEqual) {
      return cudaErrorInvalidValue;
    }
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      return SetDeviceCacheConfig(session, connection.device(), static_cast<CUfunc_cache>(config));
    });
  });
}

// Since compute capability 5.0, the width of shared memory banks is fixed. Settings have no effect.
CUSPAN_EXPORT cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return Answer([&]() -> Error {
    if (config == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, ContextConnection&) -> Error {
      *config = cudaSharedMemBankSizeFourByte;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return Answer([&]() -> Error {
    if (!IsBankSize(config)) return cudaErrorInvalidValue;
    return OnCurrentDevice([](Session&, ContextConnection&) -> Error { return cudaSuccess; });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void* function,
                                                     cudaSharedMemConfig config) {
  return Answer([&]() -> Error {
    if (!IsBankSize(config)) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      return FindKernel(connection, function, &kernel);
    });
  });
}

// Hints to persist cache lines are not forwarded, so there is nothing to reset.
CUSPAN_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return Answer([] {
    return OnCurrentDevice([](Session&, ContextConnection&) -> Error { return cudaSuccess; });
  });
}

CUSPAN_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Answer([&]() -> Error {
    if (mode == nullptr) return cudaErrorInvalidValue;
    auto drivers = static_cast<CUstreamCaptureMode>(*mode);
    CUSPAN_RETURN_IF_FAILED(ExchangeCaptureMode(&drivers));
    *mode = static_cast<cudaStreamCaptureMode>(drivers);
    return cudaSuccess;
  });
}
