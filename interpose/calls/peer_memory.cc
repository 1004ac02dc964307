#include "interpose/calls/peer_memory.h"

namespace cuspan {

Error CanAccessPeer(Session& session, int device, int peer, bool* can) {
  *can = false;
  // Without opening devices of which it is known.
  const DeviceDescription& one = session.devices().description(device);
  const DeviceDescription& other = session.devices().description(peer);
  if (device == peer || one.agent != other.agent || one.host != other.host) return CUDA_SUCCESS;
  std::shared_ptr<Link> user;
  std::shared_ptr<Link> owner;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &user));
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(peer, &owner));
  *can = session.peer_memory().CanAccess(*user, *owner);
  return CUDA_SUCCESS;
}

Error EnablePeer(Session& session, int device, int peer) {
  bool can = false;
  CUSPAN_RETURN_IF_FAILED(CanAccessPeer(session, device, peer, &can));
  if (!can) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return session.peer_memory().Enable(*session.devices().Opened(device),
                                      *session.devices().Opened(peer));
}

Error DisablePeer(Session& session, int device, int peer) {
  const auto user = session.devices().Opened(device);
  const auto owner = session.devices().Opened(peer);
  if (user == nullptr || owner == nullptr) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  return session.peer_memory().Disable(*user, *owner);
}

}  // namespace cuspan
