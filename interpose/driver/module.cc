// Modules: device code of one context.
#include "interpose/calls/library.h"

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

CUfunction FunctionOf(const FunctionRecord* kernel) {
  return HandleOf<CUfunction>(NumberOf(kernel->handle));
}

CUresult Load(CUmodule* module, const void* image, unsigned count, CUjit_option* names,
              void** values) {
  return AnswerInContext([&](Session&) -> Error {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Options<CUjit_option> options;
    CUSPAN_RETURN_IF_FAILED(ReadOptions(names, values, count, &options));
    return LoadModule(image, options, module);
  });
}

Error GetGlobal(CUmodule module, const char* name, LoadedVariable* variable) {
  if (name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  return GetVariable(module, name, false, variable);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Load(module, image, 0, nullptr, nullptr);
}

CUSPAN_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                          CUjit_option* names, void** values) {
  return Load(module, image, count, names, values);
}

CUSPAN_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return Load(module, image, 0, nullptr, nullptr);
}

CUSPAN_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return AnswerInContext([&](Session&) -> Error {
    if (module == nullptr || path == nullptr || *path == '\0') return CUDA_ERROR_INVALID_VALUE;
    return LoadModuleFromFile(path, module);
  });
}

CUSPAN_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return AnswerInContext([&](Session&) { return UnloadModule(module); });
}

// Always lazy, CUDA's default. CUDA_MODULE_LOADING is ignored.
CUSPAN_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                           const char* name) {
  return AnswerInAny([&](Session&) -> Error {
    if (function == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(GetKernel(module, name, &kernel));
    *function = FunctionOf(kernel);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  return AnswerInContext([&](Session&) -> Error {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return CountKernels(module, count);
  });
}

CUSPAN_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned most,
                                                  CUmodule module) {
  return AnswerInContext([&](Session&) -> Error {
    if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return ForKernels(module, most, [&](std::size_t index, const FunctionRecord* kernel) {
      functions[index] = FunctionOf(kernel);
    });
  });
}

CUSPAN_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes,
                                            CUmodule module, const char* name) {
  return AnswerInContext([&](Session&) -> Error {
    if (address == nullptr && bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadedVariable variable{};
    CUSPAN_RETURN_IF_FAILED(GetGlobal(module, name, &variable));
    if (address != nullptr) *address = variable.address;
    if (bytes != nullptr) *bytes = variable.bytes;
    return CUDA_SUCCESS;
  });
}
