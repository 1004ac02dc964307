// Kernels launching kernels, at the limits. Compiled to PTX as relocatable code.

extern "C" {

// Launches itself to the maximum depth. data[0] is the deepest level, data[1] the error there.
__global__ void Endless(int* data, int level) {
  data[0] = level;
  Endless<<<1, 1>>>(data, level + 1);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) data[1] = error;
}

// Runs `times` times by tail launches of itself. The depth does not increase.
__global__ void Again(int* data, int times) {
  ++data[0];
  if (times > 1) Again<<<1, 1, 0, cudaStreamTailLaunch>>>(data, times - 1);
}

// Launches a memset of unmapped memory.
__global__ void SetNowhere(int* data) {
  data[0] = 1;
  cudaMemsetAsync(reinterpret_cast<void*>(4096), 1, 16, nullptr);
}

__global__ void Write(int* data) { *data = 1; }

__global__ void WriteNowhere(int* data) {
  data[0] = 1;
  Write<<<1, 1>>>(reinterpret_cast<int*>(4096));
}

__global__ void MuchShared(int* data) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  data[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

__global__ void LaunchShared(int* data) { MuchShared<<<1, 64, 64 * sizeof(int)>>>(data); }

}  // extern "C"
