// Devices: their number and properties.
#include "interpose/calls/device.h"

#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/pool.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Calls body(const DeviceDescription&) → Error if the device exists.
template <typename Body>
CUresult Describe(CUdevice device, const void* out, Body&& body) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
    return body(session.devices().description(device));
  });
}

// Error of pool calls for an unknown device. Other calls differ (measured natively).
constexpr CUresult kNoDeviceOfPool = CUDA_ERROR_INVALID_VALUE;

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuDeviceGetCount(int* count) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = session.devices().count();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Describe(ordinal, device, [&](const DeviceDescription&) -> Error {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return Describe(device, name, [&](const DeviceDescription& described) -> Error {
    if (length == 0) return CUDA_ERROR_INVALID_VALUE;
    // Truncated to the buffer, and followed by zeros up to byte 64 or the end of the buffer. A
    // negative length counts as a large one (measured natively).
    constexpr unsigned kMaxBytes = 64;
    const std::size_t room = std::min(static_cast<unsigned>(length), kMaxBytes);
    std::fill_n(name, room, '\0');
    described.name.copy(name, room - 1);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return Describe(device, uuid, [&](const DeviceDescription& described) -> Error {
    static_assert(sizeof(uuid->bytes) == sizeof(described.uuid));
    std::memcpy(uuid->bytes, described.uuid.data(), sizeof uuid->bytes);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  return Describe(device, bytes, [&](const DeviceDescription& described) -> Error {
    *bytes = described.memory_bytes;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                            CUdevice device) {
  return Describe(device, value, [&](const DeviceDescription& described) -> Error {
    if (attribute < CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
        attribute >= CU_DEVICE_ATTRIBUTE_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    *value = VisibleAttribute(described, attribute);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return Describe(device, major, [&](const DeviceDescription& described) -> Error {
    if (minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *major = VisibleAttribute(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = VisibleAttribute(described, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  return Describe(device, properties, [&](const DeviceDescription& described) -> Error {
    const auto value = [&](CUdevice_attribute which) { return VisibleAttribute(described, which); };
    properties->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    properties->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    properties->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    properties->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    properties->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    properties->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    properties->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    properties->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    properties->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    properties->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    properties->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    properties->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    return GetPciBusId(session, device, text, length);
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return FindByPciBusId(session, text, device);
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType /*type*/,
                                                      CUdevice device) {
  return Describe(device, supported, [&](const DeviceDescription&) -> Error {
    *supported = 0;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(std::size_t* elements,
                                                          CUarray_format format, unsigned channels,
                                                          CUdevice device) {
  return Describe(device, elements, [&](const DeviceDescription& described) {
    return LinearTextureWidth(described, static_cast<std::uint32_t>(format), channels, elements);
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned* capabilities,
                                                         const CUatomicOperation* operations,
                                                         unsigned count, CUdevice device) {
  return AnswerWithDriver([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(AtomicsOverLink(operations, count, capabilities));
    return HasDevice(session, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}

// LUIDs exist on Windows only.
CUSPAN_EXPORT CUresult cuDeviceGetLuid(char* luid, unsigned* /*nodes*/, CUdevice device) {
  return Describe(device, luid,
                  [](const DeviceDescription&) -> Error { return CUDA_ERROR_NOT_SUPPORTED; });
}

// No other device of the program's node writes to this device's memory. Its attributes report no
// support either.
CUSPAN_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                                  CUflushGPUDirectRDMAWritesScope scope) {
  return AnswerInContext([&](Session&) -> Error {
    const bool known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                       (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                        scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    return known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  });
}

// --- Pools

CUSPAN_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return AnswerWithDriver([&](Session&) { return GetPool(pool, device, PoolOf::kDefault); });
}

CUSPAN_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return kNoDeviceOfPool;
    return GetPool(pool, device, PoolOf::kCurrent);
  });
}

CUSPAN_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return AnswerWithDriver([&](Session& known) -> Error {
    if (!HasDevice(known, device)) return kNoDeviceOfPool;
    return WithPool(pool, [&](Session& session, const auto& found) {
      return SetCurrentPool(session, device, found);
    });
  });
}

// --- Profiler: this process has nothing to profile

CUSPAN_EXPORT CUresult cuProfilerStart() {
  return AnswerInContext([](Session&) -> Error { return CUDA_SUCCESS; });
}

CUSPAN_EXPORT CUresult cuProfilerStop() {
  return AnswerInContext([](Session&) -> Error { return CUDA_SUCCESS; });
}
