// The CUDA driver library as a table of functions: the vendor's, the software
// GPU, or, in tests, functions of the test. Nothing in the proxy calls the
// driver but through this table.
#pragma once

#include <cuda.h>

#include <filesystem>
#include <string>

#include "common/status.h"
#include "proxy/softgpu/compilations.h"
#include "proxy/softgpu/log_identity.h"
#include "proxy/softgpu/placed_variables.h"

namespace cuspan::proxy {

// Member names go through the macros of cuda.h, as calls do: `driver.cuMemGetInfo(…)`
// reaches the versioned function that the header declares.
struct Driver {
#define CUSPAN_DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#define CUSPAN_VENDOR_FUNCTION(name) decltype(&::name) name = nullptr;
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_VENDOR_FUNCTION
#undef CUSPAN_DRIVER_FUNCTION

  bool software = false;  // The software GPU's.
  // Of the software GPU. Null for others.
  softgpu::PlaceVariable place_variable = nullptr;

  // "CUDA_ERROR_… (700, what it means)".
  std::string Describe(CUresult result) const;
};

// The oldest driver with cuFuncGetParamInfo, as cuDriverGetVersion counts.
inline constexpr int kOldestDriver = 12040;

// Why a device can not be used, of such a result: kExhausted where MPS takes no new clients just
// now.
inline StatusCode CodeOfStart(CUresult result) {
  return result == CUDA_ERROR_MPS_SERVER_NOT_READY ||
                 result == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED ||
                 result == CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED
             ? StatusCode::kExhausted
             : StatusCode::kUnavailable;
}

struct LoadedDriver {
  Driver functions;
  std::string path;  // Of the library that answers.
  int version = 0;   // As cuDriverGetVersion says.
  // Of the software GPU: tells of what it compiles. Null for others.
  softgpu::SetLogIdentity set_log_identity = nullptr;
  softgpu::WatchCompilations watch_compilations = nullptr;
};

// Loads a driver and initialises it (cuInit). `name` is "cuda" (the vendor's
// libcuda.so.1, where the dynamic linker finds it), "soft" (soft/libcuda.so.1
// beside this executable) or the path of a library. The library stays loaded
// until the process ends. kNotFound when there is none, kUnsupported when it is
// too old or lacks functions, kUnavailable when it finds no usable GPU, or as CodeOfStart.
Result<LoadedDriver> LoadDriver(const std::string& name);

// Where LoadDriver looks for "soft".
std::filesystem::path SoftwareDriverPath();

}  // namespace cuspan::proxy
