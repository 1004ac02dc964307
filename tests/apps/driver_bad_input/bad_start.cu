// Requests to the driver, to devices and to their primary contexts.
#include <string>

#include "group.h"

void BeforeInit() {
  int number = 0;
  unsigned flags = 0;
  std::size_t bytes = 0;
  std::size_t total = 0;
  char text[64];
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUlinkState linker = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUuuid uuid;
  CUmemoryPool pool = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  void* host = nullptr;
  BAD(cuInit(1));
  BAD(cuInit(0xFFFFFFFF));
  BAD(cuDriverGetVersion(nullptr));
  BAD(cuDriverGetVersion(&number));
  BAD(cuDeviceGetCount(&number));
  BAD(cuDeviceGetCount(nullptr));
  BAD(cuDeviceGet(&device, 0));
  BAD(cuDeviceGetName(text, sizeof text, 0));
  BAD(cuDeviceGetUuid(&uuid, 0));
  BAD(cuDeviceTotalMem(&bytes, 0));
  BAD(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  BAD(cuDeviceGetPCIBusId(text, sizeof text, 0));
  BAD(cuDeviceCanAccessPeer(&number, 0, 0));
  BAD(cuDeviceGetDefaultMemPool(&pool, 0));
  BAD(cuDevicePrimaryCtxRetain(&context, 0));
  BAD(cuDevicePrimaryCtxRelease(0));
  BAD(cuDevicePrimaryCtxReset(0));
  BAD(cuDevicePrimaryCtxGetState(0, &flags, &number));
  BAD(cuDevicePrimaryCtxSetFlags(0, 0));
  BAD(cuCtxCreate(&context, nullptr, 0, 0));
  BAD(cuCtxDestroy(nullptr));
  BAD(cuCtxGetCurrent(&context));
  BAD(cuCtxGetCurrent(nullptr));
  BAD(cuCtxSetCurrent(nullptr));
  BAD(cuCtxPushCurrent(nullptr));
  BAD(cuCtxPopCurrent(&context));
  BAD(cuCtxGetDevice(&device));
  BAD(cuCtxGetFlags(&flags));
  BAD(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
  BAD(cuCtxSynchronize());
  BAD(cuModuleLoadData(&module, kPtx));
  BAD(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLinkCreate(0, nullptr, nullptr, &linker));
  BAD(cuMemGetInfo(&bytes, &total));
  BAD(cuMemAlloc(&memory, 16));
  BAD(cuMemFree(0));
  BAD(cuMemAllocHost(&host, 16));
  BAD(cuMemFreeHost(nullptr));
  BAD(cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL));
  BAD(cuMemcpyDtoD(0, 0, 16));
  BAD(cuMemsetD8(0, 0, 16));
  BAD(cuMemAddressReserve(&memory, 2 << 20, 0, 0, 0));
  BAD(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
  BAD(cuStreamCreate(&stream, 0));
  BAD(cuStreamSynchronize(nullptr));
  BAD(cuEventCreate(&event, 0));
  BAD(cuGraphCreate(&graph, 0));
  BAD(cuThreadExchangeStreamCaptureMode(&mode));
  BAD(cuProfilerStart());
}

void Errors() {
  const char* text = nullptr;
  FATAL(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, nullptr));
  BAD(cuGetErrorName(Rubbish<CUresult>(99999), &text));
  BAD(cuGetErrorName(Rubbish<CUresult>(-1), &text));
  FATAL(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, nullptr));
  BAD(cuGetErrorString(Rubbish<CUresult>(99999), &text));
  BAD(cuGetErrorString(Rubbish<CUresult>(-1), &text));
}

namespace {

// Prints the status of a successful call.
void TellStatus(const char* name, int version) {
  const std::string text =
      "the status of \"" + std::string(name) + "\" in " + std::to_string(version);
  if (!Begin(text.c_str())) return;
  void* function = nullptr;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  DRIVER(cuGetProcAddress(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  Tell(text.c_str(), std::to_string(status) + (function != nullptr ? ", a function" : ", none"));
}

}  // namespace

void Names() {
  void* function = nullptr;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  Start();
  FATAL(cuGetProcAddress(nullptr, &function, 12000, 0, &status));
  FATAL(cuGetProcAddress("cuInit", nullptr, 12000, 0, &status));
  BAD(cuGetProcAddress("cuInit", &function, 12000, 0, nullptr));
  BAD(cuGetProcAddress("cuInit", &function, 12000, 4, &status));
  BAD(cuGetProcAddress("cuInit", &function, 12000, 3, &status));
  BAD(cuGetProcAddress("cuInit", &function, 99000, 0, &status));
  BAD(cuGetProcAddress("cuNothing", &function, 99000, 0, &status));
  BAD(cuGetProcAddress("cuInit", &function, 0, 0, &status));
  BAD(cuGetProcAddress("cuInit", &function, -1, 0, &status));
  BAD(cuGetProcAddress("", &function, 12000, 0, &status));
  BAD(cuGetProcAddress("cuNothing", &function, 12000, 0, &status));
  BAD(cuGetProcAddress("cuNothing", &function, 12000, 0, nullptr));
  TellStatus("cuInit", 12000);
  TellStatus("cuNothing", 12000);
  TellStatus("cuMemAlloc_v2", 12000);
  TellStatus("CUINIT", 12000);
  TellStatus("", 12000);
  TellStatus("cuLaunchKernelEx", 11050);
  TellStatus("cuInit", 1000);
}

void Devices() {
  int number = 0;
  int other = 0;
  std::size_t bytes = 0;
  cuuint64_t value = 0;
  char text[64];
  CUdevice device = 0;
  CUuuid uuid;
  CUdevprop properties;
  CUmemoryPool pool = nullptr;
  Start();
  BAD(cuInit(2));
  BAD(cuDriverGetVersion(nullptr));
  BAD(cuDeviceGetCount(nullptr));
  BAD(cuDeviceGet(nullptr, 0));
  BAD(cuDeviceGet(&device, -1));
  BAD(cuDeviceGet(&device, 1000));
  BAD(cuDeviceGetName(nullptr, 64, 0));
  FATAL(cuDeviceGetName(text, 0, 0));
  BAD(cuDeviceGetName(text, -1, 0));
  BAD(cuDeviceGetName(text, 4, 0));
  BAD(cuDeviceGetName(text, 64, -1));
  BAD(cuDeviceGetName(text, 64, 1000));
  BAD(cuDeviceGetUuid(nullptr, 0));
  BAD(cuDeviceGetUuid(&uuid, 1000));
  BAD(cuDeviceTotalMem(nullptr, 0));
  BAD(cuDeviceTotalMem(&bytes, 1000));
  BAD(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  BAD(cuDeviceGetAttribute(&number, Rubbish<CUdevice_attribute>(0), 0));
  BAD(cuDeviceGetAttribute(&number, Rubbish<CUdevice_attribute>(-1), 0));
  BAD(cuDeviceGetAttribute(&number, Rubbish<CUdevice_attribute>(100000), 0));
  BAD(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1));
  BAD(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000));
  BAD(cuDeviceComputeCapability(nullptr, &other, 0));
  BAD(cuDeviceComputeCapability(&number, nullptr, 0));
  BAD(cuDeviceComputeCapability(&number, &other, 1000));
  BAD(cuDeviceGetProperties(nullptr, 0));
  BAD(cuDeviceGetProperties(&properties, 1000));
  BAD(cuDeviceGetPCIBusId(nullptr, 64, 0));
  BAD(cuDeviceGetPCIBusId(text, 0, 0));
  BAD(cuDeviceGetPCIBusId(text, -1, 0));
  BAD(cuDeviceGetPCIBusId(text, 4, 0));
  BAD(cuDeviceGetPCIBusId(text, 64, 1000));
  BAD(cuDeviceGetByPCIBusId(nullptr, "0000:00:00.0"));
  BAD(cuDeviceGetByPCIBusId(&device, nullptr));
  BAD(cuDeviceGetByPCIBusId(&device, ""));
  BAD(cuDeviceGetByPCIBusId(&device, "rubbish"));
  BAD(cuDeviceGetByPCIBusId(&device, "ffff:ff:1f.0"));
  BAD(cuDeviceGetExecAffinitySupport(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
  BAD(cuDeviceGetExecAffinitySupport(&number, Rubbish<CUexecAffinityType>(99), 0));
  BAD(cuDeviceGetExecAffinitySupport(&number, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 1000));
  BAD(cuDeviceGetDefaultMemPool(nullptr, 0));
  BAD(cuDeviceGetDefaultMemPool(&pool, 1000));
  BAD(cuDeviceGetMemPool(nullptr, 0));
  BAD(cuDeviceGetMemPool(&pool, 1000));
  DRIVER(cuDeviceGetDefaultMemPool(&pool, 0));
  BAD(cuDeviceSetMemPool(1000, pool));
  BAD(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, nullptr));
  BAD(cuDeviceGetGraphMemAttribute(0, Rubbish<CUgraphMem_attribute>(99), &value));
  BAD(cuDeviceGetGraphMemAttribute(1000, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
  BAD(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
  BAD(cuDeviceSetGraphMemAttribute(0, Rubbish<CUgraphMem_attribute>(99), &value));
  BAD(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, nullptr));
  BAD(cuDeviceSetGraphMemAttribute(1000, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  BAD(cuDeviceGraphMemTrim(1000));
}

void PrimaryContexts() {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = 0;
  Start();
  BAD(cuDevicePrimaryCtxRelease(0));
  BAD(cuDevicePrimaryCtxReset(0));
  BAD(cuDevicePrimaryCtxRetain(nullptr, 0));
  BAD(cuDevicePrimaryCtxRetain(&context, -1));
  BAD(cuDevicePrimaryCtxRetain(&context, 1000));
  BAD(cuDevicePrimaryCtxRelease(1000));
  BAD(cuDevicePrimaryCtxReset(1000));
  BAD(cuDevicePrimaryCtxSetFlags(1000, 0));
  BAD(cuDevicePrimaryCtxSetFlags(0, 0x1000));
  BAD(cuDevicePrimaryCtxSetFlags(0, 3));
  BAD(cuDevicePrimaryCtxGetState(1000, &flags, &active));
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  BAD(cuCtxDestroy(context));
  DRIVER(cuCtxSetCurrent(context));
  DRIVER(cuDevicePrimaryCtxRelease(0));
  CUdeviceptr memory = 0;
  CUdevice device = 0;
  // Current, but released by all owners.
  BAD(cuMemAlloc(&memory, 16));
  BAD(cuCtxSynchronize());
  BAD(cuCtxGetDevice(&device));
  BAD(cuCtxGetFlags(&flags));
  BAD(cuDevicePrimaryCtxRelease(0));
}
