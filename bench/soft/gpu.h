// A software GPU for the benchmark's tasks.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "proxy/gpu/driver.h"

namespace cuspan::bench::soft {

struct Shape {
  unsigned x = 1, y = 1;
};

// Device 0 with its context current and the benchmark's kernels loaded. Threads: one.
class Gpu {
 public:
  // Called once per process: this fixes the settings of the environment.
  static Result<Gpu> Open();

  // Zeroed device memory. The host may access it directly, because the software GPU's memory is
  // host memory. Freed at the end of the process.
  Result<CUdeviceptr> Allocate(std::size_t bytes);
  // On failure, kInternal with the call and the driver's error.
  Result<CUfunction> Function(const char* name);
  // Launches and waits. `parameters` as in cuLaunchKernel.
  Status Run(CUfunction function, Shape grid, Shape block, std::vector<void*> parameters,
             bool cooperative = false);
  // Loads another module and unloads it.
  Status LoadAndUnload(const std::string& ptx);

  Status Check(CUresult result, const char* call) const;

 private:
  explicit Gpu(const proxy::LoadedDriver& driver) : driver_(driver.functions) {}

  proxy::Driver driver_;
  CUmodule module_ = nullptr;
};

// PTX of kernels.cu, NUL-terminated.
std::string_view KernelsPtx();

}  // namespace cuspan::bench::soft
