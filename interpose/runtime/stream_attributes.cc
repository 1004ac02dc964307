// What a program sets for a stream beside its flags and priority: hints about caches, waiting and
// memory domains. None changes what a program computes, so they are kept and answered here.
#include <map>
#include <mutex>
#include <utility>

#include "interpose/calls/attributes.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// By stream (numbers are never used again) and attribute; what is not there was never set.
struct Settings {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, int>, cudaLaunchAttributeValue> values;
};
Settings& TheSettings() {
  static auto* const settings = new Settings;
  return *settings;
}

// use(settings of all streams, the stream's number there, its device, what the program made or
// null), under the mutex.
template <typename Use>
Error WithStream(cudaStream_t stream, DefaultStream meaning, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.ResolveStream(stream, meaning, &target));
    const std::uint64_t number = target.stream != 0 ? target.stream : target.link->number();
    Settings& settings = TheSettings();
    std::lock_guard lock(settings.mutex);
    return use(settings.values, number, session.description(target.link->device()),
               session.FindStream(NumberOf(stream)));
  });
}

bool OfStreams(cudaLaunchAttributeID attribute) {
  return attribute == cudaLaunchAttributeAccessPolicyWindow ||
         attribute == cudaLaunchAttributeSynchronizationPolicy ||
         attribute == cudaLaunchAttributePriority ||
         attribute == cudaLaunchAttributeMemSyncDomainMap ||
         attribute == cudaLaunchAttributeMemSyncDomain;
}

Error Check(const DeviceDescription& device, cudaLaunchAttributeID attribute,
            const cudaLaunchAttributeValue& value) {
  bool right = true;
  if (attribute == cudaLaunchAttributeAccessPolicyWindow) {
    const cudaAccessPolicyWindow& window = value.accessPolicyWindow;
    const auto most = static_cast<std::size_t>(
        AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE));
    right = window.hitRatio >= 0 && window.hitRatio <= 1 && window.num_bytes <= most;
  } else if (attribute == cudaLaunchAttributeSynchronizationPolicy) {
    right =
        value.syncPolicy >= cudaSyncPolicyAuto && value.syncPolicy <= cudaSyncPolicyBlockingSync;
  } else if (attribute == cudaLaunchAttributeMemSyncDomain) {
    right = value.memSyncDomain == cudaLaunchMemSyncDomainDefault ||
            value.memSyncDomain == cudaLaunchMemSyncDomainRemote;
  }
  return right ? cudaSuccess : cudaErrorInvalidValue;
}

cudaLaunchAttributeValue Default(cudaLaunchAttributeID attribute, int priority) {
  cudaLaunchAttributeValue value{};
  if (attribute == cudaLaunchAttributeSynchronizationPolicy) value.syncPolicy = cudaSyncPolicyAuto;
  if (attribute == cudaLaunchAttributePriority) value.priority = priority;
  if (attribute == cudaLaunchAttributeMemSyncDomainMap) value.memSyncDomainMap = {0, 1};
  if (attribute == cudaLaunchAttributeMemSyncDomain) {
    value.memSyncDomain = cudaLaunchMemSyncDomainDefault;
  }
  return value;
}

Error GetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                   cudaLaunchAttributeValue* value, DefaultStream meaning) {
  if (value == nullptr || !OfStreams(attribute)) return cudaErrorInvalidValue;
  return WithStream(stream, meaning,
                    [&](const auto& values, std::uint64_t number, const DeviceDescription&,
                        const auto& made) -> Error {
                      const auto known = values.find({number, attribute});
                      *value = known != values.end()
                                   ? known->second
                                   : Default(attribute, made != nullptr ? made->priority : 0);
                      return cudaSuccess;
                    });
}

Error SetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                   const cudaLaunchAttributeValue* value, DefaultStream meaning) {
  if (value == nullptr || !OfStreams(attribute)) return cudaErrorInvalidValue;
  return WithStream(stream, meaning,
                    [&](auto& values, std::uint64_t number, const DeviceDescription& device,
                        const auto&) -> Error {
                      CUSPAN_RETURN_IF_FAILED(Check(device, attribute, *value));
                      values[{number, attribute}] = *value;
                      return cudaSuccess;
                    });
}

Error CopyAttributes(cudaStream_t to, cudaStream_t from, DefaultStream meaning) {
  for (const cudaLaunchAttributeID attribute :
       {cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeSynchronizationPolicy,
        cudaLaunchAttributePriority, cudaLaunchAttributeMemSyncDomainMap,
        cudaLaunchAttributeMemSyncDomain}) {
    cudaLaunchAttributeValue value;
    CUSPAN_RETURN_IF_FAILED(GetAttribute(from, attribute, &value, meaning));
    CUSPAN_RETURN_IF_FAILED(SetAttribute(to, attribute, &value, meaning));
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaStreamGetAttribute, _ptsz,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute,
                     cudaLaunchAttributeValue* value),
                    Answer([&] { return GetAttribute(stream, attribute, value, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamSetAttribute, _ptsz,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute,
                     const cudaLaunchAttributeValue* value),
                    Answer([&] { return SetAttribute(stream, attribute, value, meaning); }))

CUSPAN_EXPORT_TWINS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from),
                    Answer([&] { return CopyAttributes(to, from, meaning); }))
