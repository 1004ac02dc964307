// An ordinary CUDA program, without knowledge of cuspan. Built as a program, and with -DAS_LIBRARY
// as a library with one function.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__constant__ float scale = 2.0f;

__global__ void AddScaled(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + scale * b[i];
}

static void Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("app: %s: error %d\n", call, static_cast<int>(error));
  std::exit(1);
}

static int Run() {
  constexpr int kCount = 1000;
  constexpr size_t kSize = kCount * sizeof(float);
  float *a = nullptr, *b = nullptr, *sum = nullptr;
  Check(cudaMalloc(&a, kSize), "cudaMalloc");
  Check(cudaMalloc(&b, kSize), "cudaMalloc");
  Check(cudaMalloc(&sum, kSize), "cudaMalloc");
  AddScaled<<<4, 256>>>(a, b, sum, kCount);
  Check(cudaGetLastError(), "launch");
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::printf("app: done\n");
  return 0;
}

#ifdef AS_LIBRARY
extern "C" int RunLibrary() { return Run(); }
#else
int main() { return Run(); }
#endif
