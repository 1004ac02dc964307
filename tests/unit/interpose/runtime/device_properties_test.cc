// Properties against the attributes documented for them.
#include "interpose/runtime/device_properties.h"
#include "interpose/calls/base/attributes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "interpose/runtime/device_properties_12.h"

namespace cuspan {
namespace {

// Returns a device with a distinct value for each attribute.
DeviceDescription Numbered() {
  DeviceDescription device;
  device.name = "a device";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    device.uuid[i] = static_cast<std::uint8_t>(i + 1);
  }
  device.memory_bytes = std::uint64_t{141} << 30;
  for (int i = 0; i < CU_DEVICE_ATTRIBUTE_MAX; ++i) device.attributes.push_back(1000 + i);
  return device;
}

TEST(DeviceProperties, HoldNameUuidAndMemory) {
  const cudaDeviceProp properties = MakeProperties(Numbered());
  EXPECT_STREQ(properties.name, "a device");
  EXPECT_EQ(properties.uuid.bytes[0], 1);
  EXPECT_EQ(properties.uuid.bytes[15], 16);
  EXPECT_EQ(properties.totalGlobalMem, std::size_t{141} << 30);
}

TEST(DeviceProperties, CutALongName) {
  DeviceDescription device = Numbered();
  device.name = std::string(1000, 'x');
  EXPECT_EQ(std::string(MakeProperties(device).name), std::string(255, 'x'));
}

TEST(DeviceProperties, AreTheAttributes) {
  const DeviceDescription device = Numbered();
  const cudaDeviceProp p = MakeProperties(device);
  const struct {
    cudaDeviceAttr attribute;
    std::size_t property;
  } pairs[] = {
      {cudaDevAttrMaxThreadsPerBlock, static_cast<std::size_t>(p.maxThreadsPerBlock)},
      {cudaDevAttrMaxBlockDimX, static_cast<std::size_t>(p.maxThreadsDim[0])},
      {cudaDevAttrMaxBlockDimY, static_cast<std::size_t>(p.maxThreadsDim[1])},
      {cudaDevAttrMaxBlockDimZ, static_cast<std::size_t>(p.maxThreadsDim[2])},
      {cudaDevAttrMaxGridDimX, static_cast<std::size_t>(p.maxGridSize[0])},
      {cudaDevAttrMaxGridDimY, static_cast<std::size_t>(p.maxGridSize[1])},
      {cudaDevAttrMaxGridDimZ, static_cast<std::size_t>(p.maxGridSize[2])},
      {cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor},
      {cudaDevAttrReservedSharedMemoryPerBlock, p.reservedSharedMemPerBlock},
      {cudaDevAttrTotalConstantMemory, p.totalConstMem},
      {cudaDevAttrWarpSize, static_cast<std::size_t>(p.warpSize)},
      {cudaDevAttrMaxPitch, p.memPitch},
      {cudaDevAttrMaxRegistersPerBlock, static_cast<std::size_t>(p.regsPerBlock)},
      {cudaDevAttrMultiProcessorCount, static_cast<std::size_t>(p.multiProcessorCount)},
      {cudaDevAttrComputeCapabilityMajor, static_cast<std::size_t>(p.major)},
      {cudaDevAttrComputeCapabilityMinor, static_cast<std::size_t>(p.minor)},
      {cudaDevAttrL2CacheSize, static_cast<std::size_t>(p.l2CacheSize)},
      {cudaDevAttrMaxThreadsPerMultiProcessor,
       static_cast<std::size_t>(p.maxThreadsPerMultiProcessor)},
      {cudaDevAttrMaxBlocksPerMultiprocessor,
       static_cast<std::size_t>(p.maxBlocksPerMultiProcessor)},
      {cudaDevAttrAsyncEngineCount, static_cast<std::size_t>(p.asyncEngineCount)},
      {cudaDevAttrCooperativeLaunch, static_cast<std::size_t>(p.cooperativeLaunch)},
      {cudaDevAttrTextureAlignment, p.textureAlignment},
      {cudaDevAttrMaxTexture3DDepthAlt, static_cast<std::size_t>(p.maxTexture3DAlt[2])},
      {cudaDevAttrMaxSurfaceCubemapLayeredLayers,
       static_cast<std::size_t>(p.maxSurfaceCubemapLayered[1])},
      {cudaDevAttrPciBusId, static_cast<std::size_t>(p.pciBusID)},
      {cudaDevAttrPciDomainId, static_cast<std::size_t>(p.pciDomainID)},
  };
  for (const auto& pair : pairs) {
    EXPECT_EQ(pair.property, 1000U + pair.attribute) << "attribute " << pair.attribute;
  }
}

// Features offered only to programs on the device's own host are hidden from others.
TEST(DeviceProperties, PromiseNothingThatIsNotKept) {
  const DeviceDescription device = Numbered();
  const cudaDeviceProp p = MakeProperties(device);
  EXPECT_EQ(p.concurrentManagedAccess, 0);
  EXPECT_EQ(p.pageableMemoryAccess, 0);
  EXPECT_EQ(p.hostNativeAtomicSupported, 0);
  EXPECT_EQ(p.gpuDirectRDMASupported, 0);
  EXPECT_EQ(p.integrated, 0);
  EXPECT_EQ(p.hostNumaId, -1);
  EXPECT_EQ(p.unifiedAddressing, 1);
  EXPECT_EQ(p.memoryPoolsSupported, 1);
  EXPECT_EQ(VisibleAttribute(device, cudaDevAttrConcurrentManagedAccess), 0);
  EXPECT_EQ(VisibleAttribute(device, cudaDevAttrUnifiedAddressing), 1);
}

TEST(DeviceProperties, SayThatKernelsShareManagedMemoryWithTheHostWhereTheyDo) {
  DeviceDescription device = Numbered();
  device.in_host_memory = true;
  EXPECT_NE(VisibleAttribute(device, cudaDevAttrConcurrentManagedAccess), 0);
  EXPECT_NE(MakeProperties(device).concurrentManagedAccess, 0);
}

TEST(DeviceProperties, AttributesBeyondTheSnapshotAreZero) {
  DeviceDescription device;
  device.attributes = {0, 1024};
  EXPECT_EQ(AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(AttributeOf(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE), 0);
  EXPECT_EQ(AttributeOf(device, -1), 0);
  EXPECT_EQ(MakeProperties(device).warpSize, 0);
}

TEST(DeviceProperties12, HoldWhatCuda13Dropped) {
  const DeviceDescription device = Numbered();
  const DeviceProperties12 old = MakeProperties12(device);
  const cudaDeviceProp now = MakeProperties(device);
  EXPECT_EQ(old.clockRate, 1000 + CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(old.memoryClockRate, 1000 + CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  EXPECT_EQ(old.computeMode, 1000 + CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  EXPECT_STREQ(old.name, now.name);
  EXPECT_EQ(old.multiProcessorCount, now.multiProcessorCount);
  EXPECT_EQ(old.maxGridSize[2], now.maxGridSize[2]);
  EXPECT_EQ(old.unifiedFunctionPointers, now.unifiedFunctionPointers);
}

TEST(Priorities, ZeroMeansNone) {
  DeviceDescription device;
  EXPECT_EQ(PrioritiesOf(device).least, 0);
  EXPECT_EQ(PrioritiesOf(device).greatest, 0);
  EXPECT_LT(PrioritiesOf(Numbered()).greatest, PrioritiesOf(Numbered()).least);
}

}  // namespace
}  // namespace cuspan
