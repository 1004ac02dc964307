#include "interpose/calls/device_settings.h"

#include <map>
#include <optional>
#include <utility>

#include "common/mutex.h"

namespace cuspan {
namespace {

struct StoredSettings {
  unsigned flags = 0;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
};

// Settings by device. Threads: any.
class DeviceSettings {
 public:
  // Calls use(StoredSettings&) with the mutex held.
  template <typename Use>
  void With(int device, Use&& use) {
    const MutexLock lock(mutex_);
    use(stored_[device]);
  }

 private:
  Mutex mutex_;
  std::map<int, StoredSettings> stored_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace

bool AreDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown =
      CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS;
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kKnown) == 0 &&
         (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
          schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

Error SetDeviceFlags(Session& session, int device, unsigned flags) {
  if (!AreDeviceFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  // Stored only: cuspan decides how threads wait, and ignores CU_CTX_SYNC_MEMOPS.
  session.TableOf<DeviceSettings>().With(device,
                                         [&](StoredSettings& stored) { stored.flags = flags; });
  return CUDA_SUCCESS;
}

unsigned DeviceFlags(Session& session, int device) {
  unsigned flags = 0;
  session.TableOf<DeviceSettings>().With(
      device, [&](const StoredSettings& stored) { flags = stored.flags; });
  return flags;
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

Error SetDeviceCacheConfig(Session& session, int device, CUfunc_cache config) {
  if (!IsCacheConfig(config)) return CUDA_ERROR_INVALID_VALUE;
  session.TableOf<DeviceSettings>().With(
      device, [&](StoredSettings& stored) { stored.cache_config = config; });
  return CUDA_SUCCESS;
}

CUfunc_cache DeviceCacheConfig(Session& session, int device) {
  CUfunc_cache config = CU_FUNC_CACHE_PREFER_NONE;
  session.TableOf<DeviceSettings>().With(
      device, [&](const StoredSettings& stored) { config = stored.cache_config; });
  return config;
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
