#include "tests/unit/proxy/softgpu/instructions/gpu.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cuspan::ptx_forms {
namespace {

#define CUSPAN_SYMBOL_TEXT(name) #name
#define CUSPAN_SYMBOL(name) CUSPAN_SYMBOL_TEXT(name)

template <typename Function>
void Find(void* library, const char* symbol, Function& function) {
  void* found = dlsym(library, symbol);
  // Drivers before 12.8 have only the first version. It takes the same arguments.
  if (found == nullptr && std::strcmp(symbol, "cuEventElapsedTime_v2") == 0)
    found = dlsym(library, "cuEventElapsedTime");
  function = reinterpret_cast<Function>(found);
}

}  // namespace

Gpu::Gpu(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "the driver can not be loaded: %s\n", dlerror());
    std::exit(2);
  }
#define CUSPAN_DRIVER_FUNCTION(name) Find(handle, CUSPAN_SYMBOL(name), name);
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_DRIVER_FUNCTION
  Check(cuInit(0), "cuInit");
  CUdevice device = 0;
  Check(cuDeviceGet(&device, 0), "cuDeviceGet");
  CUcontext context = nullptr;
  Check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  char name[256] = {};
  Check(cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  name_ = name;
  int major = 0, minor = 0;
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  capability_ = major * 10 + minor;
}

std::string Gpu::Describe(CUresult result) const {
  const char* text = nullptr;
  if (cuGetErrorName(result, &text) != CUDA_SUCCESS || text == nullptr) return "unknown error";
  return text;
}

void Gpu::Check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, Describe(result).c_str());
  std::exit(2);
}

CUdeviceptr Gpu::Allocate(std::size_t bytes) {
  constexpr std::size_t kGranularity = std::size_t{2} << 20;
  bytes = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle memory = 0;
  Check(cuMemCreate(&memory, bytes, &properties, 0), "cuMemCreate");
  CUdeviceptr address = 0;
  Check(cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  Check(cuMemMap(address, bytes, 0, memory, 0), "cuMemMap");
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Check(cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
  return address;
}

void Gpu::Upload(CUdeviceptr target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  Check(cuMemcpyHtoDAsync(target, source, bytes, nullptr), "cuMemcpyHtoDAsync");
  Check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

void Gpu::Download(void* target, CUdeviceptr source, std::size_t bytes) {
  Check(cuMemcpyDtoHAsync(target, source, bytes, nullptr), "cuMemcpyDtoHAsync");
  Check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

void Gpu::Fill(CUdeviceptr target, std::size_t bytes) {
  Check(cuMemsetD8Async(target, 0, bytes, nullptr), "cuMemsetD8Async");
}

}  // namespace cuspan::ptx_forms
