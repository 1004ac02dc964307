// Definitions used by the PTX of linker_test.cc.
extern "C" __device__ int offset = 100;
extern "C" __device__ int scaled(int value) { return value * 3; }
