// CUDA_LAUNCH_BLOCKING=1: a launch returns after the end of its kernel, and reports the kernel's
// error itself. The variable is read when CUDA is initialised, so the program sets it and starts
// itself again.
//
//   launch_blocking
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "driver_check.h"

namespace {

int failures = 0;

// Long enough: a launch without a wait returns before the end of the kernel.
constexpr long long kNanoseconds = 20'000'000;

__device__ long long Now() {
  long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void Spin(long long nanoseconds) {
  for (const long long start = Now(); Now() - start < nanoseconds;) {
  }
}

__global__ void Fault(int* nowhere) { *nowhere = 1; }

// The ways to launch a kernel with one argument, with a single thread.
struct Way {
  const char* name;
  cudaError_t (*launch)(const void* kernel, void** arguments, cudaStream_t stream);
};

cudaError_t Plain(const void* kernel, void** arguments, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t Cooperative(const void* kernel, void** arguments, cudaStream_t stream) {
  return cudaLaunchCooperativeKernel(kernel, dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t Configured(const void* kernel, void** arguments, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

// The numbers of both enumerations agree for these results.
cudaError_t OfDriver(const void* kernel, void** arguments, cudaStream_t stream) {
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, kernel));
  return static_cast<cudaError_t>(
      cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

constexpr Way kWays[] = {{"cudaLaunchKernel", Plain},
                         {"cudaLaunchCooperativeKernel", Cooperative},
                         {"cudaLaunchKernelExC", Configured},
                         {"cuLaunchKernel", OfDriver}};

void LaunchesWait() {
  cudaStream_t streams[4] = {nullptr, cudaStreamPerThread};
  CHECK(cudaStreamCreate(&streams[2]));
  CHECK(cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking));
  long long nanoseconds = kNanoseconds;
  void* arguments[] = {&nanoseconds};
  for (const Way& way : kWays) {
    for (int i = 0; i < 4; ++i) {
      CHECK(way.launch(reinterpret_cast<const void*>(Spin), arguments, streams[i]));
      const cudaError_t state = cudaStreamQuery(streams[i]);
      EXPECT(state == cudaSuccess, "%s into stream %d: %s", way.name, i, cudaGetErrorName(state));
      (void)cudaGetLastError();
    }
  }
  Spin<<<1, 1, 0, streams[2]>>>(kNanoseconds);
  CHECK_LAUNCH();
  CHECK(cudaStreamQuery(streams[2]));
}

// A captured launch runs with its graph.
void CapturesDoNotWait() {
  cudaStream_t stream;
  cudaGraph_t graph;
  size_t nodes = 0;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  Spin<<<1, 1, 0, stream>>>(kNanoseconds);
  CHECK_LAUNCH();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 1, "%zu nodes", nodes);
  CHECK(cudaGraphDestroy(graph));
}

// A fault makes the device unusable, so each launch needs a separate process.
void LaunchReportsFault(const Way& way) {
  int* nowhere = reinterpret_cast<int*>(uintptr_t{16});
  void* arguments[] = {&nowhere};
  const cudaError_t launched = way.launch(reinterpret_cast<const void*>(Fault), arguments, nullptr);
  EXPECT(launched == cudaErrorIllegalAddress, "%s: %s", way.name, cudaGetErrorName(launched));
}

void BracketsReportFault() {
  Fault<<<1, 1>>>(reinterpret_cast<int*>(uintptr_t{16}));
  const cudaError_t launched = cudaGetLastError();
  EXPECT(launched == cudaErrorIllegalAddress, "<<<>>>: %s", cudaGetErrorName(launched));
}

template <typename Test>
void InChild(Test&& test) {
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    test();
    _exit(ExitStatus(failures));
  }
  int status = -1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

}  // namespace

int main(int, char** argv) {
  constexpr const char* kVariable = "CUDA_LAUNCH_BLOCKING";
  const char* const set = getenv(kVariable);
  if (set == nullptr || std::strcmp(set, "1") != 0) {
    setenv(kVariable, "1", 1);
    execv("/proc/self/exe", argv);
    std::perror("execv");
    return EXIT_FAILURE;
  }
  for (const Way& way : kWays) InChild([&way] { LaunchReportsFault(way); });
  InChild(BracketsReportFault);
  LaunchesWait();
  CapturesDoNotWait();
  std::printf("launch_blocking: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
