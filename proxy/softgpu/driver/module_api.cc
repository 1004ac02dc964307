// cuModule*.
#include <string>
#include <utility>

#include "common/log.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/image.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  CUSPAN_SOFT_ENTER(driver);
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  const int capability =
      driver->configuration.capability_major * 10 + driver->configuration.capability_minor;
  std::string ptx;
  CUSPAN_SOFT_RETURN_IF_ERROR(SelectPtx(image, capability, &ptx));
  std::shared_ptr<Module> loaded;
  CUSPAN_SOFT_RETURN_IF_ERROR(Module::Load(std::move(ptx), capability, context, driver->addresses,
                                           driver->FindDevice(context->device())->memory, &loaded));
  *module = AsHandle<CUmodule>(driver->modules.Add(std::move(loaded)));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  const std::shared_ptr<Context> context = module->context();
  CUSPAN_SOFT_RETURN_IF_ERROR(context->error());
  module = driver->modules.Remove(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  // Launches that still run keep the code and the variables.
  driver->functions.RemoveIf([&](const Function& function) { return function.module() == module; });
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule handle,
                                                     const char* name) {
  CUSPAN_SOFT_ENTER(driver);
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(module->context()->error());
  const Result<const KernelInfo*> info = module->program().Kernel(name);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return CUDA_ERROR_NOT_FOUND;
    LogError("software GPU: kernel {}: {}", name, info.status().message());
    return CUDA_ERROR_INVALID_PTX;
  }
  *function = AsHandle<CUfunction>(module->FunctionHandle(
      name, [&] { return driver->functions.Add(std::make_shared<Function>(module, **info)); }));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* address, std::size_t* bytes,
                                                   CUmodule handle, const char* name) {
  CUSPAN_SOFT_ENTER(driver);
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(module->context()->error());
  const Module::Variable* variable = module->FindVariable(name);
  if (variable == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = reinterpret_cast<CUdeviceptr>(variable->address);
  if (bytes != nullptr) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
