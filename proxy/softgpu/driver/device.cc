// Devices and the driver itself: cuInit, cuDevice*, cuGetError*.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/log.h"
#include "proxy/softgpu/driver/device_identity.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* description;
};

constexpr ErrorText kErrors[] = {
#define CUSPAN_CUDA_ERROR(number, runtime, driver, text) \
  {static_cast<CUresult>(number), #driver, text},
#define CUSPAN_RUNTIME_ERROR(number, runtime, answer, text)
#define CUSPAN_DRIVER_ERROR(number, driver, text) {static_cast<CUresult>(number), #driver, text},
#include "common/cuda_errors.def"
#undef CUSPAN_CUDA_ERROR
#undef CUSPAN_RUNTIME_ERROR
#undef CUSPAN_DRIVER_ERROR
};

CUresult FindErrorText(CUresult error, const char* ErrorText::*text, const char** result) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *result = nullptr;
  for (const ErrorText& known : kErrors) {
    if (known.error != error) continue;
    *result = known.*text;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// Copies a text into a caller's buffer, truncated to its size.
CUresult CopyText(const std::string& text, char* buffer, int bytes) {
  if (buffer == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t length = std::min(text.size(), static_cast<std::size_t>(bytes) - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
  return CUDA_SUCCESS;
}

// Returns the attributes; 0 for features not listed, as they are missing.
int Attribute(const Driver& driver, CUdevice_attribute attribute, int ordinal) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return limits::kMaxThreads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      return limits::kMaxBlock[0];
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return limits::kMaxBlock[1];
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return limits::kMaxBlock[2];
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return limits::kMaxGrid[0];
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      return limits::kMaxGrid[1];
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return limits::kMaxGrid[2];
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return limits::kSharedPerBlock;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return limits::kSharedPerBlockOptIn;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return limits::kSharedPerProcessor;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return limits::kSharedReserved;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return limits::kConstantBytes;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return kWarpLanes;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return limits::kRegisters;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1000000;  // clock64 counts nanoseconds.
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 1600000;  // Plausible host: DDR4-3200.
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 128;  // Two channels of 64 bits.
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return limits::kTextureAlignment;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return limits::kTexturePitchAlignment;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH:
      return 131072;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT:
      return 65000;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH:
      return 2097120;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH:
      return 268435456;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH:
      return 16384;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE:
      return 8192;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH:
      return 32768;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS:
      return static_cast<int>(limits::kMaxLayers);
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS:
      return 2046;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return limits::Processors(driver.configuration.threads);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return limits::kThreadsPerProcessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return limits::kBlocksPerProcessor;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
      return 1;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return driver.configuration.capability_major >= 9 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 2;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return 2;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 2 << 20;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return CU_COMPUTEMODE_DEFAULT;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return driver.configuration.capability_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return driver.configuration.capability_minor;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return kPciDomain;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return PciBus(driver.devices[static_cast<std::size_t>(ordinal)]->number);
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
      return ordinal;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
      // 1 for processes using MPS. Kernels of several processes run concurrently in any case.
      return std::getenv("CUDA_MPS_PIPE_DIRECTORY") == nullptr ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return -1;
    default:
      return 0;
  }
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Status status = Driver::Initialize();
  if (status.ok()) return CUDA_SUCCESS;
  if (status.code() == StatusCode::kNotFound) return CUDA_ERROR_NO_DEVICE;
  LogError("{}", status.message());
  switch (status.code()) {
    case StatusCode::kInvalid:
      return CUDA_ERROR_INVALID_VALUE;
    case StatusCode::kRefused:
      return CUDA_ERROR_INVALID_DEVICE;
    case StatusCode::kExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      return CUDA_ERROR_NOT_INITIALIZED;
  }
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  return FindErrorText(error, &ErrorText::name, name);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGetErrorString(CUresult error, const char** description) {
  return FindErrorText(error, &ErrorText::description, description);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGetCount(int* count) {
  CUSPAN_SOFT_ENTER(driver);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver->devices.size());
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  CUSPAN_SOFT_ENTER(driver);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (driver->FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGetName(char* name, int bytes, CUdevice device) {
  CUSPAN_SOFT_ENTER(driver);
  if (driver->FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return CopyText(driver->configuration.name, name, bytes);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  CUSPAN_SOFT_ENTER(driver);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* found = driver->FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = Uuid(found->number);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  CUSPAN_SOFT_ENTER(driver);
  const Device* found = driver->FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  char address[32];
  std::snprintf(address, sizeof(address), "%04x:%02x:00.0", kPciDomain, PciBus(found->number));
  return CopyText(address, text, bytes);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  CUSPAN_SOFT_ENTER(driver);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* found = driver->FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = found->memory->total();
  return CUDA_SUCCESS;
}

// All devices are in one host's memory.
CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  CUSPAN_SOFT_ENTER(driver);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (driver->FindDevice(device) == nullptr || driver->FindDevice(peer) == nullptr)
    return CUDA_ERROR_INVALID_DEVICE;
  *can = device == peer ? 0 : 1;
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                                      CUdevice device) {
  CUSPAN_SOFT_ENTER(driver);
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (driver->FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *value = Attribute(*driver, attribute, device);
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
