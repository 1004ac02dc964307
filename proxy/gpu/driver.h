// The CUDA driver library as a table of functions: NVIDIA's driver, the software GPU, or functions
// of a test. The proxy calls the driver only through this table.
#pragma once

#include <cuda.h>

#include <filesystem>
#include <string>

#include "common/status.h"
#include "proxy/softgpu/compilations.h"
#include "proxy/softgpu/log_identity.h"
#include "proxy/softgpu/placed_variables.h"

namespace cuspan::proxy {

// The macros of cuda.h apply to member names as to calls: `driver.cuMemGetInfo(…)` calls the
// versioned function declared in the header.
struct Driver {
#define CUSPAN_DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#define CUSPAN_VENDOR_FUNCTION(name) decltype(&::name) name = nullptr;
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_VENDOR_FUNCTION
#undef CUSPAN_DRIVER_FUNCTION

  bool software = false;  // True for the software GPU.
  // Software GPU only; otherwise null.
  softgpu::PlaceVariable place_variable = nullptr;

  // Returns "CUDA_ERROR_… (700, its meaning)".
  std::string Describe(CUresult result) const;
};

// Oldest driver with cuFuncGetParamInfo, in the format of cuDriverGetVersion.
inline constexpr int kOldestDriver = 12040;

// Status code for a result at startup: kExhausted if MPS temporarily accepts no new clients.
inline StatusCode CodeOfStart(CUresult result) {
  return result == CUDA_ERROR_MPS_SERVER_NOT_READY ||
                 result == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED ||
                 result == CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED
             ? StatusCode::kExhausted
             : StatusCode::kUnavailable;
}

struct LoadedDriver {
  Driver functions;
  std::string path;  // File of the loaded library.
  int version = 0;   // Value of cuDriverGetVersion.
  // Software GPU only, otherwise null: its log, and a callback for compilations.
  softgpu::SetLogIdentity set_log_identity = nullptr;
  softgpu::WatchCompilations watch_compilations = nullptr;
};

// Loads a driver, without initialising it. `name` is one of:
//   - "cuda": NVIDIA's libcuda.so.1, found by the dynamic linker;
//   - "soft": soft/libcuda.so.1 beside this executable;
//   - the path of a library.
// The library stays loaded until the process ends. kNotFound if it is missing, kUnsupported if it
// is too old or lacks functions.
Result<LoadedDriver> OpenDriver(const std::string& name);

// Initialises an opened driver (cuInit). Without a usable GPU: see CodeOfStart. `name` as above.
Status InitDriver(const LoadedDriver& driver, const std::string& name);

// Both.
Result<LoadedDriver> LoadDriver(const std::string& name);

// Path used by LoadDriver for "soft".
std::filesystem::path SoftwareDriverPath();

}  // namespace cuspan::proxy
