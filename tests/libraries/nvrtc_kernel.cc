// NVRTC compiles instances of a kernel template for the device; the driver loads and launches them.
// NVRTC also reports the line of an error in a program.
#include <cuda.h>

#include "compile_check.h"

namespace {

constexpr const char* kSource = R"(
#include "polynomial.h"

template <typename T, int kDegree>
__global__ void Evaluate(const T* x, T* y, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) y[i] = Polynomial<kDegree>(x[i]);
}
)";

constexpr const char* kHeader = R"(
__constant__ double coefficients[8];

template <int kDegree, typename T>
__device__ T Polynomial(T x) {
  T sum = 0;
  for (int i = kDegree; i >= 0; --i) sum = sum * x + static_cast<T>(coefficients[i]);
  return sum;
}
)";

const std::vector<double> kCoefficients = {0.5, -1, 2, 0.25, -3, 1.5, 0.125, -0.75};

template <typename T>
void Compare(const char* kernel, int degree, double tolerance) {
  const char* const header_name = "polynomial.h";
  nvrtcProgram program = nullptr;
  CHECK(nvrtcCreateProgram(&program, kSource, "evaluate.cu", 1, &kHeader, &header_name));
  CHECK(nvrtcAddNameExpression(program, kernel));
  CHECK(nvrtcAddNameExpression(program, "&coefficients"));
  const std::string architecture = "--gpu-architecture=sm_" + Capability();
  const char* const options[] = {architecture.c_str(), "--std=c++17"};
  CHECK(nvrtcCompileProgram(program, 2, options));
  const char *kernel_symbol = nullptr, *coefficients_symbol = nullptr;
  CHECK(nvrtcGetLoweredName(program, kernel, &kernel_symbol));
  CHECK(nvrtcGetLoweredName(program, "&coefficients", &coefficients_symbol));
  const std::vector<char> cubin = Output(program, nvrtcGetCUBINSize, nvrtcGetCUBIN);

  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr coefficients = 0;
  std::size_t size = 0;
  CHECK(cuModuleLoadData(&module, cubin.data()));
  CHECK(cuModuleGetFunction(&function, module, kernel_symbol));
  CHECK(cuModuleGetGlobal(&coefficients, &size, module, coefficients_symbol));
  REQUIRE(size == kCoefficients.size() * sizeof(double));
  CHECK(cuMemcpyHtoD(coefficients, kCoefficients.data(), size));
  // The lowered names are valid only until the program is destroyed.
  CHECK(nvrtcDestroyProgram(&program));

  const std::vector<T> x = RandomVector<T>(1000);
  const DeviceVector<T> x_there(x), y_there(x.size());
  std::vector<double> y;
  for (const double value : x) {
    double sum = 0;
    for (int i = 0; i <= degree; ++i) sum += kCoefficients[i] * std::pow(value, i);
    y.push_back(sum);
  }
  const T* x_argument = x_there.get();
  T* y_argument = y_there.get();
  int count = static_cast<int>(x.size());
  void* arguments[] = {&x_argument, &y_argument, &count};
  CHECK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  RequireNear(y_there.Read(), y, tolerance);
  CHECK(cuModuleUnload(module));
}

void CheckError() {
  nvrtcProgram program = nullptr;
  CHECK(nvrtcCreateProgram(&program, "__global__ void F(int* x) {\n  *x = 1;\n  *x = missing;\n}\n",
                           "wrong.cu", 0, nullptr, nullptr));
  REQUIRE(nvrtcCompileProgram(program, 0, nullptr) == NVRTC_ERROR_COMPILATION);
  std::size_t size = 0;
  CHECK(nvrtcGetProgramLogSize(program, &size));
  std::string log(size, ' ');
  CHECK(nvrtcGetProgramLog(program, log.data()));
  REQUIRE(log.find("wrong.cu(3): error") != std::string::npos);
  CHECK(nvrtcDestroyProgram(&program));
}

}  // namespace

int main() {
  // Creates the runtime's context; the driver's functions then use it.
  CHECK(cudaFree(nullptr));
  Compare<float>("Evaluate<float, 3>", 3, 1e-6);
  Compare<double>("Evaluate<double, 7>", 7, 1e-14);
  CheckError();
  std::puts("right");
}
