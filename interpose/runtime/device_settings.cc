// What a program may set for a device: flags, limits, preferences. What is only
// a hint is remembered here and answered when asked for.
#include <array>
#include <atomic>

#include "interpose/client/thread_state.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/function.h"

namespace cuspan {
namespace {

// By device; more of them than a session can have keep no hints.
constexpr std::size_t kMostDevices = 256;
constinit std::array<std::atomic<unsigned>, kMostDevices> device_flags{};
constinit std::array<std::atomic<int>, kMostDevices> cache_configs{};

template <typename Value>
Value* Slot(std::array<Value, kMostDevices>& values, int device) {
  const auto index = static_cast<std::size_t>(device);
  return index < values.size() ? &values[index] : nullptr;
}

bool AreDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown =
      cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
  const unsigned schedule = flags & cudaDeviceScheduleMask;
  return (flags & ~kKnown) == 0 &&
         (schedule == cudaDeviceScheduleAuto || schedule == cudaDeviceScheduleSpin ||
          schedule == cudaDeviceScheduleYield || schedule == cudaDeviceScheduleBlockingSync);
}

bool IsBankSize(cudaSharedMemConfig config) {
  return config >= cudaSharedMemBankSizeDefault && config <= cudaSharedMemBankSizeEightByte;
}

Error KeepFlags(int device, unsigned flags) {
  if (!AreDeviceFlags(flags)) return cudaErrorInvalidValue;
  // How a thread waits is our own affair, and synchronous operations are always so.
  if (auto* const slot = Slot(device_flags, device)) slot->store(flags);
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return Answer([&] {
    return WithSession([&](Session&) { return KeepFlags(ThisThread().current_device, flags); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return Answer([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session&) -> Error {
      const auto* const slot = Slot(device_flags, ThisThread().current_device);
      // Always reported by CUDA since address spaces are unified.
      *flags = (slot != nullptr ? slot->load() : 0) | cudaDeviceMapHost;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags_wanted, unsigned flags) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      std::shared_ptr<Link> link;
      if (device < 0 || device >= session.device_count()) return cudaErrorInvalidDevice;
      if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
        CUSPAN_RETURN_IF_FAILED(KeepFlags(device, device_flags_wanted));
      }
      return session.OpenLink(device, &link);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      LimitGet op;
      op.limit = limit;
      LimitGet::Reply reply;
      CUSPAN_RETURN_IF_FAILED(link.Call(op, &reply));
      *value = reply.value;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return Answer([&] {
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      LimitSet op;
      op.limit = limit;
      op.value = value;
      LimitSet::Reply reply;
      return link.Call(op, &reply);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return Answer([&]() -> Error {
    if (config == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      const auto* const slot = Slot(cache_configs, link.device());
      *config =
          slot != nullptr ? static_cast<cudaFuncCache>(slot->load()) : cudaFuncCachePreferNone;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return Answer([&]() -> Error {
    if (config < cudaFuncCachePreferNone || config > cudaFuncCachePreferEqual) {
      return cudaErrorInvalidValue;
    }
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      if (auto* const slot = Slot(cache_configs, link.device())) slot->store(config);
      return cudaSuccess;
    });
  });
}

// Banks of shared memory have had one width since compute capability 5.0, whatever is asked for.
CUSPAN_EXPORT cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return Answer([&]() -> Error {
    if (config == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, Link&) -> Error {
      *config = cudaSharedMemBankSizeFourByte;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return Answer([&]() -> Error {
    if (!IsBankSize(config)) return cudaErrorInvalidValue;
    return OnCurrentDevice([](Session&, Link&) -> Error { return cudaSuccess; });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void* function,
                                                     cudaSharedMemConfig config) {
  return Answer([&]() -> Error {
    if (!IsBankSize(config)) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, Link& link) -> Error {
      LoadedKernel* kernel = nullptr;
      return FindKernel(link, function, &kernel);
    });
  });
}

// Where lines of the cache are to stay is a hint that we do not pass on: none stays.
CUSPAN_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return Answer(
      [] { return OnCurrentDevice([](Session&, Link&) -> Error { return cudaSuccess; }); });
}

CUSPAN_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Answer([&]() -> Error {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    const int before = std::exchange(ThisThread().capture_mode, static_cast<int>(*mode));
    *mode = static_cast<cudaStreamCaptureMode>(before);
    return cudaSuccess;
  });
}
