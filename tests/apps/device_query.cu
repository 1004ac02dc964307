// Lists the devices, and checks that all ways to query one agree.
//
//   device_query
#include <cstdio>
#include <cstring>

#include "check.h"

namespace {

__global__ void WriteWarpSize(int* out) { *out = warpSize; }

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = -1;
  CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

// Attributes, and the equivalent fields of cudaDeviceProp.
int CompareWithAttributes(const cudaDeviceProp& properties, int device) {
  const struct {
    const char* name;
    cudaDeviceAttr attribute;
    long long field;
  } facts[] = {
      {"warpSize", cudaDevAttrWarpSize, properties.warpSize},
      {"maxThreadsPerBlock", cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
      {"maxThreadsDim[0]", cudaDevAttrMaxBlockDimX, properties.maxThreadsDim[0]},
      {"maxThreadsDim[1]", cudaDevAttrMaxBlockDimY, properties.maxThreadsDim[1]},
      {"maxThreadsDim[2]", cudaDevAttrMaxBlockDimZ, properties.maxThreadsDim[2]},
      {"maxGridSize[0]", cudaDevAttrMaxGridDimX, properties.maxGridSize[0]},
      {"maxGridSize[1]", cudaDevAttrMaxGridDimY, properties.maxGridSize[1]},
      {"maxGridSize[2]", cudaDevAttrMaxGridDimZ, properties.maxGridSize[2]},
      {"sharedMemPerBlock", cudaDevAttrMaxSharedMemoryPerBlock,
       static_cast<long long>(properties.sharedMemPerBlock)},
      {"sharedMemPerBlockOptin", cudaDevAttrMaxSharedMemoryPerBlockOptin,
       static_cast<long long>(properties.sharedMemPerBlockOptin)},
      {"sharedMemPerMultiprocessor", cudaDevAttrMaxSharedMemoryPerMultiprocessor,
       static_cast<long long>(properties.sharedMemPerMultiprocessor)},
      {"totalConstMem", cudaDevAttrTotalConstantMemory,
       static_cast<long long>(properties.totalConstMem)},
      {"regsPerBlock", cudaDevAttrMaxRegistersPerBlock, properties.regsPerBlock},
      {"major", cudaDevAttrComputeCapabilityMajor, properties.major},
      {"minor", cudaDevAttrComputeCapabilityMinor, properties.minor},
      {"multiProcessorCount", cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
      {"maxThreadsPerMultiProcessor", cudaDevAttrMaxThreadsPerMultiProcessor,
       properties.maxThreadsPerMultiProcessor},
      {"asyncEngineCount", cudaDevAttrAsyncEngineCount, properties.asyncEngineCount},
      {"unifiedAddressing", cudaDevAttrUnifiedAddressing, properties.unifiedAddressing},
      {"canMapHostMemory", cudaDevAttrCanMapHostMemory, properties.canMapHostMemory},
      {"managedMemory", cudaDevAttrManagedMemory, properties.managedMemory},
      {"concurrentKernels", cudaDevAttrConcurrentKernels, properties.concurrentKernels},
      {"l2CacheSize", cudaDevAttrL2CacheSize, properties.l2CacheSize},
      {"memoryBusWidth", cudaDevAttrGlobalMemoryBusWidth, properties.memoryBusWidth},
      {"pciBusID", cudaDevAttrPciBusId, properties.pciBusID},
      {"pciDeviceID", cudaDevAttrPciDeviceId, properties.pciDeviceID},
      {"pciDomainID", cudaDevAttrPciDomainId, properties.pciDomainID},
      {"integrated", cudaDevAttrIntegrated, properties.integrated},
      {"cooperativeLaunch", cudaDevAttrCooperativeLaunch, properties.cooperativeLaunch},
  };
  int failures = 0;
  for (const auto& fact : facts) {
    const int attribute = Attribute(fact.attribute, device);
    EXPECT(attribute == fact.field, "device %d: %s is %lld, its attribute %d", device, fact.name,
           fact.field, attribute);
  }
  return failures;
}

// Properties of every device supported by CUDA.
int CheckPlausible(const cudaDeviceProp& properties) {
  int failures = 0;
  EXPECT(std::strlen(properties.name) > 0, "the device has no name");
  EXPECT(properties.warpSize == 32, "warpSize is %d", properties.warpSize);
  EXPECT(properties.maxThreadsPerBlock >= 1024, "%d threads", properties.maxThreadsPerBlock);
  EXPECT(properties.maxThreadsDim[2] >= 64, "%d in z", properties.maxThreadsDim[2]);
  EXPECT(properties.maxGridSize[0] == 2147483647, "grids of %d", properties.maxGridSize[0]);
  EXPECT(properties.sharedMemPerBlock >= 48 * 1024, "%zu bytes", properties.sharedMemPerBlock);
  EXPECT(properties.totalConstMem == 64 * 1024, "%zu bytes", properties.totalConstMem);
  EXPECT(properties.multiProcessorCount >= 1, "%d", properties.multiProcessorCount);
  EXPECT(properties.unifiedAddressing == 1, "no unified addresses");
  return failures;
}

int QueryDevice(int device) {
  int failures = 0;
  CHECK(cudaSetDevice(device));
  int current = -1;
  CHECK(cudaGetDevice(&current));
  EXPECT(current == device, "device %d is current, not %d", current, device);

  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, device));
  size_t free_bytes = 0;
  size_t total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  unsigned flags = 0;
  CHECK(cudaGetDeviceFlags(&flags));
  std::printf("device %d: %s, compute capability %d.%d, %d multiprocessors, %zu MiB (%zu free)\n",
              device, properties.name, properties.major, properties.minor,
              properties.multiProcessorCount, total >> 20, free_bytes >> 20);

  failures += CompareWithAttributes(properties, device);
  failures += CheckPlausible(properties);
  EXPECT(total > 0 && free_bytes <= total, "%zu of %zu bytes are free", free_bytes, total);
  EXPECT(total == properties.totalGlobalMem, "%zu bytes in all, but the properties say %zu", total,
         properties.totalGlobalMem);

  int* out = nullptr;
  int warp_size = 0;
  CHECK(cudaMalloc(&out, sizeof(int)));
  WriteWarpSize<<<1, 1>>>(out);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&warp_size, out, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(out));
  EXPECT(warp_size == properties.warpSize, "a kernel sees warps of %d", warp_size);
  return failures;
}

}  // namespace

int main() {
  int driver = 0;
  int runtime = 0;
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  const int devices = DeviceCount();
  std::printf("%d %s, driver %d.%d, runtime %d.%d\n", devices, Devices(devices), driver / 1000,
              driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  int failures = 0;
  // A program runs with drivers of its own major version and newer ones.
  EXPECT(driver / 1000 >= CUDART_VERSION / 1000, "the driver is version %d", driver);
  EXPECT(runtime / 1000 == CUDART_VERSION / 1000, "compiled with %d, running with %d",
         CUDART_VERSION, runtime);
  for (int device = 0; device < devices; ++device) failures += QueryDevice(device);
  std::printf("device_query: %d %s: %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
