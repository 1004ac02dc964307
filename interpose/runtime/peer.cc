// Access of one device's kernels to another's memory: not offered yet. Copies
// between devices work without it (copy.cc).
#include "interpose/client/thread_state.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

bool HasDevice(const Session& session, int device) {
  return device >= 0 && device < session.device_count();
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Answer([&]() -> Error {
    if (can == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, device) || !HasDevice(session, peer)) return cudaErrorInvalidDevice;
      *can = 0;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      if (flags != cudaPeerAccessDefault) return cudaErrorInvalidValue;
      return cudaErrorPeerAccessUnsupported;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (!HasDevice(session, peer)) return cudaErrorInvalidDevice;
      return cudaErrorPeerAccessNotEnabled;
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
      *value = 0;
      return cudaSuccess;
    });
  });
}
