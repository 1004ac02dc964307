// Device code loaded by libraries.cu at run time. FACTOR distinguishes the images.
#ifndef FACTOR
#define FACTOR 2
#endif

extern "C" {

__device__ int bias = 5;
__constant__ int offsets[4];
__managed__ int counter = 100;
__managed__ int question;
__managed__ int answer;

__global__ void scale(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = values[i] * FACTOR + bias + offsets[i % 4];
}

__global__ void count_up(int by) { atomicAdd(&counter, by); }

// Waits for each question and answers it.
__global__ void answer_all(int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    while (*static_cast<volatile int*>(&question) < round) {
    }
    *static_cast<volatile int*>(&answer) = 2 * round;
    __threadfence_system();
  }
}

// Computes the sum of 0 … blockDim.x - 1 in dynamic shared memory, up to its last byte.
__global__ void sum_in_shared(int* sum, int ints) {
  extern __shared__ int parts[];
  int* const own = parts + ints - blockDim.x;
  own[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x != 0) return;
  int total = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) total += own[i];
  *sum = total;
}

__global__ void mixed(char small, double large, short middle, int* out) {
  *out = small + static_cast<int>(large) + middle;
}

}  // extern "C"
