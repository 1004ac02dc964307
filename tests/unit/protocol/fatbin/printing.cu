// Kernels calling vprintf: directly, through a function, through a pointer; and others.
#include <cstdio>

extern "C" __global__ void Silent(int* word) { *word = 1; }
extern "C" __global__ void Direct(int n) { printf("%d\n", n); }
#ifdef WITH_FUNCTIONS
__device__ __noinline__ void Tell(int n) { printf("%d\n", n); }
__device__ void (*pointer)(int) = Tell;
extern "C" __global__ void Through(int n) { Tell(n); }
extern "C" __global__ void ThroughPointer(int n) { pointer(n); }
#endif
#ifdef WITH_LAUNCH
extern "C" __global__ void Launching(int n) { Direct<<<1, 1>>>(n); }
#endif
