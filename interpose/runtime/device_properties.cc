#include "interpose/runtime/device_properties.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "interpose/calls/base/attributes.h"
#include "interpose/runtime/device_properties_12.h"

namespace cuspan {
namespace {

// Properties: the structure of a CUDA release.
template <typename Properties>
Properties Make(const DeviceDescription& device) {
  Properties p = {};
  std::memcpy(p.name, device.name.data(), std::min(device.name.size(), sizeof p.name - 1));
  static_assert(sizeof p.uuid.bytes == sizeof device.uuid);
  std::memcpy(p.uuid.bytes, device.uuid.data(), sizeof p.uuid.bytes);
  p.totalGlobalMem = device.memory_bytes;
#define SET(field, attribute)                                          \
  p.field = static_cast<std::remove_reference_t<decltype((p.field))>>( \
      VisibleAttribute(device, CU_DEVICE_ATTRIBUTE_##attribute))
  // Threads, registers, shared memory
  SET(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK);
  SET(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  SET(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  SET(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK);
  SET(regsPerBlock, MAX_REGISTERS_PER_BLOCK);
  SET(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR);
  SET(warpSize, WARP_SIZE);
  SET(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
  SET(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR);
  SET(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR);
  SET(maxThreadsDim[0], MAX_BLOCK_DIM_X);
  SET(maxThreadsDim[1], MAX_BLOCK_DIM_Y);
  SET(maxThreadsDim[2], MAX_BLOCK_DIM_Z);
  SET(maxGridSize[0], MAX_GRID_DIM_X);
  SET(maxGridSize[1], MAX_GRID_DIM_Y);
  SET(maxGridSize[2], MAX_GRID_DIM_Z);
  SET(multiProcessorCount, MULTIPROCESSOR_COUNT);
  SET(major, COMPUTE_CAPABILITY_MAJOR);
  SET(minor, COMPUTE_CAPABILITY_MINOR);
  SET(concurrentKernels, CONCURRENT_KERNELS);
  SET(asyncEngineCount, ASYNC_ENGINE_COUNT);
  SET(cooperativeLaunch, COOPERATIVE_LAUNCH);
  SET(clusterLaunch, CLUSTER_LAUNCH);
  SET(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED);
  SET(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED);
  SET(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS);
  // Memory and caches
  SET(memPitch, MAX_PITCH);
  SET(totalConstMem, TOTAL_CONSTANT_MEMORY);
  SET(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH);
  SET(l2CacheSize, L2_CACHE_SIZE);
  SET(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE);
  SET(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE);
  SET(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED);
  SET(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED);
  SET(ECCEnabled, ECC_ENABLED);
  SET(integrated, INTEGRATED);
  SET(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED);
  SET(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES);
  // The host's memory
  SET(unifiedAddressing, UNIFIED_ADDRESSING);
  SET(canMapHostMemory, CAN_MAP_HOST_MEMORY);
  SET(managedMemory, MANAGED_MEMORY);
  SET(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS);
  SET(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  SET(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS);
  SET(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  SET(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED);
  SET(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  SET(hostRegisterSupported, HOST_REGISTER_SUPPORTED);
  SET(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED);
  // Textures and surfaces
  SET(textureAlignment, TEXTURE_ALIGNMENT);
  SET(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT);
  SET(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH);
  SET(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
  SET(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH);
  SET(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS);
  SET(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH);
  SET(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT);
  SET(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH);
  SET(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT);
  SET(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
  SET(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
  SET(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH);
  SET(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH);
  SET(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT);
  SET(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH);
  SET(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
  SET(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
  SET(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH);
  SET(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT);
  SET(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH);
  SET(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE);
  SET(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE);
  SET(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE);
  SET(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH);
  SET(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH);
  SET(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS);
  SET(surfaceAlignment, SURFACE_ALIGNMENT);
  SET(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH);
  SET(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH);
  SET(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS);
  SET(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH);
  SET(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT);
  SET(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH);
  SET(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT);
  SET(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS);
  SET(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH);
  SET(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT);
  SET(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH);
  SET(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH);
  SET(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH);
  SET(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS);
  SET(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED);
  SET(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  // Location and neighbours
  SET(pciBusID, PCI_BUS_ID);
  SET(pciDeviceID, PCI_DEVICE_ID);
  SET(pciDomainID, PCI_DOMAIN_ID);
  SET(tccDriver, TCC_DRIVER);
  SET(isMultiGpuBoard, MULTI_GPU_BOARD);
  SET(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID);
  SET(ipcEventSupported, IPC_EVENT_SUPPORTED);
  SET(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  SET(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED);
  SET(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  SET(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING);
  if constexpr (std::is_same_v<Properties, DeviceProperties12>) {
    // Removed in CUDA 13
    SET(clockRate, CLOCK_RATE);
    SET(deviceOverlap, GPU_OVERLAP);
    SET(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT);
    SET(computeMode, COMPUTE_MODE);
    SET(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    SET(memoryClockRate, MEMORY_CLOCK_RATE);
    SET(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
    SET(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH);
  } else {
    // New in CUDA 13
    SET(deviceNumaConfig, NUMA_CONFIG);
    SET(deviceNumaId, NUMA_ID);
    SET(hostNumaId, HOST_NUMA_ID);
    SET(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED);
    SET(gpuPciDeviceID, GPU_PCI_DEVICE_ID);
    SET(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID);
    SET(mpsEnabled, MPS_ENABLED);
  }
#undef SET
  return p;
}

}  // namespace

cudaDeviceProp MakeProperties(const DeviceDescription& device) {
  return Make<cudaDeviceProp>(device);
}

DeviceProperties12 MakeProperties12(const DeviceDescription& device) {
  return Make<DeviceProperties12>(device);
}

}  // namespace cuspan
