#include "bench/soft/gpu.h"

#include <utility>

// Defined in embedded.S.
extern "C" const char cuspan_bench_ptx[];
extern "C" const char cuspan_bench_ptx_end[];

namespace cuspan::bench::soft {

std::string_view KernelsPtx() {
  return {cuspan_bench_ptx, static_cast<std::size_t>(cuspan_bench_ptx_end - cuspan_bench_ptx)};
}

Status Gpu::Check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return Status::Ok();
  return Status::Internal("{}: {}", call, driver_.Describe(result));
}

Result<Gpu> Gpu::Open() {
  CUSPAN_ASSIGN_OR_RETURN(proxy::LoadedDriver driver, proxy::LoadDriver("soft"));
  Gpu gpu(driver);
  CUcontext context = nullptr;
  CUSPAN_RETURN_IF_ERROR(
      gpu.Check(gpu.driver_.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain"));
  CUSPAN_RETURN_IF_ERROR(gpu.Check(gpu.driver_.cuCtxSetCurrent(context), "cuCtxSetCurrent"));
  CUSPAN_RETURN_IF_ERROR(
      gpu.Check(gpu.driver_.cuModuleLoadData(&gpu.module_, cuspan_bench_ptx), "cuModuleLoadData"));
  return gpu;
}

Result<CUdeviceptr> Gpu::Allocate(std::size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  std::size_t granularity = 0;
  CUSPAN_RETURN_IF_ERROR(Check(driver_.cuMemGetAllocationGranularity(
                                   &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                               "cuMemGetAllocationGranularity"));
  bytes = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle = 0;
  CUSPAN_RETURN_IF_ERROR(Check(driver_.cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate"));
  CUdeviceptr address = 0;
  CUSPAN_RETURN_IF_ERROR(
      Check(driver_.cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  CUSPAN_RETURN_IF_ERROR(Check(driver_.cuMemMap(address, bytes, 0, handle, 0), "cuMemMap"));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUSPAN_RETURN_IF_ERROR(
      Check(driver_.cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess"));
  return address;
}

Result<CUfunction> Gpu::Function(const char* name) {
  CUfunction function = nullptr;
  CUSPAN_RETURN_IF_ERROR(
      Check(driver_.cuModuleGetFunction(&function, module_, name), "cuModuleGetFunction"));
  return function;
}

Status Gpu::Run(CUfunction function, Shape grid, Shape block, std::vector<void*> parameters,
                bool cooperative) {
  const CUresult launched =
      cooperative ? driver_.cuLaunchCooperativeKernel(function, grid.x, grid.y, 1, block.x, block.y,
                                                      1, 0, nullptr, parameters.data())
                  : driver_.cuLaunchKernel(function, grid.x, grid.y, 1, block.x, block.y, 1, 0,
                                           nullptr, parameters.data(), nullptr);
  CUSPAN_RETURN_IF_ERROR(Check(launched, "cuLaunchKernel"));
  return Check(driver_.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

Status Gpu::LoadAndUnload(const std::string& ptx) {
  CUmodule module = nullptr;
  CUSPAN_RETURN_IF_ERROR(Check(driver_.cuModuleLoadData(&module, ptx.c_str()), "cuModuleLoadData"));
  return Check(driver_.cuModuleUnload(module), "cuModuleUnload");
}

}  // namespace cuspan::bench::soft
