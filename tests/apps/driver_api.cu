// The CUDA driver API in a program without the runtime: contexts, modules from PTX, launches with
// single arguments and with a buffer, memory, copies, sets, streams, events, occupancy, and
// attributes of pointers.
//
//   driver_api
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

// words[i] = words[i] * factor + i, for i < count.
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry scale(.param .u64 words, .param .u32 count, .param .u32 factor)
{
  .reg .pred %p<2>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [factor];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r6, 4;
  add.u64 %rd4, %rd2, %rd3;
  ld.global.u32 %r7, [%rd4];
  mad.lo.u32 %r8, %r7, %r2, %r6;
  st.global.u32 [%rd4], %r8;
done:
  ret;
}
)";

constexpr unsigned kCount = 1000;

std::vector<unsigned> Read(CUdeviceptr words) {
  std::vector<unsigned> read(kCount);
  DRIVER(cuMemcpyDtoH(read.data(), words, kCount * sizeof(unsigned)));
  return read;
}

void CheckDevice(CUdevice device) {
  char name[64];
  DRIVER(cuDeviceGetName(name, sizeof name, device));
  EXPECT(name[0] != '\0', "no name");
  int major = 0;
  DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  EXPECT(major >= 5, "%d", major);
  std::size_t bytes = 0;
  DRIVER(cuDeviceTotalMem(&bytes, device));
  EXPECT(bytes > 0, "%zu", bytes);
  int version = 0;
  DRIVER(cuDriverGetVersion(&version));
  EXPECT(version >= 11000, "%d", version);
  EXPECT_RESULT(cuDeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_RESULT(cuDeviceGetAttribute(&major, static_cast<CUdevice_attribute>(0), 0),
                CUDA_ERROR_INVALID_VALUE);
}

void CheckContexts(CUdevice device) {
  CUcontext current = nullptr;
  DRIVER(cuCtxGetCurrent(&current));
  EXPECT(current == nullptr, "a context is current");
  CUdeviceptr memory = 0;
  EXPECT_RESULT(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
  // Pointers can be queried without a context.
  unsigned type = 7;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* answer = &type;
  const auto here = reinterpret_cast<CUdeviceptr>(&type);
  EXPECT_RESULT(cuPointerGetAttribute(&type, attribute, here), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuPointerGetAttributes(1, &attribute, &answer, here));
  EXPECT(type == 0, "%u", type);
  unsigned flags = 0;
  int active = 1;
  DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
  EXPECT(active == 0, "%d", active);
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
  EXPECT(active == 1, "%d", active);
  DRIVER(cuCtxPushCurrent(context));
  DRIVER(cuCtxGetCurrent(&current));
  EXPECT(current == context, "another context");
  CUdevice of_context = -1;
  DRIVER(cuCtxGetDevice(&of_context));
  EXPECT(of_context == device, "%d", of_context);
  DRIVER(cuMemAlloc(&memory, 16));
  DRIVER(cuMemFree(memory));
  DRIVER(cuCtxPopCurrent(&current));
  EXPECT(current == context, "another context");
  EXPECT_RESULT(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
  DRIVER(cuDevicePrimaryCtxRelease(device));
  DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
  EXPECT(active == 0, "%d", active);
  EXPECT_RESULT(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
}

void CheckModule() {
  CUmodule module = nullptr;
  DRIVER(cuModuleLoadData(&module, kPtx));
  CUfunction scale = nullptr;
  DRIVER(cuModuleGetFunction(&scale, module, "scale"));
  EXPECT_RESULT(cuModuleGetFunction(&scale, module, "missing"), CUDA_ERROR_NOT_FOUND);
  DRIVER(cuModuleGetFunction(&scale, module, "scale"));
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  DRIVER(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  unsigned value = 0;
  DRIVER(cuMemcpyDtoH(&value, counter, sizeof value));
  EXPECT(bytes == 4 && value == 7, "%zu bytes, %u", bytes, value);
  unsigned count = 0;
  DRIVER(cuModuleGetFunctionCount(&count, module));
  EXPECT(count == 1, "%u", count);
  std::size_t offset = 0;
  std::size_t size = 0;
  DRIVER(cuFuncGetParamInfo(scale, 2, &offset, &size));
  EXPECT(offset == 12 && size == 4, "at %zu, %zu bytes", offset, size);
  EXPECT_RESULT(cuFuncGetParamInfo(scale, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  int threads = 0;
  DRIVER(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, scale));
  EXPECT(threads >= 128, "%d", threads);
  int blocks = 0;
  DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 128, 0));
  EXPECT(blocks > 0, "%d", blocks);
  int grid = 0;
  int block = 0;
  DRIVER(cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, nullptr, 0, 0));
  EXPECT(grid > 0 && block > 0 && block <= threads, "%d of %d", grid, block);

  // Launches in both forms, in a stream.
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr words = 0;
  DRIVER(cuMemAlloc(&words, kCount * sizeof(unsigned)));
  DRIVER(cuMemsetD32Async(words, 1, kCount, stream));
  unsigned n = kCount;
  unsigned factor = 3;
  void* arguments[] = {&words, &n, &factor};
  DRIVER(
      cuLaunchKernel(scale, (kCount + 127) / 128, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr));
  struct {
    CUdeviceptr words;
    unsigned count;
    unsigned factor;
  } buffer{words, kCount, 2};
  std::size_t buffer_bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &buffer_bytes, CU_LAUNCH_PARAM_END};
  DRIVER(cuLaunchKernel(scale, (kCount + 127) / 128, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
  CUlaunchConfig config{};
  config.gridDimX = (kCount + 127) / 128;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  factor = 5;
  DRIVER(cuLaunchKernelEx(&config, scale, arguments, nullptr));
  DRIVER(cuStreamSynchronize(stream));
  const std::vector<unsigned> read = Read(words);
  for (unsigned i = 0; i < kCount; ++i) {
    const unsigned wanted = ((3 + i) * 2 + i) * 5 + i;
    if (read[i] != wanted) {
      EXPECT(false, "word %u is %u and not %u", i, read[i], wanted);
      break;
    }
  }
  // Arguments given twice, missing, of no bytes, or of too many.
  EXPECT_RESULT(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, arguments, extra),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
                CUDA_ERROR_INVALID_VALUE);
  buffer_bytes = 0;
  EXPECT_RESULT(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra),
                CUDA_ERROR_INVALID_VALUE);
  buffer_bytes = 1000;
  EXPECT_RESULT(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra),
                CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_RESULT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
                CUDA_ERROR_INVALID_HANDLE);
  DRIVER(cuMemFree(words));
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuModuleUnload(module));
  const char* const rubbish = "this is no device code";
  const CUresult refused = cuModuleLoadData(&module, rubbish);
  EXPECT(refused != CUDA_SUCCESS, "rubbish was loaded");
}

void CheckMemory() {
  CUdeviceptr words = 0;
  DRIVER(cuMemAlloc(&words, kCount * sizeof(unsigned)));
  std::vector<unsigned> sent(kCount);
  for (unsigned i = 0; i < kCount; ++i) sent[i] = i * i;
  DRIVER(cuMemcpyHtoD(words, sent.data(), kCount * sizeof(unsigned)));
  CUdeviceptr copy = 0;
  DRIVER(cuMemAlloc(&copy, kCount * sizeof(unsigned)));
  DRIVER(cuMemcpyDtoD(copy, words, kCount * sizeof(unsigned)));
  EXPECT(Read(copy) == sent, "the copy differs");
  DRIVER(cuMemsetD16(words, 0x1234, kCount * 2));
  EXPECT(Read(words)[kCount - 1] == 0x12341234, "%x", Read(words)[kCount - 1]);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  DRIVER(cuMemGetAddressRange(&base, &bytes, copy + 100));
  EXPECT(base == copy && bytes >= kCount * sizeof(unsigned), "%zu bytes", bytes);
  unsigned type = 0;
  DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, copy));
  EXPECT(type == CU_MEMORYTYPE_DEVICE, "%u", type);
  CUcontext context = nullptr;
  CUcontext current = nullptr;
  DRIVER(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, copy));
  DRIVER(cuCtxGetCurrent(&current));
  EXPECT(context == current, "another context");
  EXPECT_RESULT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      reinterpret_cast<CUdeviceptr>(sent.data())),
                CUDA_ERROR_INVALID_VALUE);
  void* pinned = nullptr;
  DRIVER(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT(type == CU_MEMORYTYPE_HOST, "%u", type);
  DRIVER(cuMemFreeHost(pinned));
  std::size_t free = 0;
  std::size_t total = 0;
  DRIVER(cuMemGetInfo(&free, &total));
  EXPECT(free > 0 && free <= total, "%zu of %zu", free, total);
  DRIVER(cuMemFree(copy));
  EXPECT_RESULT(cuMemFree(copy), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemAlloc(&copy, 0), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuMemFree(words));
}

void CheckEvents() {
  CUevent start = nullptr;
  CUevent end = nullptr;
  DRIVER(cuEventCreate(&start, CU_EVENT_DEFAULT));
  DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
  DRIVER(cuEventRecord(start, nullptr));
  DRIVER(cuEventRecord(end, nullptr));
  DRIVER(cuEventSynchronize(end));
  DRIVER(cuEventQuery(start));
  float milliseconds = -1;
  DRIVER(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0, "%f", milliseconds);
  DRIVER(cuEventDestroy(start));
  DRIVER(cuEventDestroy(end));
}

// Functions by name, as used by libraries.
void CheckNames() {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  DRIVER(cuGetProcAddress("cuMemAlloc", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  CUdeviceptr memory = 0;
  DRIVER(reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t)>(function)(&memory, 256));
  DRIVER(cuMemFree(memory));
  // The call succeeds, and the status has the problem (measured natively, driver 580).
  const auto refused = [&](const char* name, int version, CUdriverProcAddressQueryResult wanted) {
    DRIVER(cuGetProcAddress(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(function == nullptr && status == wanted, "%s: status %d", name,
           static_cast<int>(status));
  };
  refused("cuNoSuchFunction", 12000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  refused("cuLaunchKernelEx", 10000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  // A version is requested by its number, not by a suffix.
  refused("cuMemAlloc_v2", 12000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  int driver = 0;
  DRIVER(cuDriverGetVersion(&driver));
  EXPECT_RESULT(
      cuGetProcAddress("cuMemAlloc", &function, driver + 10, CU_GET_PROC_ADDRESS_DEFAULT, &status),
      CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

int main() {
  int count = 0;
  EXPECT_RESULT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_RESULT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGetCount(&count));
  EXPECT(count >= 1, "%d", count);
  CUdevice device = -1;
  DRIVER(cuDeviceGet(&device, 0));
  CheckDevice(device);
  CheckContexts(device);
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
  CheckModule();
  CheckMemory();
  CheckEvents();
  CheckNames();
  DRIVER(cuCtxSynchronize());
  DRIVER(cuDevicePrimaryCtxRelease(device));
  std::printf("driver_api: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
