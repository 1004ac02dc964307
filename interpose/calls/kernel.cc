#include "interpose/calls/kernel.h"

#include <array>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/device_settings.h"

namespace cuspan {

Error CheckSupported(const FatbinRecord& fatbin) {
  if (fatbin.unsupported.empty()) [[likely]] {
    return CUDA_SUCCESS;
  }
  return NotSupported(fatbin.unsupported);
}

Error FindFunction(const void* function, const FunctionRecord** record) {
  auto& known = SlotOf(ThisThread().functions, NumberOf(function));
  const std::uint64_t version = Registry::Get().version();
  if (known.stub != function || known.version != version) {
    *record = Registry::Get().FindFunction(function);
    if (*record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    known = {function, version, *record};
  }
  *record = known.record;
  return CheckSupported(*known.record->fatbin);
}

Error FindOwner(Session& session, const FunctionRecord& function,
                std::shared_ptr<ContextConnection>* owner) {
  const std::uint64_t number = function.fatbin->owner;
  if (number == 0) return CUDA_SUCCESS;
  *owner = session.devices().ConnectionNumbered(number);
  return *owner != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Error FindKernel(ContextConnection& connection, const FunctionRecord& function,
                 LoadedKernel** kernel) {
  auto& known = SlotOf(ThisThread().kernels, NumberOf(&function));
  const std::uint64_t version = Registry::Get().version();
  if (known.function == &function && known.connection == connection.number() &&
      known.version == version) {
    *kernel = known.kernel;
    return CUDA_SUCCESS;
  }
  // A graph may name a kernel of an unloaded library.
  if (Registry::Get().FindFunction(function.handle) == nullptr)
    return cudaErrorInvalidDeviceFunction;
  CUSPAN_RETURN_IF_FAILED(CheckSupported(*function.fatbin));
  std::shared_ptr<ContextConnection> owner;
  if (Session* const session = Session::IfStarted())
    CUSPAN_RETURN_IF_FAILED(FindOwner(*session, function, &owner));
  const bool own = owner == nullptr || owner.get() == &connection;
  const CUresult result = (own ? connection : *owner).modules().Kernel(function, kernel);
  // Another context may end first.
  if (result == CUDA_SUCCESS && own) known = {&function, connection.number(), version, *kernel};
  // Registered, but in no image of its fat binary.
  return result == CUDA_ERROR_NOT_FOUND ? Error(cudaErrorInvalidDeviceFunction) : Error(result);
}

const LoadedKernel* KnownKernel(const ContextConnection& connection, const void* function) {
  ThreadState& thread = ThisThread();
  const std::uint64_t version = Registry::Get().version();
  const auto& found = SlotOf(thread.functions, NumberOf(function));
  if (found.stub != function || found.version != version) return nullptr;
  const auto& loaded = SlotOf(thread.kernels, NumberOf(found.record));
  const bool is_here = loaded.function == found.record &&
                       loaded.connection == connection.number() && loaded.version == version;
  return is_here ? loaded.kernel : nullptr;
}

Error CheckAttribute(const DeviceDescription& device, const LoadedKernel& kernel,
                     CUfunction_attribute attribute, int value) {
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (attribute > CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    // Attributes of clusters: the device's driver checks the value.
    if (AttributeOf(device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
      return NotSupported("an attribute of thread block clusters on a device without them");
    return CUDA_SUCCESS;
  }
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    const int most = AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (value < 0 ||
        (most > 0 && value > most - kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  } else if (value < CU_SHAREDMEM_CARVEOUT_DEFAULT || value > CU_SHAREDMEM_CARVEOUT_MAX_SHARED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

Error SetAttribute(const DeviceDescription& device, ContextConnection& connection,
                   LoadedKernel& kernel, CUfunction_attribute attribute, int value) {
  CUSPAN_RETURN_IF_FAILED(CheckAttribute(device, kernel, attribute, value));
  const MutexLock lock(*kernel.setting);
  const bool known = static_cast<std::size_t>(attribute) < kernel.attributes.size();
  // Libraries set it before each launch.
  if (known && kernel.attributes[attribute].load() == value) return CUDA_SUCCESS;
  KernelSetAttribute op;
  op.kernel = kernel.handle;
  op.attribute = attribute;
  op.value = value;
  KernelSetAttribute::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
  kernel.occupancies->Clear();
  if (known) kernel.attributes[attribute].store(value);
  return CUDA_SUCCESS;
}

Error SetCacheConfig(ContextConnection& connection, const LoadedKernel& kernel,
                     CUfunc_cache config) {
  if (!IsCacheConfig(config)) return CUDA_ERROR_INVALID_VALUE;
  KernelSetCacheConfig op;
  op.kernel = kernel.handle;
  op.config = config;
  kernel.occupancies->Clear();
  return connection.Post(op);
}

Error LocateParameter(const LoadedKernel& kernel, std::size_t index, std::size_t* offset,
                      std::size_t* bytes) {
  if (index >= kernel.parameter_bytes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.parameter_offsets[index];
  if (bytes != nullptr) *bytes = kernel.parameter_bytes[index];
  return CUDA_SUCCESS;
}

}  // namespace cuspan
