// Kernels for sessions with a real driver or the software GPU.
__device__ int offset = 1000;

extern "C" __global__ void vector_add(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

struct Pair {
  char first;
  double second;
};

// Arguments of several sizes and alignments.
extern "C" __global__ void mixed(char a, Pair pair, short b, double* out) {
  *out = a + pair.first + pair.second + b + offset;
}

extern "C" __global__ void increment(unsigned* word) { atomicAdd(word, 1U); }

extern "C" __global__ void touch(int* address) { *address = 1; }
