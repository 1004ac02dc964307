#include "interpose/calls/stream_attributes.h"

#include <map>
#include <utility>

#include "common/mutex.h"
#include "interpose/calls/base/attributes.h"
#include "interpose/calls/base/ways_in.h"

namespace cuspan {
namespace {

// Attributes of default streams, by connection and stream number.
class DefaultStreamAttributes final : public ContextTable {
 public:
  // Calls use(StreamAttributes::Values&) under a mutex.
  template <typename Use>
  void With(const StreamTarget& target, Use&& use) {
    const MutexLock lock(mutex_);
    use(values_[{target.connection->number(), target.stream}]);
  }
  void Forget(const ContextConnection& ended) override {
    const MutexLock lock(mutex_);
    std::erase_if(values_, [&](const auto& entry) { return entry.first.first == ended.number(); });
  }

 private:
  Mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, StreamAttributes::Values> values_
      CUSPAN_GUARDED_BY(mutex_);
};

// Calls use(the stream's attributes, its device, Stream or null), under a mutex.
template <typename Use>
Error WithStreamAttributes(CUstream stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
    const auto made = session.streams().Find(NumberOf(stream));
    Error result = CUDA_SUCCESS;
    const auto with_values = [&](StreamAttributes::Values& values) {
      result = use(values, session.devices().description(target.connection->device()), made);
    };
    if (made != nullptr)
      made->attributes.With(with_values);
    else
      session.TableOf<DefaultStreamAttributes>().With(target, with_values);
    return result;
  });
}

bool OfStreams(CUlaunchAttributeID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

Error Check(const DeviceDescription& device, CUlaunchAttributeID attribute,
            const CUlaunchAttributeValue& value) {
  bool right = true;
  if (attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
    const CUaccessPolicyWindow& window = value.accessPolicyWindow;
    const auto most = static_cast<std::size_t>(
        AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE));
    right = window.hitRatio >= 0 && window.hitRatio <= 1 && window.num_bytes <= most;
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
    right =
        value.syncPolicy >= CU_SYNC_POLICY_AUTO && value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) {
    right = value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
            value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  }
  return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUlaunchAttributeValue Default(CUlaunchAttributeID attribute, int priority) {
  CUlaunchAttributeValue value{};
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
    value.syncPolicy = CU_SYNC_POLICY_AUTO;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value.priority = priority;
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) value.memSyncDomainMap = {0, 1};
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) {
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  }
  return value;
}

}  // namespace

Error GetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         CUlaunchAttributeValue* value, DefaultStream meaning) {
  if (value == nullptr || !OfStreams(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return WithStreamAttributes(
      stream, meaning,
      [&](const auto& values, const DeviceDescription&, const auto& made) -> Error {
        const auto known = values.find(attribute);
        *value = known != values.end() ? known->second
                                       : Default(attribute, made != nullptr ? made->priority : 0);
        return CUDA_SUCCESS;
      });
}

Error SetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         const CUlaunchAttributeValue* value, DefaultStream meaning) {
  if (value == nullptr || !OfStreams(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return WithStreamAttributes(
      stream, meaning, [&](auto& values, const DeviceDescription& device, const auto&) -> Error {
        CUSPAN_RETURN_IF_FAILED(Check(device, attribute, *value));
        values[attribute] = *value;
        return CUDA_SUCCESS;
      });
}

Error CopyStreamAttributes(CUstream to, CUstream from, DefaultStream meaning) {
  for (const CUlaunchAttributeID attribute :
       {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
        CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN}) {
    CUlaunchAttributeValue value;
    CUSPAN_RETURN_IF_FAILED(GetStreamAttribute(from, attribute, &value, meaning));
    CUSPAN_RETURN_IF_FAILED(SetStreamAttribute(to, attribute, &value, meaning));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan
