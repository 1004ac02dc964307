// NVRTC compiles two sources to LTO IR, and nvJitLink links them to one cubin. The kernel of one
// calls a device function of the other and reads its table.
#include <cuda.h>
#include <nvJitLink.h>

#include "compile_check.h"

namespace {

constexpr const char* kKernelSource = R"(
extern __constant__ int weights[4];
__device__ long long Mixed(int x, int y);

extern "C" __global__ void Mix(const int* x, const int* y, long long* result, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) result[i] = Mixed(x[i], y[i]) + weights[i % 4];
}
)";

constexpr const char* kFunctionSource = R"(
__constant__ int weights[4] = {3, -5, 7, -11};

__device__ long long Mixed(int x, int y) {
  long long sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<long long>(weights[i]) * (x << i ^ y);
  return sum;
}
)";

constexpr int kWeights[] = {3, -5, 7, -11};

std::vector<char> Linked(const std::vector<std::vector<char>>& parts) {
  const std::string architecture = "-arch=sm_" + Capability();
  const char* options[] = {"-lto", architecture.c_str()};
  nvJitLinkHandle linker = nullptr;
  CHECK(nvJitLinkCreate(&linker, 2, options));
  for (const std::vector<char>& part : parts)
    CHECK(nvJitLinkAddData(linker, NVJITLINK_INPUT_LTOIR, part.data(), part.size(), "part"));
  CHECK(nvJitLinkComplete(linker));
  std::size_t size = 0;
  CHECK(nvJitLinkGetLinkedCubinSize(linker, &size));
  std::vector<char> cubin(size);
  CHECK(nvJitLinkGetLinkedCubin(linker, cubin.data()));
  CHECK(nvJitLinkDestroy(&linker));
  return cubin;
}

}  // namespace

int main() {
  // Creates the runtime's context; the driver's functions then use it.
  CHECK(cudaFree(nullptr));
  const std::vector<char> cubin = Linked({LtoIr(kKernelSource), LtoIr(kFunctionSource)});
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK(cuModuleLoadData(&module, cubin.data()));
  CHECK(cuModuleGetFunction(&function, module, "Mix"));

  std::vector<int> x(1000), y(1000);
  std::vector<long long> expected(1000);
  for (int i = 0; i < 1000; ++i) {
    x[i] = i * 97 + 5;
    y[i] = i * i + 1;
    expected[i] = kWeights[i % 4];
    for (int k = 0; k < 4; ++k)
      expected[i] += static_cast<long long>(kWeights[k]) * (x[i] << k ^ y[i]);
  }
  const DeviceVector<int> x_there(x), y_there(y);
  const DeviceVector<long long> result(x.size());
  const int *x_argument = x_there.get(), *y_argument = y_there.get();
  long long* result_argument = result.get();
  int size = 1000;
  void* arguments[] = {&x_argument, &y_argument, &result_argument, &size};
  CHECK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  REQUIRE(result.Read() == expected);
  CHECK(cuModuleUnload(module));
  std::puts("right");
}
