// Memory that graphs allocate.
#include <algorithm>
#include <array>

#include "interpose/client/pools.h"
#include "interpose/runtime/graph.h"

namespace cuspan {
namespace {

// By device; what graphs have allocated, now and at most.
struct Use {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
};
std::mutex use_mutex;
std::map<int, Use>& Uses() {
  static auto* const uses = new std::map<int, Use>;  // Never destroyed, as the session.
  return *uses;
}

Error CheckDevice(int device) {
  return WithSession([&](Session& session) -> Error {
    return device >= 0 && device < session.device_count() ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

bool IsHigh(cudaGraphMemAttributeType attribute) {
  return attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
}
bool IsCurrent(cudaGraphMemAttributeType attribute) {
  return attribute == cudaGraphMemAttrUsedMemCurrent ||
         attribute == cudaGraphMemAttrReservedMemCurrent;
}

}  // namespace

Error GraphMemory::Allocate(Session& session, int on, std::uint64_t size) {
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(session.OpenLink(on, &link));
  std::uint64_t made = 0;
  CUSPAN_RETURN_IF_FAILED(link->memory().Allocate(size, &made));
  device = on;
  address = made;
  bytes = size;
  link_number = link->number();
  Pools::Get().Keep(address, true);
  std::lock_guard lock(use_mutex);
  Use& use = Uses()[device];
  use.now += bytes;
  use.most = std::max(use.most, use.now);
  return cudaSuccess;
}

GraphMemory::~GraphMemory() {
  if (address == 0) return;
  {
    std::lock_guard lock(use_mutex);
    Uses()[device].now -= bytes;
  }
  Session* const session = Session::IfStarted();
  if (session == nullptr) return;
  // A device that was reset has no such memory any more, but perhaps other at that address.
  const std::shared_ptr<Link> link = session->OpenedLink(device);
  if (link == nullptr || link->number() != link_number) return;
  Pools::Get().Keep(address, false);
  static_cast<void>(session->Free(address));
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr || (!IsHigh(attribute) && !IsCurrent(attribute)))
      return cudaErrorInvalidValue;
    CUSPAN_RETURN_IF_FAILED(CheckDevice(device));
    std::lock_guard lock(use_mutex);
    const Use& use = Uses()[device];
    *static_cast<std::uint64_t*>(value) = IsHigh(attribute) ? use.most : use.now;
    return cudaSuccess;
  });
}

// Only the highest values can be set, to 0: they start anew.
CUSPAN_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr || !IsHigh(attribute) || *static_cast<std::uint64_t*>(value) != 0)
      return cudaErrorInvalidValue;
    CUSPAN_RETURN_IF_FAILED(CheckDevice(device));
    std::lock_guard lock(use_mutex);
    Use& use = Uses()[device];
    use.most = use.now;
    return cudaSuccess;
  });
}

// What no graph has goes back by itself.
CUSPAN_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return Answer([&] { return CheckDevice(device); });
}
