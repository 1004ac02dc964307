// Compiled by nvcc into the fat binaries of the tests.
__constant__ float factor[4] = {1, 2, 3, 4};
__device__ int counter = 7;

__global__ void FatbinAdd(const float* a, const float* b, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i] * factor[i & 3];
}

__global__ void FatbinCount() { atomicAdd(&counter, 1); }
