// A software GPU as the benchmark's tasks use it.
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

// Device 0 with its context current and the benchmark's kernels loaded. One thread calls.
class Gpu {
 public:
  // Once in a process: settings of the environment hold from then on.
  static Result<Gpu> Open();

  // Zeroed memory of the device, which a program may also read and write directly, as
  // the software GPU's memory is the host's; freed when the process ends.
  Result<CUdeviceptr> Allocate(std::size_t bytes);
  // kInternal names the call and the driver's error.
  Result<CUfunction> Function(const char* name);
  // Launches and waits; `parameters` as for cuLaunchKernel.
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

// The PTX of kernels.cu, NUL-terminated.
std::string_view KernelsPtx();

}  // namespace cuspan::bench::soft
