#include "interpose/calls/peer_memory.h"

namespace cuspan {

namespace {

// Excludes pairs by their descriptions, without opening the devices.
bool MayReach(const Session& session, int device, int peer) {
  const DeviceDescription& one = session.devices().description(device);
  const DeviceDescription& other = session.devices().description(peer);
  return device != peer && one.agent == other.agent && one.host == other.host;
}

}  // namespace

Error CanAccessPeer(Session& session, int device, int peer, bool* can) {
  *can = false;
  if (!MayReach(session, device, peer)) return CUDA_SUCCESS;
  std::shared_ptr<ContextConnection> user;
  std::shared_ptr<ContextConnection> owner;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &user));
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(peer, &owner));
  *can = session.peer_memory().CanAccess(*user, *owner);
  return CUDA_SUCCESS;
}

Error EnablePeer(Session& session, Context& user, Context& owner) {
  std::shared_ptr<ContextConnection> of_user;
  std::shared_ptr<ContextConnection> of_owner;
  if (!MayReach(session, user.device(), owner.device())) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(user, &of_user));
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(owner, &of_owner));
  if (!session.peer_memory().CanAccess(*of_user, *of_owner))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return session.peer_memory().Enable(*of_user, *of_owner);
}

Error SetPeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool,
                        CUmemAccess_flags flags) {
  std::shared_ptr<ContextConnection> of_user = session.devices().Opened(user);
  std::shared_ptr<ContextConnection> of_owner = session.devices().Opened(owner);
  // Nothing to revoke.
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && (of_user == nullptr || of_owner == nullptr))
    return CUDA_SUCCESS;
  if (!MayReach(session, user, owner)) return CUDA_ERROR_INVALID_DEVICE;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(user, &of_user));
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(owner, &of_owner));
  return session.peer_memory().SetPoolAccess(*of_user, *of_owner, pool, flags);
}

CUmemAccess_flags PeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool) {
  const auto of_user = session.devices().Opened(user);
  const auto of_owner = session.devices().Opened(owner);
  if (of_user == nullptr || of_owner == nullptr) return CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return session.peer_memory().PoolAccess(*of_user, *of_owner, pool);
}

Error DisablePeer(Session& session, const Context& user, const Context& owner) {
  const auto of_user = session.devices().Opened(user);
  const auto of_owner = session.devices().Opened(owner);
  if (of_user == nullptr || of_owner == nullptr) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  return session.peer_memory().Disable(*of_user, *of_owner);
}

}  // namespace cuspan
