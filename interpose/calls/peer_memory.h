// Access of one device's kernels to another's memory, where one node has both. Copies between
// devices work without it.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// Both are devices. Whether `device` can have the memory of `peer`.
Error CanAccessPeer(Session& session, int device, int peer, bool* can);
// Gives the kernels of `device` all memory of `peer`, another device.
// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, or …_ALREADY_ENABLED.
Error EnablePeer(Session& session, int device, int peer);
// CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.
Error DisablePeer(Session& session, int device, int peer);

}  // namespace cuspan
