// cuModule*, and queries of names and memory of a module's contents.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/log.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/image.h"
#include "proxy/softgpu/driver/jit_options.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {

namespace {

// Returns the handle of kernel `name`. If it cannot be run, logs this and returns
// CUDA_ERROR_INVALID_PTX.
CUresult FunctionNamed(Driver& driver, const std::shared_ptr<Module>& module,
                       const std::string& name, CUfunction* function) {
  const Result<const KernelInfo*> info = module->program().Kernel(name);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return CUDA_ERROR_NOT_FOUND;
    LogError("software GPU: kernel {}: {}", name, info.status().message());
    return CUDA_ERROR_INVALID_PTX;
  }
  *function = AsHandle<CUfunction>(module->FunctionHandle(
      name, [&] { return driver.functions.Add(std::make_shared<Function>(module, **info)); }));
  return CUDA_SUCCESS;
}

}  // namespace

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image,
                                                    unsigned count, CUjit_option* names,
                                                    void** values) {
  CUSPAN_SOFT_ENTER(driver);
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions options;
  CUSPAN_SOFT_RETURN_IF_ERROR(options.Read(count, names, values));
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  driver->MayWait(*context);
  const auto start = std::chrono::steady_clock::now();
  const int capability = driver->configuration.Capability();
  std::string ptx, why;
  std::shared_ptr<Module> loaded;
  CUresult result = SelectPtx(image, capability, &ptx, &why);
  if (result == CUDA_SUCCESS)
    result = Module::Load(std::move(ptx), IsPtxText(image), capability, context, driver->addresses,
                          driver->FindDevice(context->device())->memory, &loaded, &why);
  options.ReportTime(std::chrono::steady_clock::now() - start);
  if (!why.empty()) {
    if (!options.wants_errors()) LogError("software GPU: {}", why);
    options.AppendError(why);
  }
  if (result == CUDA_SUCCESS) *module = AsHandle<CUmodule>(driver->modules.Add(std::move(loaded)));
  return result;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  const std::shared_ptr<Context> context = module->context();
  CUSPAN_SOFT_RETURN_IF_ERROR(context->error());
  driver->MayWait(*context);
  module = driver->modules.Remove(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  // Launches still running keep the code and the variables.
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
  return FunctionNamed(*driver, module, name, function);
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  CUSPAN_SOFT_ENTER(driver);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(module->context()->error());
  *count = static_cast<unsigned>(module->program().kernel_names().size());
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions, unsigned count,
                                                            CUmodule handle) {
  CUSPAN_SOFT_ENTER(driver);
  if (functions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(module->context()->error());
  const std::vector<std::string> names = module->program().kernel_names();
  for (std::size_t i = 0; i < names.size() && i < count; ++i) {
    CUSPAN_SOFT_RETURN_IF_ERROR(FunctionNamed(*driver, module, names[i], &functions[i]));
  }
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction handle) {
  CUSPAN_SOFT_ENTER(driver);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindFunction(handle, &function));
  *name = function->info().name.c_str();  // Valid until the module is unloaded.
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* address, std::size_t* bytes,
                                                   CUmodule handle, const char* name) {
  CUSPAN_SOFT_ENTER(driver);
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(module->context()->error());
  const std::optional<Module::Variable> variable = module->FindVariable(name);
  if (!variable) {
    // A kernel's name gives another error than an unknown name (measured natively, driver 580).
    const std::vector<std::string> kernels = module->program().kernel_names();
    return std::find(kernels.begin(), kernels.end(), name) != kernels.end()
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_ERROR_NOT_FOUND;
  }
  if (address != nullptr) *address = reinterpret_cast<CUdeviceptr>(variable->address);
  if (bytes != nullptr) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

// Supports one attribute; the client answers the others.
CUSPAN_SOFT_API CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                                       CUdeviceptr address) {
  CUSPAN_SOFT_ENTER(driver);
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_POINTER_ATTRIBUTE_IS_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
  const auto managed = driver->modules.FindIf([&](const Module& module) {
    const std::optional<Module::Variable> variable = module.VariableAt(address);
    return variable && variable->managed;
  });
  *static_cast<unsigned*>(data) = managed != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
