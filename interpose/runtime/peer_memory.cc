// Peer access between devices.
#include "interpose/calls/peer_memory.h"

#include "interpose/calls/device.h"
#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Answer([&]() -> Error {
    if (can == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device) || !HasDevice(session, peer)) return cudaErrorInvalidDevice;
      bool answer = false;
      CUSPAN_RETURN_IF_FAILED(CanAccessPeer(session, device, peer, &answer));
      *can = answer ? 1 : 0;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return AnswerUnlessFaulted([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      if (flags != cudaPeerAccessDefault) return cudaErrorInvalidValue;
      if (CurrentDevice() == peer) return cudaErrorPeerAccessUnsupported;
      return EnablePeer(session, session.devices().CurrentContext(),
                        session.devices().Primary(peer));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return AnswerUnlessFaulted([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      return DisablePeer(session, session.devices().CurrentContext(),
                         session.devices().Primary(peer));
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
      CUSPAN_RETURN_IF_FAILED(CanAccessPeer(session, source, destination, &can));
      const bool told = attribute == cudaDevP2PAttrAccessSupported;
      *value = can && told ? 1 : 0;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned* capabilities,
                                                             const cudaAtomicOperation* operations,
                                                             unsigned count, int source,
                                                             int destination) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      CUSPAN_RETURN_IF_FAILED(AtomicsOverLink(operations, count, capabilities));
      const bool two = HasDevice(session, source) && HasDevice(session, destination);
      return two && source != destination ? cudaSuccess : cudaErrorInvalidDevice;
    });
  });
}
