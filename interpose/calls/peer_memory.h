// Access of kernels to memory of another device of the same node. Copies between devices work
// without it.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Both must be valid. *can: true if `device` can access memory of `peer`.
Error CanAccessPeer(Session& session, int device, int peer, bool* can);
// Gives kernels of `user` access to all memory of `owner`, a context of another device.
// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, or …_ALREADY_ENABLED.
Error EnablePeer(Session& session, Context& user, Context& owner);
// Same for the memory of a pool of `owner`, another device. …_PROT_NONE revokes it.
// CUDA_ERROR_INVALID_DEVICE if it is impossible.
Error SetPeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool,
                        CUmemAccess_flags flags);
CUmemAccess_flags PeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool);
// CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.
Error DisablePeer(Session& session, const Context& user, const Context& owner);

}  // namespace cuspan
