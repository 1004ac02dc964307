// Does as it is told on its standard input, a line a command, and answers each with a line:
//
//   use N      a little work on device N; the name of the error, or "right" or "wrong"
//   sync N     waits for device N; the name of the error
//   spin N     a kernel that never ends on device N; the name of the error
//   query N    asks whether device N's default stream is done; the name of the error
//   loop N     works on device N until that fails, and ends then
//
// At the end of its input it exits with status 0.

#include <cstdio>
#include <cstring>

#include "use_cuda.h"

namespace {

__global__ void Spin(volatile int* go_on) {
  while (*go_on != 1) {
  }
}

const char* Use() {
  int result = 0;
  const cudaError_t error = AddSevenOnDevice(1, &result);
  if (error != cudaSuccess) return cudaGetErrorName(error);
  return result == 8 ? "right" : "wrong";
}

const char* StartSpin() {
  int* go_on = nullptr;
  cudaError_t error = cudaMalloc(&go_on, sizeof(int));
  if (error == cudaSuccess) error = cudaMemset(go_on, 0, sizeof(int));
  if (error == cudaSuccess) {
    Spin<<<1, 1>>>(go_on);
    error = cudaGetLastError();
  }
  return cudaGetErrorName(error);
}

}  // namespace

int main() {
  char line[256];
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    char command[16];
    int device = 0;
    if (std::sscanf(line, "%15s %d", command, &device) != 2) return 2;
    if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
      std::printf("%s\n", cudaGetErrorName(error));
      continue;
    }
    // The last error is the thread's, not the device's: what another device left there is done
    // with.
    cudaGetLastError();
    if (std::strcmp(command, "use") == 0) {
      std::printf("%s\n", Use());
    } else if (std::strcmp(command, "sync") == 0) {
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (std::strcmp(command, "spin") == 0) {
      std::printf("%s\n", StartSpin());
    } else if (std::strcmp(command, "query") == 0) {
      std::printf("%s\n", cudaGetErrorName(cudaStreamQuery(nullptr)));
    } else if (std::strcmp(command, "loop") == 0) {
      std::printf("looping\n");
      const char* said = "right";
      while (std::strcmp(said, "right") == 0) said = Use();
      std::printf("%s\n", said);
      return 1;
    } else {
      return 2;
    }
  }
  return 0;
}
