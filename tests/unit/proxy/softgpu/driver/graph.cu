// Kernels of graphs with conditional nodes. Compiled to PTX.
#include <cuda_runtime.h>

extern "C" {

__global__ void Set(cudaGraphConditionalHandle condition, unsigned value) {
  cudaGraphSetConditional(condition, value);
}

// Sets the condition in one lane of a warp only.
__global__ void SetByOne(cudaGraphConditionalHandle condition, unsigned value, unsigned thread) {
  if (threadIdx.x == thread) cudaGraphSetConditional(condition, value);
}

// Sets the sum of all thread numbers of the block, modulo 11.
__global__ void SetSum(cudaGraphConditionalHandle condition) {
  __shared__ unsigned values[256];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) cudaGraphSetConditional(condition, values[0] % 11);
}

__global__ void CountDown(cudaGraphConditionalHandle condition, int* count) {
  cudaGraphSetConditional(condition, --*count > 0 ? 1 : 0);
}

__global__ void SetIfOdd(cudaGraphConditionalHandle condition, const int* count) {
  cudaGraphSetConditional(condition, *count & 1);
}

// log[0] is the number of entries.
__global__ void Append(int* log, int value) { log[atomicAdd(log, 1) + 1] = value; }

__global__ void TrapAtZero(int* count) {
  if (--*count == 0) __trap();
}

}  // extern "C"
