// Executes commands from its standard input, a line each, and answers each with a line:
//
//   use N      a little work on device N; the name of the error, or "right" or "wrong"
//   sync N     waits for device N; the name of the error
//   spin N     a kernel on device N that never ends; the name of the error
//   query N    asks whether device N's default stream is done; the name of the error
//   loop N     works on device N until an error, and ends then
//   launch N   in a thread of its own, on device N: queries like a library before a launch,
//              launches by the driver's function, waits for the device, and launches again; the
//              four errors' numbers
//   explain N  the text, for a person, of the error given by a lost device
//   fault N    a kernel on device N writing to an invalid address; the name of the error
//   send N     begins a large copy to device N,
//   receive N  from it,
//   pass N     or from it to its neighbour (1 for 0, 0 for 1), in a stream of N's; "under way" when
//              a part has arrived, or the name of the error
//
// At the end of its input it exits with status 0.

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "use_cuda.h"

namespace {

__global__ void Spin(volatile int* go_on) {
  while (*go_on != 1) {
  }
}

const char* Use() {
  int result = 0;
  const cudaError_t error = AddSevenOnDevice(1, &result);
  if (error != cudaSuccess) return cudaGetErrorName(error);
  return result == 8 ? "right" : "wrong";
}

__global__ void WriteNowhere(int* nowhere) { *nowhere = 1; }

const char* StartFault() {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) {
    WriteNowhere<<<1, 1, 0, stream>>>(nullptr);
    error = cudaGetLastError();
  }
  return cudaGetErrorName(error);
}

// Large enough for a fault in the middle, if copies are slow.
constexpr size_t kCopyBytes = 64 << 20;

// Waits, on a stream of its own, for the first byte written by a copy.
cudaError_t FirstByteArrives(const unsigned char* memory) {
  cudaStream_t stream = nullptr;
  unsigned char* byte = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaMallocHost(reinterpret_cast<void**>(&byte), 1);
  if (error == cudaSuccess) *byte = 0;
  while (error == cudaSuccess && *byte == 0) {
    error = cudaMemcpyAsync(byte, memory, 1, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  }
  return error;
}

// Allocates memory on the current device and fills it.
cudaError_t MakeMemory(unsigned char** memory, int value) {
  cudaError_t error = cudaMalloc(reinterpret_cast<void**>(memory), kCopyBytes);
  if (error == cudaSuccess) error = cudaMemset(*memory, value, kCopyBytes);
  return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

cudaError_t StartCopy(const char* what, int device) {
  unsigned char* memory = nullptr;
  unsigned char* other = nullptr;
  cudaStream_t stream = nullptr;
  const bool sends = std::strcmp(what, "send") == 0;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = MakeMemory(&memory, sends ? 0 : 1);
  if (error != cudaSuccess) return error;
  if (std::strcmp(what, "pass") == 0) {
    error = cudaSetDevice(1 - device);
    if (error == cudaSuccess) error = MakeMemory(&other, 0);
    if (error == cudaSuccess) error = cudaSetDevice(device);
    if (error == cudaSuccess)
      error = cudaMemcpyPeerAsync(other, 1 - device, memory, device, kCopyBytes, stream);
    if (error == cudaSuccess) error = cudaSetDevice(1 - device);
    return error == cudaSuccess ? FirstByteArrives(other) : error;
  }
  // The program's own memory, for its participation in the copy at any location of the device.
  other = static_cast<unsigned char*>(std::malloc(kCopyBytes));
  std::memset(other, sends ? 1 : 0, kCopyBytes);
  error = cudaHostRegister(other, kCopyBytes, cudaHostRegisterDefault);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyAsync(sends ? memory : other, sends ? other : memory, kCopyBytes,
                          cudaMemcpyDefault, stream);
  if (error != cudaSuccess) return error;
  if (sends) return FirstByteArrives(memory);
  const volatile unsigned char* first = other;
  while (*first == 0) {
  }
  return cudaSuccess;
}

const char* StartSpin() {
  int* go_on = nullptr;
  cudaError_t error = cudaMalloc(&go_on, sizeof(int));
  if (error == cudaSuccess) error = cudaMemset(go_on, 0, sizeof(int));
  if (error == cudaSuccess) {
    Spin<<<1, 1>>>(go_on);
    error = cudaGetLastError();
  }
  return cudaGetErrorName(error);
}

// Address of a driver function; the driver is not linked here.
template <typename Function>
Function* DriverFunction(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result);
  return reinterpret_cast<Function*>(found);
}

__global__ void Nothing() {}

// Like libraries, looks up the kernel before the thread begins.
void LaunchByDriver(int device) {
  static cudaFunction_t kernels[16];
  static auto* const launch = DriverFunction<decltype(cuLaunchKernel)>("cuLaunchKernel");
  static auto* const occupancy =
      DriverFunction<decltype(cuOccupancyMaxActiveBlocksPerMultiprocessor)>(
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  static auto* const attribute = DriverFunction<decltype(cuFuncGetAttribute)>("cuFuncGetAttribute");
  static auto* const set_attribute =
      DriverFunction<decltype(cuFuncSetAttribute)>("cuFuncSetAttribute");
  static auto* const limit = DriverFunction<decltype(cuCtxGetLimit)>("cuCtxGetLimit");
  static auto* const capturing =
      DriverFunction<decltype(cuStreamIsCapturing)>("cuStreamIsCapturing");
  static auto* const synchronize = DriverFunction<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
  if (kernels[device] == nullptr)
    cudaGetFuncBySymbol(&kernels[device], reinterpret_cast<const void*>(Nothing));
  std::thread([&] {
    static_cast<void>(cudaSetDevice(device));
    const auto launch_one = [&] {
      return launch(kernels[device], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    };
    int value = 0;
    CUstreamCaptureStatus status;
    CUresult asked =
        set_attribute(kernels[device], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
    if (asked == CUDA_SUCCESS) asked = occupancy(&value, kernels[device], 32, 0);
    if (asked == CUDA_SUCCESS)
      asked = attribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernels[device]);
    std::size_t bytes = 0;
    if (asked == CUDA_SUCCESS) asked = limit(&bytes, CU_LIMIT_MALLOC_HEAP_SIZE);
    if (asked == CUDA_SUCCESS) asked = capturing(nullptr, &status);
    const CUresult first = launch_one();
    const CUresult waited = synchronize();
    std::printf("%d %d %d %d\n", asked, first, waited, launch_one());
  }).join();
}

}  // namespace

int main() {
  char line[256];
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    char command[16];
    int device = 0;
    if (std::sscanf(line, "%15s %d", command, &device) != 2) return 2;
    if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
      std::printf("%s\n", cudaGetErrorName(error));
      continue;
    }
    // Clears the thread's last error, possibly left by a command for another device.
    cudaGetLastError();
    if (std::strcmp(command, "use") == 0) {
      std::printf("%s\n", Use());
    } else if (std::strcmp(command, "sync") == 0) {
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (std::strcmp(command, "spin") == 0) {
      std::printf("%s\n", StartSpin());
    } else if (std::strcmp(command, "query") == 0) {
      std::printf("%s\n", cudaGetErrorName(cudaStreamQuery(nullptr)));
    } else if (std::strcmp(command, "launch") == 0) {
      LaunchByDriver(device);
    } else if (std::strcmp(command, "explain") == 0) {
      std::printf("%s\n", cudaGetErrorString(cudaErrorDevicesUnavailable));
    } else if (std::strcmp(command, "fault") == 0) {
      std::printf("%s\n", StartFault());
    } else if (std::strcmp(command, "send") == 0 || std::strcmp(command, "receive") == 0 ||
               std::strcmp(command, "pass") == 0) {
      const cudaError_t error = StartCopy(command, device);
      std::printf("%s\n", error == cudaSuccess ? "under way" : cudaGetErrorName(error));
    } else if (std::strcmp(command, "loop") == 0) {
      std::printf("looping\n");
      const char* said = "right";
      while (std::strcmp(said, "right") == 0) said = Use();
      std::printf("%s\n", said);
      return 1;
    } else {
      return 2;
    }
  }
  return 0;
}
