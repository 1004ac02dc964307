// Access of one device's kernels to another's memory, where one node has both. Copies
// between devices work without it (copy.cc).
#include "interpose/client/thread_state.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// Whether `device` can have the memory of `peer`.
Error CanAccess(Session& session, int device, int peer, bool* can) {
  *can = false;
  // Without opening devices of which it is known.
  const DeviceDescription& one = session.devices().description(device);
  const DeviceDescription& other = session.devices().description(peer);
  if (device == peer || one.agent != other.agent || one.host != other.host) return cudaSuccess;
  std::shared_ptr<Link> user;
  std::shared_ptr<Link> owner;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &user));
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(peer, &owner));
  *can = session.peer_memory().CanAccess(*user, *owner);
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Answer([&]() -> Error {
    if (can == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device) || !HasDevice(session, peer)) return cudaErrorInvalidDevice;
      bool answer = false;
      CUSPAN_RETURN_IF_FAILED(CanAccess(session, device, peer, &answer));
      *can = answer ? 1 : 0;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      if (flags != cudaPeerAccessDefault) return cudaErrorInvalidValue;
      const int device = CurrentDevice();
      if (device == peer) return cudaErrorInvalidDevice;
      bool can = false;
      CUSPAN_RETURN_IF_FAILED(CanAccess(session, device, peer, &can));
      if (!can) return cudaErrorPeerAccessUnsupported;
      return session.peer_memory().Enable(*session.devices().Opened(device),
                                          *session.devices().Opened(peer));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      const auto user = session.devices().Opened(CurrentDevice());
      const auto owner = session.devices().Opened(peer);
      if (user == nullptr || owner == nullptr) return cudaErrorPeerAccessNotEnabled;
      return session.peer_memory().Disable(*user, *owner);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute,
                                                    int source, int destination) {
  return Answer([&]() -> Error {
    if (value == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, source) || !HasDevice(session, destination) ||
          source == destination) {
        return cudaErrorInvalidDevice;
      }
      if (attribute < cudaDevP2PAttrPerformanceRank ||
          attribute > cudaDevP2PAttrOnlyPartialNativeAtomicSupported) {
        return cudaErrorInvalidValue;
      }
      bool can = false;
      CUSPAN_RETURN_IF_FAILED(CanAccess(session, source, destination, &can));
      const bool told = attribute == cudaDevP2PAttrAccessSupported;
      *value = can && told ? 1 : 0;
      return cudaSuccess;
    });
  });
}
