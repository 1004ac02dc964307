// A device through the requested driver library: NVIDIA's or the software GPU.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cuspan::ptx_forms {

class Gpu {
 public:
#define CUSPAN_DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_DRIVER_FUNCTION

  // Loads `library` ("libcuda.so.1", or a path) and makes device 0 current. On failure it ends the
  // process with a message, like the functions below.
  explicit Gpu(const std::string& library);

  void Check(CUresult result, const char* what) const;
  std::string Describe(CUresult result) const;
  const std::string& name() const { return name_; }
  int capability() const { return capability_; }
  bool is_software() const { return name_ == "cuspan software GPU"; }

  // Allocates device memory, kept until the process ends.
  CUdeviceptr Allocate(std::size_t bytes);
  void Upload(CUdeviceptr target, const void* source, std::size_t bytes);
  void Download(void* target, CUdeviceptr source, std::size_t bytes);
  void Fill(CUdeviceptr target, std::size_t bytes);

 private:
  std::string name_;
  int capability_ = 0;
};

}  // namespace cuspan::ptx_forms
