// Contexts.
#include "interpose/calls/context.h"

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/device.h"
#include "interpose/calls/device_settings.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/calls/peer_memory.h"
#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Calls body(Session&, int device) → Error if the device exists.
template <typename Body>
Error WithDevice(Session& session, CUdevice device, Body&& body) {
  if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
  return body(session, static_cast<int>(device));
}
template <typename Body>
CUresult AboutDevice(CUdevice device, Body&& body) {
  return AnswerWithDriver([&](Session& session) { return WithDevice(session, device, body); });
}

// API version of contexts, as reported by driver 580 to programs compiled for it.
constexpr unsigned kApiVersion = 3020;

// CU_CTX_MAP_HOST is always in effect, and invalid for primary contexts (measured, driver 580).
bool ArePrimaryFlags(unsigned flags) {
  return AreDeviceFlags(flags) && (flags & CU_CTX_MAP_HOST) == 0;
}

Error SetPrimaryFlags(Session& session, int device, unsigned flags) {
  return ArePrimaryFlags(flags) ? SetDeviceFlags(session, device, flags)
                                : Error(CUDA_ERROR_INVALID_VALUE);
}

bool IsActive(Session& session, int device) {
  const Context& primary = session.devices().Primary(device);
  return primary.generation() != 0 || primary.used_by_runtime.load(std::memory_order_relaxed);
}

Error WaitForContext(Session& session, const Context& context) {
  if (AnyCapture(session))
    CUSPAN_RETURN_IF_FAILED(RefuseCaptureOnDevice(session, context.device()));
  return session.devices().Synchronize(context);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// --- The primary contexts of devices

CUSPAN_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return RetainPrimary(session, number, context);
  });
}

CUSPAN_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return AboutDevice(device,
                     [&](Session& session, int number) { return ReleasePrimary(session, number); });
}

CUSPAN_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return AboutDevice(device,
                     [&](Session& session, int number) { return ResetPrimary(session, number); });
}

CUSPAN_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return AboutDevice(device, [&](Session& session, int number) {
    return SetPrimaryFlags(session, number, flags);
  });
}
// Form before CUDA 11: fails if the context is active.
#undef cuDevicePrimaryCtxSetFlags
CUSPAN_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (!ArePrimaryFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (IsActive(session, number)) return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    return SetPrimaryFlags(session, number, flags);
  });
}

CUSPAN_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const auto tell = [&](Session& session, int number) -> Error {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = DeviceFlags(session, number);
    *active = IsActive(session, number) ? 1 : 0;
    return CUDA_SUCCESS;
  };
  return AnswerFromTables([&](Session& session) { return WithDevice(session, device, tell); });
}

// --- Other contexts

CUSPAN_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return CreateContext(session, number, flags, context);
  });
}

CUSPAN_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinities,
                                      int count, unsigned flags, CUdevice device) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (context == nullptr || count < 0 || (count != 0 && affinities == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    if (count != 0) return NotSupported("cuCtxCreate with an execution affinity");
    return CreateContext(session, number, flags, context);
  });
}

CUSPAN_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters,
                                      unsigned flags, CUdevice device) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (parameters != nullptr &&
        (parameters->numExecAffinityParams > 0 || parameters->cigParams != nullptr))
      return NotSupported("cuCtxCreate with an execution affinity, or for graphics");
    return CreateContext(session, number, flags, context);
  });
}

CUSPAN_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;  // Also before cuInit.
  return AnswerWithDriver(
      [&](Session& session) -> Error { return DestroyContext(session, context); });
}

CUSPAN_EXPORT CUresult cuCtxAttach(CUcontext* context, unsigned flags) {
  return AnswerInContext([&](Session& session) -> Error {
    if (context == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return AttachContext(session, context);
  });
}

CUSPAN_EXPORT CUresult cuCtxDetach(CUcontext context) {
  return AnswerInContext([&](Session& session) { return DetachContext(session, context); });
}

// --- The current context of a thread

CUSPAN_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return AnswerFromTables([&](Session&) -> Error {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = HandleOf(ThisThread().contexts.top());
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  return AnswerWithDriver([&](Session& session) -> Error {
    ThreadState& thread = ThisThread();
    if (handle == nullptr) {
      thread.contexts.Pop();
      return CUDA_SUCCESS;
    }
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    thread.contexts.Set(context);
    thread.device_chosen = true;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    ThisThread().contexts.Push(context);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return AnswerWithDriver([&](Session&) -> Error {
    const std::shared_ptr<Context> was = ThisThread().contexts.Pop();
    if (was == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = HandleOf(was.get());
    return CUDA_SUCCESS;
  });
}

// --- Queries and settings of contexts

CUSPAN_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return AnswerFromTables([&](Session&) -> Error {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Context* const context = ThisThread().contexts.top();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(device);
  return AnswerWithDriver([&](Session& session) -> Error {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    *device = context->device();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = ThisThread().contexts.top();
    if (handle != nullptr) CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->number();
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return AnswerWithDriver([&](Session& session) -> Error {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = ThisThread().contexts.top();
    if (handle != nullptr) CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    if (context == nullptr || context->destroyed()) return CUDA_ERROR_INVALID_CONTEXT;
    *version = kApiVersion;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  // Destroyed contexts have flags, too.
  return AnswerFromTables([&](Session& session) -> Error {
    const Context* const context = ThisThread().contexts.top();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = FlagsOf(session, *context);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxSetFlags(unsigned flags) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    return SetFlags(session, connection.context(), flags);
  });
}

CUSPAN_EXPORT CUresult cuCtxSynchronize() {
  return AnswerInContext(
      [&](Session& session) { return WaitForContext(session, *ThisThread().contexts.top()); });
}

CUSPAN_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (handle == nullptr) return cuCtxSynchronize();
  return AnswerWithDriver([&](Session& session) -> Error {
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
    if (session.devices().Opened(*context) == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return WaitForContext(session, *context);
  });
}

CUSPAN_EXPORT CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  return AnswerLocally([&](Session&, ContextConnection& connection) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GetLimit(connection, limit, value);
  });
}

CUSPAN_EXPORT CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  return AnswerInContext([&](Session&, ContextConnection& connection) -> Error {
    return SetLimit(connection, limit, value);
  });
}

CUSPAN_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *config = DeviceCacheConfig(session, connection.device());
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    return SetDeviceCacheConfig(session, connection.device(), config);
  });
}

// Since compute capability 5.0, the width of shared memory banks is fixed. Settings have no effect.
CUSPAN_EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  return AnswerInContext([&](Session&) -> Error {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
  });
}
CUSPAN_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return AnswerInContext([&](Session&) -> Error {
    return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                   config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    const PriorityRange range = PrioritiesOf(session.devices().description(connection.device()));
    if (least != nullptr) *least = range.least;
    if (greatest != nullptr) *greatest = range.greatest;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxResetPersistingL2Cache() {
  return AnswerInContext([](Session&) -> Error { return CUDA_SUCCESS; });
}

// --- Access to other devices' memory

CUSPAN_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return AboutDevice(device, [&](Session& session, int number) -> Error {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!HasDevice(session, peer)) return CUDA_ERROR_INVALID_DEVICE;
    bool answer = false;
    CUSPAN_RETURN_IF_FAILED(CanAccessPeer(session, number, peer, &answer));
    *can = answer ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, peer, &context));
    if (context->device() == connection.device()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return EnablePeer(session, connection.context(), *context);
  });
}

CUSPAN_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    Context* context = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindContext(session, peer, &context));
    return DisablePeer(session, connection.context(), *context);
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute,
                                               CUdevice source, CUdevice destination) {
  return AboutDevice(source, [&](Session& session, int number) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!HasDevice(session, destination) || source == destination) return CUDA_ERROR_INVALID_DEVICE;
    if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
      return CUDA_ERROR_INVALID_VALUE;
    bool can = false;
    CUSPAN_RETURN_IF_FAILED(CanAccessPeer(session, number, destination, &can));
    *value = can && attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned* capabilities,
                                                        const CUatomicOperation* operations,
                                                        unsigned count, CUdevice source,
                                                        CUdevice destination) {
  return AnswerWithDriver([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(AtomicsOverLink(operations, count, capabilities));
    const bool two = HasDevice(session, source) && HasDevice(session, destination);
    return two && source != destination ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}
