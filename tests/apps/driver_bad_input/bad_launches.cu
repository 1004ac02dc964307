// Launches, occupancy, and results of a context after a fault.
#include "group.h"

namespace {

CUlaunchConfig OneThread() {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  return config;
}

int threads = 0;
std::size_t SharedOf(int /*block*/) { return 0; }

}  // namespace

void Launches() {
  StartContext();
  const CUfunction kernel = LoadCode().kernel;
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 4096));
  unsigned count = 1;
  unsigned factor = 1;
  void* arguments[] = {&memory, &count, &factor};
  const auto launch = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared) {
    return cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, nullptr, arguments, nullptr);
  };
  BAD(launch(0, 1, 1, 1, 1, 1, 0));
  BAD(launch(1, 0, 1, 1, 1, 1, 0));
  BAD(launch(1, 1, 0, 1, 1, 1, 0));
  BAD(launch(1, 1, 1, 0, 1, 1, 0));
  BAD(launch(1, 1, 1, 1, 0, 1, 0));
  BAD(launch(1, 1, 1, 1, 1, 0, 0));
  BAD(launch(0x80000000, 1, 1, 1, 1, 1, 0));
  BAD(launch(1, 65536, 1, 1, 1, 1, 0));
  BAD(launch(1, 1, 65536, 1, 1, 1, 0));
  BAD(launch(1, 1, 1, 1025, 1, 1, 0));
  BAD(launch(1, 1, 1, 1, 1025, 1, 0));
  BAD(launch(1, 1, 1, 1, 1, 65, 0));
  BAD(launch(1, 1, 1, 64, 64, 1, 0));
  BAD(launch(1, 1, 1, 65536, 65536, 1, 0));
  BAD(launch(1, 1, 1, 1, 1, 1, 49152));
  BAD(launch(1, 1, 1, 1, 1, 1, 1 << 30));
  BAD(launch(1, 1, 1, 1, 1, 1, 0xFFFFFFFF));
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  BAD(cuLaunchCooperativeKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr));
  BAD(cuLaunchCooperativeKernel(kernel, 0, 1, 1, 1, 1, 1, 0, nullptr, arguments));
  BAD(cuLaunchCooperativeKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, nullptr, arguments));
  BAD(cuLaunchCooperativeKernel(kernel, 1 << 24, 1, 1, 1024, 1, 1, 0, nullptr, arguments));
  CUlaunchConfig config = OneThread();
  BAD(cuLaunchKernelEx(&config, kernel, nullptr, nullptr));
  config.gridDimX = 0;
  BAD_AS("cuLaunchKernelEx of no blocks", cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  config = OneThread();
  config.blockDimX = 2048;
  BAD_AS("cuLaunchKernelEx of too many threads",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  config = OneThread();
  CUlaunchAttribute attribute{};
  config.numAttrs = 1;
  config.attrs = &attribute;
  attribute.id = Rubbish<CUlaunchAttributeID>(99);
  BAD_AS("cuLaunchKernelEx with an unknown attribute",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  BAD_AS("cuLaunchKernelEx of half a cluster",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  attribute.value.clusterDim = {0, 1, 1};
  BAD_AS("cuLaunchKernelEx of clusters of nothing",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  config.gridDimX = 64;
  attribute.value.clusterDim = {64, 1, 1};
  BAD_AS("cuLaunchKernelEx of a cluster of 64",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
  BAD(cuLaunchHostFunc(nullptr, nullptr, nullptr));
  BAD(cuStreamSynchronize(nullptr));
  config.attrs = nullptr;
  BAD_AS("cuLaunchKernelEx with attributes that are nowhere",
         cuLaunchKernelEx(&config, kernel, arguments, nullptr));
}

void LaunchBuffers() {
  StartContext();
  const CUfunction kernel = LoadCode().kernel;
  // The kernel has 16 bytes of parameters.
  struct {
    CUdeviceptr words = 0;
    unsigned count = 0;
    unsigned factor = 0;
    char more[8192] = {};
  } buffer;
  unsigned count = 0;
  unsigned factor = 0;
  void* arguments[] = {&buffer.words, &count, &factor};
  std::size_t size = 16;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  const auto launch = [&](std::size_t bytes) {
    size = bytes;
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
  };
  BAD(launch(16));
  BAD(launch(0));
  BAD(launch(1));
  BAD(launch(8));
  BAD(launch(12));
  BAD(launch(15));
  BAD(launch(17));
  BAD(launch(24));
  BAD(launch(1000));
  BAD(launch(4096));
  BAD(launch(8192));
  size = 16;
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra));
  void* nothing[] = {CU_LAUNCH_PARAM_END};
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nothing));
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nothing));
  void* no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_END};
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, no_size));
  void* no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, no_buffer));
  void* null_buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, nullptr, CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &size, CU_LAUNCH_PARAM_END};
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, null_buffer));
  void* unknown[] = {reinterpret_cast<void*>(99), &buffer, CU_LAUNCH_PARAM_END};
  BAD(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, unknown));
  BAD(cuStreamSynchronize(nullptr));
}

void Occupancy() {
  StartContext();
  const CUfunction kernel = LoadCode().kernel;
  int blocks = 0;
  std::size_t bytes = 0;
  CUlaunchConfig config = OneThread();
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 128, 0));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 0, 0));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, -1, 0));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 100000, 0));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 1 << 30));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 128, 0, 99));
  BAD(cuOccupancyMaxPotentialBlockSize(nullptr, &threads, kernel, nullptr, 0, 0));
  BAD(cuOccupancyMaxPotentialBlockSize(&blocks, nullptr, kernel, nullptr, 0, 0));
  BAD(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, kernel, SharedOf, 0, -1));
  BAD(cuOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, kernel, nullptr, 0, 0, 99));
  FATAL(cuOccupancyAvailableDynamicSMemPerBlock(nullptr, kernel, 1, 128));
  BAD(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 0, 128));
  BAD(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 0));
  BAD(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 100000));
  BAD(cuOccupancyMaxPotentialClusterSize(nullptr, kernel, &config));
  BAD(cuOccupancyMaxPotentialClusterSize(&blocks, kernel, nullptr));
  BAD(cuOccupancyMaxActiveClusters(nullptr, kernel, &config));
  BAD(cuOccupancyMaxActiveClusters(&blocks, kernel, nullptr));
}

void AfterFault() {
  StartContext();
  const Code code = LoadCode();
  CUstream stream = nullptr;
  CUevent event = nullptr;
  // Results of failing calls: CUDA does not define their contents.
  CUstream no_stream = nullptr;
  CUevent no_event = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUcontext current = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  CUdeviceptr more = 0;
  std::size_t bytes = 0;
  unsigned flags = 0;
  void* host = nullptr;
  DRIVER(cuStreamCreate(&stream, 0));
  DRIVER(cuEventCreate(&event, 0));
  DRIVER(cuMemAlloc(&memory, 4096));
  CUdeviceptr nowhere = 0;
  unsigned count = 1;
  unsigned factor = 1;
  void* arguments[] = {&nowhere, &count, &factor};
  BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  BAD(cuStreamSynchronize(stream));
  BAD(cuStreamSynchronize(stream));
  BAD(cuStreamQuery(stream));
  BAD(cuCtxSynchronize());
  BAD(cuEventRecord(event, stream));
  BAD(cuEventQuery(event));
  BAD(cuEventCreate(&no_event, 0));
  BAD(cuStreamCreate(&no_stream, 0));
  BAD(cuMemAlloc(&more, 4096));
  BAD(cuMemAllocHost(&host, 4096));
  BAD(cuMemGetInfo(&bytes, &bytes));
  BAD(cuMemsetD8(memory, 0, 16));
  BAD(cuMemcpyDtoD(memory, memory + 16, 16));
  BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  BAD(cuModuleLoadData(&module, kPtx));
  BAD(cuModuleGetFunction(&kernel, code.module, "kernel"));
  BAD(cuModuleGetFunction(&kernel, code.module, "missing"));
  const char* name = nullptr;
  CUgraph graph = nullptr;
  int number = 0;
  BAD(cuFuncGetName(&name, code.kernel));
  BAD(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, code.kernel));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, code.kernel, 32, 0));
  BAD(cuMemGetAddressRange(&more, &bytes, memory));
  BAD(cuMemHostAlloc(&host, 16, 0));
  BAD(cuMemAllocAsync(&more, 16, nullptr));
  BAD(cuStreamGetFlags(stream, &flags));
  BAD(cuEventSynchronize(event));
  BAD(cuGraphCreate(&graph, 0));
  BAD(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
  BAD(cuCtxGetFlags(&flags));
  BAD(cuCtxGetCurrent(&current));
  BAD(cuCtxGetDevice(&device));
  BAD(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
  BAD(cuDeviceGetCount(&device));
  BAD(cuMemFree(memory));
  BAD(cuModuleUnload(code.module));
  BAD(cuCtxDestroy(current));
  BAD(cuCtxCreate(&current, nullptr, 0, 0));
  BAD(cuMemAlloc(&more, 4096));
}
