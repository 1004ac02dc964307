#include "interpose/runtime/kernel.h"

#include <string_view>

#include "common/format.h"
#include "interpose/calls/kernel.h"
#include "interpose/runtime/caller.h"

namespace cuspan {
namespace {

Error GetKernel(cudaKernel_t* kernel, const void* function) {
  if (kernel == nullptr) return cudaErrorInvalidValue;
  const FunctionRecord* const record = Registry::Get().FindFunction(function);
  if (record == nullptr) return cudaErrorInvalidDeviceFunction;
  // Opaque to programs.
  *kernel = HandleOf<cudaKernel_t>(NumberOf(record->handle));
  return cudaSuccess;
}

void Describe(const LoadedKernel& kernel, cudaFuncAttributes* out) {
  const auto value = [&](CUfunction_attribute which) { return kernel.attribute(which); };
  const auto bytes = [&](CUfunction_attribute which) {
    return static_cast<std::size_t>(value(which));
  };
  *out = {};
  out->sharedSizeBytes = bytes(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out->constSizeBytes = bytes(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  out->localSizeBytes = bytes(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out->maxThreadsPerBlock = value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = value(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = value(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = value(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->cacheModeCA = value(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  out->maxDynamicSharedSizeBytes = value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out->preferredShmemCarveout = value(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  out->clusterDimMustBeSet = value(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  out->requiredClusterWidth = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  out->requiredClusterHeight = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  out->requiredClusterDepth = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  out->clusterSchedulingPolicyPreference =
      value(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  out->nonPortableClusterSizeAllowed = value(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
}

// cudaErrorInvalidValue if there is no such attribute.
Error CheckAttribute(cudaFuncAttribute attribute) {
  return attribute < cudaFuncAttributeMaxDynamicSharedMemorySize ||
                 attribute >= cudaFuncAttributeMax
             ? cudaErrorInvalidValue
             : cudaSuccess;
}

// The numbers are equal.
CUfunction_attribute DriversOf(cudaFuncAttribute attribute) {
  return static_cast<CUfunction_attribute>(attribute);
}

}  // namespace

Error FindKernel(ContextConnection& connection, const void* function, LoadedKernel** kernel) {
  const FunctionRecord* record = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindFunction(function, &record));
  return FindKernel(connection, *record, kernel);
}

Error FindVariable(ContextConnection& connection, const void* symbol, LoadedVariable* variable) {
  const VariableRecord* const record = Registry::Get().FindVariable(symbol);
  if (record == nullptr) {
    // Managed variables have no shadow in the program: their symbol is the variable itself.
    const auto managed = connection.modules().ManagedVariable(NumberOf(symbol));
    if (!managed || managed->base != NumberOf(symbol)) return cudaErrorInvalidSymbol;
    *variable = {managed->base, managed->bytes};
    return cudaSuccess;
  }
  CUSPAN_RETURN_IF_FAILED(CheckSupported(*record->fatbin));
  const CUresult result = connection.modules().Variable(*record, variable);
  return result == CUDA_ERROR_NOT_FOUND ? Error(cudaErrorInvalidSymbol) : Error(result);
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return Answer([&] { return GetKernel(kernel, function); });
}

// CUfunction, CUkernel and cudaKernel_t are the same object.
CUSPAN_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidValue;
    cudaKernel_t kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(GetKernel(&kernel, symbol));
    // CUDA creates the context and loads the kernel here.
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* loaded = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, symbol, &loaded));
      *function = reinterpret_cast<cudaFunction_t>(kernel);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return Answer([&]() -> Error {
    if (name == nullptr) return cudaErrorInvalidValue;
    const FunctionRecord* const record = Registry::Get().FindFunction(function);
    if (record == nullptr) return cudaErrorInvalidResourceHandle;
    *name = record->name.c_str();
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                const void* function) {
  // CUDA 12 added the attributes of clusters.
  const std::size_t known = CallerRelease(__builtin_return_address(0)) < 12
                                ? offsetof(cudaFuncAttributes, clusterDimMustBeSet)
                                : sizeof *attributes;
  return Answer([&]() -> Error {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      cudaFuncAttributes described;
      Describe(*kernel, &described);
      CopyFirst(attributes, &described, known);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                               int value) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    CUSPAN_RETURN_IF_FAILED(CheckAttribute(attribute));
    return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      CUSPAN_RETURN_IF_FAILED(SetAttribute(session.devices().description(connection.device()),
                                           connection, *kernel, DriversOf(attribute), value));
      kernel->set_by_function->fetch_or(1U << attribute);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t function,
                                                          cudaFuncAttribute attribute, int value,
                                                          int device) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    CUSPAN_RETURN_IF_FAILED(CheckAttribute(attribute));
    return WithSession([&](Session& session) -> Error {
      std::shared_ptr<ContextConnection> connection;
      CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &connection));
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(*connection, function, &kernel));
      // cudaFuncSetAttribute takes precedence, regardless of the order.
      if ((kernel->set_by_function->load() & 1U << attribute) != 0) {
        return CheckAttribute(session.devices().description(device), *kernel, DriversOf(attribute),
                              value);
      }
      return SetAttribute(session.devices().description(device), *connection, *kernel,
                          DriversOf(attribute), value);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncGetParamInfo(const void* function, std::size_t index,
                                               std::size_t* offset, std::size_t* bytes) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (offset == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      return LocateParameter(*kernel, index, offset, bytes);
    });
  });
}

// Added by CUDA releases 13.1 and later.
CUSPAN_EXPORT cudaError_t cudaFuncGetParamCount(const void* function, std::size_t* count) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (count == nullptr) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      *count = kernel->parameter_bytes.size();
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return Answer([&]() -> Error {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (config < cudaFuncCachePreferNone || config > cudaFuncCachePreferEqual) {
      return cudaErrorInvalidValue;
    }
    return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
      LoadedKernel* kernel = nullptr;
      CUSPAN_RETURN_IF_FAILED(FindKernel(connection, function, &kernel));
      return SetCacheConfig(connection, *kernel, static_cast<CUfunc_cache>(config));
    });
  });
}
