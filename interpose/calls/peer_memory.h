// Access of one device's kernels to another's memory, where one node has both. Copies between
// devices work without it.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// Both are devices. Whether `device` can have the memory of `peer`.
Error CanAccessPeer(Session& session, int device, int peer, bool* can);
// Gives the kernels of `user` all memory of `owner`, a context of another device.
// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, or …_ALREADY_ENABLED.
Error EnablePeer(Session& session, Context& user, Context& owner);
// The same for the memory of a pool of `owner`, another device, or takes it back with
// …_PROT_NONE. CUDA_ERROR_INVALID_DEVICE where it cannot be.
Error SetPeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool,
                        CUmemAccess_flags flags);
CUmemAccess_flags PeerPoolAccess(Session& session, int user, int owner, std::uint64_t pool);
// CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.
Error DisablePeer(Session& session, const Context& user, const Context& owner);

}  // namespace cuspan
