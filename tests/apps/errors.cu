// Results of invalid calls, a thread's last error, and the effects of a kernel's fault on the rest
// of the process.
//
//   errors [calls|fault|reset]
//
// The argument selects the last step. `calls` makes invalid calls only. `fault` (the default) also
// runs a kernel writing to an unmapped address. `reset` then resets the device and uses it again.
// CUDA does not guarantee this: its documentation requires the end of the program after a fault
// like this. An H200 with driver 580 returns cudaErrorDevicesUnavailable after the reset.
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

int failures = 0;

__global__ void Increment(int* value) { *value += 1; }
__global__ void UseShared(int* value) {
  extern __shared__ int buffer[];
  buffer[threadIdx.x] = *value;
  *value = buffer[threadIdx.x] + 1;
}
__device__ int device_variable[4];

// Checks the last error after a call returning `error`: cudaPeekAtLastError keeps it,
// cudaGetLastError clears it.
void CheckLastError(cudaError_t error, const char* call) {
  EXPECT(cudaPeekAtLastError() == error, "%s: wrong last error", call);
  EXPECT(cudaPeekAtLastError() == error, "%s: the look cleared the last error", call);
  EXPECT(cudaGetLastError() == error, "%s: wrong last error when taken", call);
  EXPECT(cudaGetLastError() == cudaSuccess, "%s: the last error stays", call);
}

// Checks the call's result, and the last error.
#define EXPECT_ERROR(expected, call)                                           \
  do {                                                                         \
    const cudaError_t got = (call);                                            \
    EXPECT(got == (expected), "%s returned %s", #call, cudaGetErrorName(got)); \
    CheckLastError(got, #call);                                                \
  } while (false)

// Calls with different results in CUDA's documentation and in its runtime 13.0. Both are accepted.
#define EXPECT_EITHER(documented, observed, call)                             \
  do {                                                                        \
    const cudaError_t got = (call);                                           \
    EXPECT(got == (documented) || got == (observed), "%s returned %s", #call, \
           cudaGetErrorName(got));                                            \
    CheckLastError(got, #call);                                               \
  } while (false)

// Result of a launch with a shape not supported by the device. A launch has no result of its own:
// its error is the last error.
constexpr cudaError_t kWrongShape =
    CUDART_VERSION < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
#define EXPECT_SHAPE_REFUSED(...) EXPECT_ERROR(kWrongShape, (__VA_ARGS__, cudaPeekAtLastError()))

void NamesAndStrings() {
  EXPECT(std::strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0, "its name is %s",
         cudaGetErrorName(cudaSuccess));
  EXPECT(std::strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0, "its text is %s",
         cudaGetErrorString(cudaSuccess));
  EXPECT(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0,
         "its name is %s", cudaGetErrorName(cudaErrorMemoryAllocation));
  EXPECT(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0,
         "its text is %s", cudaGetErrorString(cudaErrorMemoryAllocation));
  const auto unknown = static_cast<cudaError_t>(123456);
  EXPECT(std::strcmp(cudaGetErrorString(unknown), "unrecognized error code") == 0, "its text is %s",
         cudaGetErrorString(unknown));
}

void WrongDevices() {
  const int count = DeviceCount();
  cudaDeviceProp properties;
  int value = 0;
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(count));
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(-1));
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, count));
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count));
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(100000), 0));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaGetDeviceCount(nullptr));
  CHECK(cudaGetDevice(&value));
  EXPECT(value == 0, "after refused choices device %d is current", value);
}

void WrongMemoryCalls() {
  char* device = nullptr;
  char host[256] = {};
  CHECK(cudaMalloc(&device, 256));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMalloc(static_cast<void**>(nullptr), 4));
  EXPECT_ERROR(cudaErrorInvalidMemcpyDirection,
               cudaMemcpy(device, host, 4, static_cast<cudaMemcpyKind>(99)));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(device, nullptr, 4, cudaMemcpyHostToDevice));
  // Neither pointer is a device pointer, contrary to the kind.
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(host + 8, host, 4, cudaMemcpyDeviceToDevice));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMemset(nullptr, 0, 4));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(host));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(device + 16));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaFreeHost(host));
  EXPECT_ERROR(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(host));

  // These have no effect, and are allowed.
  CHECK(cudaFree(nullptr));
  CHECK(cudaFreeHost(nullptr));
  CHECK(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device, 0, 0));
  char* nothing = device;
  CHECK(cudaMalloc(&nothing, 0));
  EXPECT(nothing == nullptr, "cudaMalloc of 0 bytes gave %p", static_cast<void*>(nothing));

  std::vector<char> page(1 << 16);
  CHECK(cudaHostRegister(page.data(), page.size(), cudaHostRegisterDefault));
  EXPECT_ERROR(cudaErrorHostMemoryAlreadyRegistered,
               cudaHostRegister(page.data(), page.size(), cudaHostRegisterDefault));
  CHECK(cudaHostUnregister(page.data()));
  CHECK(cudaFree(device));
}

void OutOfMemory() {
  size_t free_bytes = 0;
  size_t total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  void* memory = &total;
  EXPECT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&memory, total + (total / 2)));
  EXPECT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&memory, SIZE_MAX / 2));
  // The device still works.
  int* value = nullptr;
  int host = 41;
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMemcpy(value, &host, sizeof(int), cudaMemcpyHostToDevice));
  Increment<<<1, 1>>>(value);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&host, value, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host == 42, "after running out of memory the kernel gave %d", host);
  CHECK(cudaFree(value));
}

void WrongStreamsAndEvents() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  EXPECT_ERROR(cudaErrorInvalidValue, cudaStreamCreate(nullptr));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 0x100));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 0x100));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaStreamDestroy(nullptr));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaEventDestroy(nullptr));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaEventRecord(nullptr, nullptr));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaEventSynchronize(nullptr));
}

void WrongLaunches() {
  int* value = nullptr;
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMemset(value, 0, sizeof(int)));
  EXPECT_SHAPE_REFUSED(Increment<<<1, 1025>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<1, dim3(1024, 2)>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<0, 1>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<1, 0>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<1, dim3(1, 1, 65)>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<dim3(1, 65536), 1>>>(value));
  EXPECT_SHAPE_REFUSED(Increment<<<dim3(1, 1, 65536), 1>>>(value));
  // More dynamic shared memory than allowed by the attribute.
  EXPECT_ERROR(cudaErrorInvalidValue,
               (UseShared<<<1, 1, 64 * 1024>>>(value), cudaPeekAtLastError()));
  // A node of a graph has no separate error for shapes.
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  void* arguments[] = {&value};
  cudaKernelNodeParams parameters = {};
  parameters.func = reinterpret_cast<void*>(Increment);
  parameters.gridDim = dim3(1, 65536);
  parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  CHECK(cudaGraphCreate(&graph, 0));
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDeviceSynchronize());
  int host = -1;
  CHECK(cudaMemcpy(&host, value, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host == 0, "a refused launch ran: the value is %d", host);

  EXPECT_ERROR(
      cudaErrorInvalidValue,
      cudaFuncSetAttribute(UseShared, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 28));
  cudaFuncAttributes attributes;
  EXPECT_EITHER(
      cudaErrorInvalidDeviceFunction, cudaErrorInvalidResourceHandle,
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&NamesAndStrings)));
  const int numbers[8] = {};
  EXPECT_ERROR(cudaErrorInvalidSymbol,
               cudaMemcpyToSymbol(static_cast<const void*>(&failures), numbers, sizeof(int)));
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaMemcpyToSymbol(device_variable, numbers, sizeof(numbers)));
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaMemcpyToSymbol(device_variable, numbers, sizeof(int), sizeof(device_variable)));
  CHECK(cudaFree(value));
}

// A capture continues after a launch without a kernel, and is invalidated by a refused launch.
void WrongLaunchesInCaptures() {
  static int none = 0;
  int* value = nullptr;
  void* arguments[] = {&value};
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const cudaError_t missing = cudaLaunchKernel(&none, dim3(1), dim3(1), arguments, 0, stream);
  EXPECT(missing != cudaSuccess, "an int was launched");
  (void)cudaGetLastError();
  CHECK(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusActive, "status %d", static_cast<int>(status));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_ERROR(kWrongShape, cudaLaunchKernel(reinterpret_cast<const void*>(Increment), dim3(0),
                                             dim3(1), arguments, 0, stream));
  EXPECT_ERROR(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_ERROR(cudaErrorStreamCaptureUnsupported, cudaGraphLaunch(nullptr, stream));
  EXPECT_ERROR(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CHECK(cudaStreamDestroy(stream));
}

// A later success does not clear an error. Another thread does not see it.
void LastErrorBelongsToItsThread() {
  const cudaError_t refused = cudaSetDevice(-1);
  EXPECT(refused == cudaErrorInvalidDevice, "device -1 was answered %s", cudaGetErrorName(refused));
  int device = 0;
  CHECK(cudaGetDevice(&device));
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidDevice, "a success cleared the last error");
  cudaError_t of_other_thread = cudaErrorUnknown;
  std::thread([&] { of_other_thread = cudaGetLastError(); }).join();
  EXPECT(of_other_thread == cudaSuccess, "another thread sees %s",
         cudaGetErrorName(of_other_thread));
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice, "the other thread took this one's error");
}

// Streams and events belong to a device. CUDA refuses a record mixing two devices.
void EventOfAnotherDevice() {
  if (DeviceCount() < 2) return;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreate(&event));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
}

// Uses the device after a reset: memory, kernels, and variables with their initial values.
void UseAfterReset() {
  int* value = nullptr;
  int host = 6;
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMemcpy(value, &host, sizeof(int), cudaMemcpyHostToDevice));
  Increment<<<1, 1>>>(value);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&host, value, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host == 7, "after the reset the kernel gave %d", host);
  int variable[4] = {1, 1, 1, 1};
  CHECK(cudaMemcpyFromSymbol(variable, device_variable, sizeof(variable)));
  EXPECT(variable[0] == 0, "after the reset the variable is %d", variable[0]);
  CHECK(cudaFree(value));
}

void SetVariable() {
  const int ones[4] = {1, 1, 1, 1};
  CHECK(cudaMemcpyToSymbol(device_variable, ones, sizeof(ones)));
}

// A reset of a healthy device frees the program's objects there and restores the initial state.
void ResetHealthyDevice() {
  int* value = nullptr;
  CHECK(cudaMalloc(&value, sizeof(int)));
  SetVariable();
  CHECK(cudaDeviceReset());
  UseAfterReset();
}

// A fault in a kernel is reported by waits for it, and by every later call on the device.
void Fault() {
  int* value = nullptr;
  CHECK(cudaMalloc(&value, sizeof(int)));
  Increment<<<1, 1>>>(reinterpret_cast<int*>(uintptr_t{16}));
  CHECK_LAUNCH();
  cudaError_t error = cudaDeviceSynchronize();
  EXPECT(error == cudaErrorIllegalAddress, "the fault was reported as %s", cudaGetErrorName(error));
  void* memory = nullptr;
  error = cudaMalloc(&memory, 4);
  EXPECT(error == cudaErrorIllegalAddress, "then cudaMalloc said %s", cudaGetErrorName(error));
  error = cudaGetLastError();
  EXPECT(error == cudaErrorIllegalAddress, "the last error is %s", cudaGetErrorName(error));
  // Reading the error does not repair the device.
  int host = 0;
  error = cudaMemcpy(&host, value, sizeof(int), cudaMemcpyDeviceToHost);
  EXPECT(error == cudaErrorIllegalAddress, "then cudaMemcpy said %s", cudaGetErrorName(error));
  Increment<<<1, 1>>>(value);
  error = cudaGetLastError();
  EXPECT(error == cudaErrorIllegalAddress, "a launch said %s", cudaGetErrorName(error));
  cudaError_t of_other_thread = cudaSuccess;
  std::thread([&] { of_other_thread = cudaDeviceSynchronize(); }).join();
  EXPECT(of_other_thread == cudaErrorIllegalAddress, "another thread was told %s",
         cudaGetErrorName(of_other_thread));
}

}  // namespace

int main(int argc, char** argv) {
  const char* until = argc > 1 ? argv[1] : "fault";
  const bool reset = std::strcmp(until, "reset") == 0;
  const bool fault = reset || std::strcmp(until, "fault") == 0;
  if (argc > 2 || (!fault && std::strcmp(until, "calls") != 0)) {
    std::fprintf(stderr, "usage: %s [calls|fault|reset]\n", argv[0]);
    return 2;
  }
  NamesAndStrings();
  WrongDevices();
  WrongMemoryCalls();
  OutOfMemory();
  WrongStreamsAndEvents();
  WrongLaunches();
  WrongLaunchesInCaptures();
  LastErrorBelongsToItsThread();
  EventOfAnotherDevice();
  ResetHealthyDevice();
  if (fault) {
    SetVariable();
    Fault();
  }
  if (reset) {
    CHECK(cudaDeviceReset());
    (void)cudaGetLastError();  // left by the fault in this thread
    UseAfterReset();
  }
  std::printf("errors: wrong calls%s%s: %s\n", fault ? ", a fault" : "", reset ? ", a reset" : "",
              Verdict(failures));
  return ExitStatus(failures);
}
