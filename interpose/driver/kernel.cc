// Functions: kernels in a context.
#include "interpose/calls/kernel.h"

#include "interpose/calls/library.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Calls use(Session&, ContextConnection&, const FunctionRecord&, LoadedKernel&) → Error with the
// kernel on the current device, or in its module's own context.
template <typename Use>
CUresult AboutFunction(CUfunction function, Use&& use) {
  return AnswerLocally([&](Session& session, ContextConnection& connection) -> Error {
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(function, &record));
    std::shared_ptr<ContextConnection> owner;
    CUSPAN_RETURN_IF_FAILED(FindOwner(session, *record, &owner));
    ContextConnection& place = owner != nullptr ? *owner : connection;
    LoadedKernel* loaded = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(place, *record, &loaded));
    return use(session, place, *record, *loaded);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                          CUfunction function) {
  return AboutFunction(
      function,
      [&](Session&, ContextConnection&, const FunctionRecord&, LoadedKernel& kernel) -> Error {
        if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
          return CUDA_ERROR_INVALID_VALUE;
        *value = kernel.attribute(attribute);
        return CUDA_SUCCESS;
      });
}

CUSPAN_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                          int value) {
  return AboutFunction(
      function,
      [&](Session& session, ContextConnection& connection, const FunctionRecord&,
          LoadedKernel& kernel) -> Error {
        CUSPAN_RETURN_IF_FAILED(SetAttribute(session.devices().description(connection.device()),
                                             connection, kernel, attribute, value));
        // Takes precedence over attributes of the kernel (cudaKernelSetAttributeForDevice).
        kernel.set_by_function->fetch_or(1U << attribute);
        return CUDA_SUCCESS;
      });
}

CUSPAN_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  return AboutFunction(
      function, [&](Session&, ContextConnection& connection, const FunctionRecord&,
                    LoadedKernel& kernel) { return SetCacheConfig(connection, kernel, config); });
}

// Since compute capability 5.0, the width of shared memory banks is fixed. Settings have no effect.
CUSPAN_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  return AboutFunction(
      function, [&](Session&, ContextConnection&, const FunctionRecord&, LoadedKernel&) -> Error {
        return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                       config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
      });
}

CUSPAN_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  if (function == nullptr)
    return AnswerInContext([](Session&) { return CUDA_ERROR_INVALID_VALUE; });
  return AboutFunction(function,
                       [&](Session& session, ContextConnection&, const FunctionRecord& record,
                           LoadedKernel&) -> Error {
                         if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
                         const std::shared_ptr<Library> found =
                             session.libraries().Find(*record.fatbin);
                         if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                         *module = HandleOf<CUmodule>(NumberOf(found->handle()));
                         return CUDA_SUCCESS;
                       });
}

CUSPAN_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_RETURN_IF_FAILED(CurrentFault());
    const FunctionRecord* record = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindFunction(function, &record));
    *name = record->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index,
                                          std::size_t* offset, std::size_t* bytes) {
  return AboutFunction(
      function,
      [&](Session&, ContextConnection&, const FunctionRecord&, LoadedKernel& kernel) -> Error {
        if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
        return LocateParameter(kernel, index, offset, bytes);
      });
}

CUSPAN_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return AboutFunction(
      function, [&](Session&, ContextConnection&, const FunctionRecord&, LoadedKernel&) -> Error {
        if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
        return CUDA_SUCCESS;
      });
}

CUSPAN_EXPORT CUresult cuFuncLoad(CUfunction function) {
  return AboutFunction(
      function, [](Session&, ContextConnection&, const FunctionRecord&, LoadedKernel&) -> Error {
        return CUDA_SUCCESS;
      });
}
