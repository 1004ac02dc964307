// Devices of the session: selection, properties, synchronisation, reset.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <vector>

#include "common/mutex.h"
#include "interpose/calls/base/attributes.h"
#include "interpose/calls/device.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/runtime/array_format.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/device_properties.h"
#include "interpose/runtime/device_properties_12.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

Error DeviceCount(int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = 0;
  return WithSession([&](Session& session) -> Error {
    *count = session.devices().count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

// Number of criteria in `wanted` met by a device. Criteria with the value 0 are ignored.
int Matches(const cudaDeviceProp& device, const cudaDeviceProp& wanted) {
  const auto meets = [](auto has, auto wants) { return wants != 0 && has >= wants ? 1 : 0; };
  const bool newer =
      device.major != wanted.major ? device.major > wanted.major : device.minor >= wanted.minor;
  return (wanted.major != 0 && newer ? 1 : 0) +
         meets(device.totalGlobalMem, wanted.totalGlobalMem) +
         meets(device.sharedMemPerBlock, wanted.sharedMemPerBlock) +
         meets(device.regsPerBlock, wanted.regsPerBlock) +
         meets(device.maxThreadsPerBlock, wanted.maxThreadsPerBlock) +
         meets(device.totalConstMem, wanted.totalConstMem) +
         meets(device.multiProcessorCount, wanted.multiProcessorCount) +
         meets(device.concurrentKernels, wanted.concurrentKernels) +
         meets(device.cooperativeLaunch, wanted.cooperativeLaunch);
}

// Properties of the session's devices, made at their first use. Threads: any.
template <typename Properties, Properties (*kMake)(const DeviceDescription&)>
class KnownProperties {
 public:
  const Properties& Of(Session& session, int device) {
    const auto index = static_cast<std::size_t>(device);
    if (index < first_.size()) {
      if (const Properties* const known = first_[index].load(std::memory_order_acquire))
        return *known;
    }
    const MutexLock lock(mutex_);
    const auto [known, is_new] = known_.try_emplace(device);
    if (is_new) known->second = kMake(session.devices().description(device));
    if (index < first_.size()) first_[index].store(&known->second, std::memory_order_release);
    return known->second;
  }

 private:
  Mutex mutex_;
  std::map<int, Properties> known_ CUSPAN_GUARDED_BY(mutex_);
  // The first devices' properties: found without the lock.
  std::array<std::atomic<const Properties*>, 16> first_{};
};

const cudaDeviceProp& PropertiesOf(Session& session, int device) {
  return session.TableOf<KnownProperties<cudaDeviceProp, MakeProperties>>().Of(session, device);
}
const DeviceProperties12& Properties12Of(Session& session, int device) {
  return session.TableOf<KnownProperties<DeviceProperties12, MakeProperties12>>().Of(session,
                                                                                     device);
}

Error ChooseDevice(Session& session, const cudaDeviceProp& wanted, int* device) {
  int best = -1;
  for (int candidate = 0; candidate < session.devices().count(); ++candidate) {
    const int matches = Matches(PropertiesOf(session, candidate), wanted);
    if (matches <= best) continue;
    best = matches;
    *device = candidate;
  }
  return best >= 0 ? cudaSuccess : cudaErrorNoDevice;
}

Error SetValidDevices(Session& session, const int* devices, int count) {
  if (count < 0 || count > session.devices().count() || (count > 0 && devices == nullptr)) {
    return cudaErrorInvalidValue;
  }
  std::vector<int> seen;
  for (int i = 0; i < count; ++i) {
    if (!HasDevice(session, devices[i])) return cudaErrorInvalidDevice;
    if (std::find(seen.begin(), seen.end(), devices[i]) != seen.end()) return cudaErrorInvalidValue;
    seen.push_back(devices[i]);
  }
  ThreadState& thread = ThisThread();
  if (!thread.device_chosen)
    thread.contexts.Set(&session.devices().Primary(count > 0 ? devices[0] : 0));
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// --- Selection

CUSPAN_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  const HostFunctionMayCall permission;
  return Answer([&] { return DeviceCount(count); });
}

CUSPAN_EXPORT cudaError_t cudaSetDevice(int device) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
      Context& primary = session.devices().Primary(device);
      primary.used_by_runtime.store(true, std::memory_order_relaxed);
      ThisThread().contexts.Set(&primary);
      ThisThread().device_chosen = true;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetDevice(int* device) {
  return Answer([&]() -> Error {
    if (device == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session&) -> Error {
      *device = CurrentDevice();
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaSetValidDevices(int* devices, int count) {
  return Answer([&] {
    return WithSession([&](Session& session) { return SetValidDevices(session, devices, count); });
  });
}

CUSPAN_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  const HostFunctionMayCall permission;
  return Answer([&]() -> Error {
    if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) { return ChooseDevice(session, *wanted, device); });
  });
}

// --- Properties

CUSPAN_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const HostFunctionMayCall permission;
  const bool before_13 = CallerIsBefore13(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (properties == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
      if (before_13) {
        // CUDA 12 has a separate function for the members added after CUDA 11.
        std::memcpy(static_cast<void*>(properties), &Properties12Of(session, device),
                    kProperties11Bytes);
        return cudaSuccess;
      }
      *properties = PropertiesOf(session, device);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetDeviceProperties_v2(DeviceProperties12* properties, int device) {
  const HostFunctionMayCall permission;
  return Answer([&]() -> Error {
    if (properties == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
      *properties = Properties12Of(session, device);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Answer([&]() -> Error {
    // The runtime's numbers equal the driver's.
    if (value == nullptr || attribute < cudaDevAttrMaxThreadsPerBlock ||
        static_cast<int>(attribute) >= CU_DEVICE_ATTRIBUTE_MAX) {
      return cudaErrorInvalidValue;
    }
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
      *value = VisibleAttribute(session.devices().description(device), attribute);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return Answer([&]() -> Error {
    if (text == nullptr || length <= 0) return cudaErrorInvalidValue;
    return WithSession(
        [&](Session& session) { return GetPciBusId(session, device, text, length); });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return Answer([&]() -> Error {
    if (device == nullptr || text == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) { return FindByPciBusId(session, text, device); });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Answer([&] {
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      const PriorityRange range = PrioritiesOf(session.devices().description(connection.device()));
      if (least != nullptr) *least = range.least;
      if (greatest != nullptr) *greatest = range.greatest;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return Answer([&] {
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      return GetMemoryInfo(session, connection, free, total);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(std::size_t* elements,
                                                               const cudaChannelFormatDesc* desc,
                                                               int device) {
  return Answer([&]() -> Error {
    if (elements == nullptr || desc == nullptr) return cudaErrorInvalidValue;
    const auto format = FormatOf(*desc);
    if (!format) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device)) return cudaErrorInvalidDevice;
      return LinearTextureWidth(session.devices().description(device), format->format,
                                format->channels, elements);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned* capabilities,
                                                              const cudaAtomicOperation* operations,
                                                              unsigned count, int device) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      CUSPAN_RETURN_IF_FAILED(AtomicsOverLink(operations, count, capabilities));
      return HasDevice(session, device) ? cudaSuccess : cudaErrorInvalidDevice;
    });
  });
}

// No other device of the program's node writes to this device's memory. Its attributes report no
// support either.
CUSPAN_EXPORT cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(
    cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope) {
  return Answer([&] {
    return OnCurrentDevice([&](Session&, ContextConnection&) -> Error {
      const bool known = target == cudaFlushGPUDirectRDMAWritesTargetCurrentDevice &&
                         (scope == cudaFlushGPUDirectRDMAWritesToOwner ||
                          scope == cudaFlushGPUDirectRDMAWritesToAllDevices);
      return known ? cudaErrorNotSupported : cudaErrorInvalidValue;
    });
  });
}

// --- Versions

CUSPAN_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  return Answer([&]() -> Error {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = 0;  // Documented for hosts without a driver.
    CUresult ignored = CUDA_SUCCESS;
    const Session* const session = Session::Prepare(&ignored);
    if (session != nullptr) *version = DriverVersion(*session);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  const int release = CallerRelease(__builtin_return_address(0));
  return Answer([&]() -> Error {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = RuntimeVersion(release);
    return cudaSuccess;
  });
}

// --- The whole device

CUSPAN_EXPORT cudaError_t cudaDeviceSynchronize() {
  return Answer([&] {
    // Opens the device: CUDA creates its context here.
    return OnCurrentDevice([](Session& session, ContextConnection& connection) -> Error {
      if (AnyCapture(session))
        CUSPAN_RETURN_IF_FAILED(RefuseCaptureOnDevice(session, connection.device()));
      return session.devices().Synchronize(connection.context());
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceReset() {
  return Answer([&] {
    return WithSession([](Session& session) -> Error {
      return session.devices().Reset(session.devices().Primary(CurrentDevice()));
    });
  });
}

// --- Profiler: this process has nothing to profile

CUSPAN_EXPORT cudaError_t cudaProfilerStart() {
  return AnswerUnlessFaulted([]() -> Error { return cudaSuccess; });
}

CUSPAN_EXPORT cudaError_t cudaProfilerStop() {
  return AnswerUnlessFaulted([]() -> Error { return cudaSuccess; });
}
