#include "interpose/calls/device_settings.h"

#include <array>
#include <atomic>
#include <optional>
#include <utility>

namespace cuspan {
namespace {

// Size of arrays indexed by device. Hints for higher devices, more than a session can have, are
// dropped.
constexpr std::size_t kMaxDevices = 256;
constinit std::array<std::atomic<unsigned>, kMaxDevices> device_flags{};
constinit std::array<std::atomic<int>, kMaxDevices> cache_configs{};

template <typename Value>
Value* Slot(std::array<Value, kMaxDevices>& values, int device) {
  const auto index = static_cast<std::size_t>(device);
  return index < values.size() ? &values[index] : nullptr;
}

}  // namespace

bool AreDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown =
      CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS;
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kKnown) == 0 &&
         (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
          schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

Error SetDeviceFlags(int device, unsigned flags) {
  if (!AreDeviceFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  // Stored only: cuspan decides how threads wait, and ignores CU_CTX_SYNC_MEMOPS.
  if (auto* const slot = Slot(device_flags, device)) slot->store(flags);
  return CUDA_SUCCESS;
}

unsigned DeviceFlags(int device) {
  const auto* const slot = Slot(device_flags, device);
  return slot != nullptr ? slot->load() : 0;
}

Error GetLimit(ContextConnection& connection, CUlimit limit, std::size_t* value) {
  std::uint64_t age = 0;
  const std::optional<std::uint64_t> known = connection.limits().Find(limit, &age);
  // Drivers enlarge stacks for kernels needing more.
  if (known &&
      (limit != CU_LIMIT_STACK_SIZE || connection.modules().most_local_bytes() <= *known)) {
    *value = *known;
    return CUDA_SUCCESS;
  }
  LimitGet op;
  op.limit = limit;
  LimitGet::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
  connection.limits().Keep(limit, reply.value, age);
  *value = reply.value;
  return CUDA_SUCCESS;
}

Error SetLimit(ContextConnection& connection, CUlimit limit, std::size_t value) {
  LimitSet op;
  op.limit = limit;
  op.value = value;
  LimitSet::Reply reply;
  const Error result = connection.Call(op, &reply);
  connection.limits().Forget();
  return result;
}

Error SetDeviceCacheConfig(int device, CUfunc_cache config) {
  if (!IsCacheConfig(config)) return CUDA_ERROR_INVALID_VALUE;
  if (auto* const slot = Slot(cache_configs, device)) slot->store(config);
  return CUDA_SUCCESS;
}

CUfunc_cache DeviceCacheConfig(int device) {
  const auto* const slot = Slot(cache_configs, device);
  return slot != nullptr ? static_cast<CUfunc_cache>(slot->load()) : CU_FUNC_CACHE_PREFER_NONE;
}

Error ExchangeCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int before = std::exchange(ThisThread().capture_mode, static_cast<int>(*mode));
  *mode = static_cast<CUstreamCaptureMode>(before);
  return CUDA_SUCCESS;
}

}  // namespace cuspan
