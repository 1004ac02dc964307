#include "interpose/runtime/device_properties_12.h"

#include <algorithm>
#include <iterator>

#include "interpose/calls/attributes.h"
#include "interpose/runtime/device_properties.h"

namespace cuspan {

DeviceProperties12 MakeProperties12(const DeviceDescription& device) {
  const auto get = [&](CUdevice_attribute which) { return VisibleAttribute(device, which); };
  const cudaDeviceProp now = MakeProperties(device);
  DeviceProperties12 p = {};
  std::copy(std::begin(now.name), std::end(now.name), p.name);
  p.uuid = now.uuid;
  std::copy(std::begin(now.luid), std::end(now.luid), p.luid);
  p.luidDeviceNodeMask = now.luidDeviceNodeMask;
  p.totalGlobalMem = now.totalGlobalMem;
  p.sharedMemPerBlock = now.sharedMemPerBlock;
  p.regsPerBlock = now.regsPerBlock;
  p.warpSize = now.warpSize;
  p.memPitch = now.memPitch;
  p.maxThreadsPerBlock = now.maxThreadsPerBlock;
  std::copy(std::begin(now.maxThreadsDim), std::end(now.maxThreadsDim), p.maxThreadsDim);
  std::copy(std::begin(now.maxGridSize), std::end(now.maxGridSize), p.maxGridSize);
  p.clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  p.totalConstMem = now.totalConstMem;
  p.major = now.major;
  p.minor = now.minor;
  p.textureAlignment = now.textureAlignment;
  p.texturePitchAlignment = now.texturePitchAlignment;
  p.deviceOverlap = get(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP);
  p.multiProcessorCount = now.multiProcessorCount;
  p.kernelExecTimeoutEnabled = get(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
  p.integrated = now.integrated;
  p.canMapHostMemory = now.canMapHostMemory;
  p.computeMode = get(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  p.maxTexture1D = now.maxTexture1D;
  p.maxTexture1DMipmap = now.maxTexture1DMipmap;
  p.maxTexture1DLinear = get(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
  std::copy(std::begin(now.maxTexture2D), std::end(now.maxTexture2D), p.maxTexture2D);
  std::copy(std::begin(now.maxTexture2DMipmap), std::end(now.maxTexture2DMipmap),
            p.maxTexture2DMipmap);
  std::copy(std::begin(now.maxTexture2DLinear), std::end(now.maxTexture2DLinear),
            p.maxTexture2DLinear);
  std::copy(std::begin(now.maxTexture2DGather), std::end(now.maxTexture2DGather),
            p.maxTexture2DGather);
  std::copy(std::begin(now.maxTexture3D), std::end(now.maxTexture3D), p.maxTexture3D);
  std::copy(std::begin(now.maxTexture3DAlt), std::end(now.maxTexture3DAlt), p.maxTexture3DAlt);
  p.maxTextureCubemap = now.maxTextureCubemap;
  std::copy(std::begin(now.maxTexture1DLayered), std::end(now.maxTexture1DLayered),
            p.maxTexture1DLayered);
  std::copy(std::begin(now.maxTexture2DLayered), std::end(now.maxTexture2DLayered),
            p.maxTexture2DLayered);
  std::copy(std::begin(now.maxTextureCubemapLayered), std::end(now.maxTextureCubemapLayered),
            p.maxTextureCubemapLayered);
  p.maxSurface1D = now.maxSurface1D;
  std::copy(std::begin(now.maxSurface2D), std::end(now.maxSurface2D), p.maxSurface2D);
  std::copy(std::begin(now.maxSurface3D), std::end(now.maxSurface3D), p.maxSurface3D);
  std::copy(std::begin(now.maxSurface1DLayered), std::end(now.maxSurface1DLayered),
            p.maxSurface1DLayered);
  std::copy(std::begin(now.maxSurface2DLayered), std::end(now.maxSurface2DLayered),
            p.maxSurface2DLayered);
  p.maxSurfaceCubemap = now.maxSurfaceCubemap;
  std::copy(std::begin(now.maxSurfaceCubemapLayered), std::end(now.maxSurfaceCubemapLayered),
            p.maxSurfaceCubemapLayered);
  p.surfaceAlignment = now.surfaceAlignment;
  p.concurrentKernels = now.concurrentKernels;
  p.ECCEnabled = now.ECCEnabled;
  p.pciBusID = now.pciBusID;
  p.pciDeviceID = now.pciDeviceID;
  p.pciDomainID = now.pciDomainID;
  p.tccDriver = now.tccDriver;
  p.asyncEngineCount = now.asyncEngineCount;
  p.unifiedAddressing = now.unifiedAddressing;
  p.memoryClockRate = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  p.memoryBusWidth = now.memoryBusWidth;
  p.l2CacheSize = now.l2CacheSize;
  p.persistingL2CacheMaxSize = now.persistingL2CacheMaxSize;
  p.maxThreadsPerMultiProcessor = now.maxThreadsPerMultiProcessor;
  p.streamPrioritiesSupported = now.streamPrioritiesSupported;
  p.globalL1CacheSupported = now.globalL1CacheSupported;
  p.localL1CacheSupported = now.localL1CacheSupported;
  p.sharedMemPerMultiprocessor = now.sharedMemPerMultiprocessor;
  p.regsPerMultiprocessor = now.regsPerMultiprocessor;
  p.managedMemory = now.managedMemory;
  p.isMultiGpuBoard = now.isMultiGpuBoard;
  p.multiGpuBoardGroupID = now.multiGpuBoardGroupID;
  p.hostNativeAtomicSupported = now.hostNativeAtomicSupported;
  p.singleToDoublePrecisionPerfRatio =
      get(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
  p.pageableMemoryAccess = now.pageableMemoryAccess;
  p.concurrentManagedAccess = now.concurrentManagedAccess;
  p.computePreemptionSupported = now.computePreemptionSupported;
  p.canUseHostPointerForRegisteredMem = now.canUseHostPointerForRegisteredMem;
  p.cooperativeLaunch = now.cooperativeLaunch;
  p.cooperativeMultiDeviceLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH);
  p.sharedMemPerBlockOptin = now.sharedMemPerBlockOptin;
  p.pageableMemoryAccessUsesHostPageTables = now.pageableMemoryAccessUsesHostPageTables;
  p.directManagedMemAccessFromHost = now.directManagedMemAccessFromHost;
  p.maxBlocksPerMultiProcessor = now.maxBlocksPerMultiProcessor;
  p.accessPolicyMaxWindowSize = now.accessPolicyMaxWindowSize;
  p.reservedSharedMemPerBlock = now.reservedSharedMemPerBlock;
  p.hostRegisterSupported = now.hostRegisterSupported;
  p.sparseCudaArraySupported = now.sparseCudaArraySupported;
  p.hostRegisterReadOnlySupported = now.hostRegisterReadOnlySupported;
  p.timelineSemaphoreInteropSupported = now.timelineSemaphoreInteropSupported;
  p.memoryPoolsSupported = now.memoryPoolsSupported;
  p.gpuDirectRDMASupported = now.gpuDirectRDMASupported;
  p.gpuDirectRDMAFlushWritesOptions = now.gpuDirectRDMAFlushWritesOptions;
  p.gpuDirectRDMAWritesOrdering = now.gpuDirectRDMAWritesOrdering;
  p.memoryPoolSupportedHandleTypes = now.memoryPoolSupportedHandleTypes;
  p.deferredMappingCudaArraySupported = now.deferredMappingCudaArraySupported;
  p.ipcEventSupported = now.ipcEventSupported;
  p.clusterLaunch = now.clusterLaunch;
  p.unifiedFunctionPointers = now.unifiedFunctionPointers;
  return p;
}

}  // namespace cuspan
