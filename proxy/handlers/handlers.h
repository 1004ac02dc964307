// One function an op: what the proxy does with it. A family of ops has a file,
// as the faces of the client have.
//
// Called on the receiving thread, in the order of the frames. A function checks
// what the client claims: kInvalid for what no honest client sends, which ends
// the session. What the driver refuses is reported to the client instead.
// Views into the frame are valid until the function returns. Nothing here waits.
#pragma once

#include "proxy/session.h"

namespace cuspan::proxy {

// memory.cc
Status Handle(Session& session, const Origin& origin, const MemoryMap& op);
Status Handle(Session& session, const Origin& origin, const MemoryUnmap& op);
Status Handle(Session& session, const Origin& origin, const MemoryImport& op);
Status Handle(Session& session, const Origin& origin, const MemoryImportEnd& op);
Status Handle(Session& session, const Origin& origin, const MemoryInfo& op);
Status Handle(Session& session, const Origin& origin, const Fence& op);
Status Handle(Session& session, const Origin& origin, const PeerOpen& op);
Status Handle(Session& session, const Origin& origin, const PeerMap& op);
Status Handle(Session& session, const Origin& origin, const PeerUnmap& op);
Status Handle(Session& session, const Origin& origin, const PeerClose& op);
// array.cc
Status Handle(Session& session, const Origin& origin, const ArrayCreate& op);
Status Handle(Session& session, const Origin& origin, const ArrayOfLevel& op);
Status Handle(Session& session, const Origin& origin, const ArrayDestroy& op);
Status Handle(Session& session, const Origin& origin, const TextureCreate& op);
Status Handle(Session& session, const Origin& origin, const TextureDestroy& op);
Status Handle(Session& session, const Origin& origin, const SurfaceCreate& op);
Status Handle(Session& session, const Origin& origin, const SurfaceDestroy& op);
// box_copy.cc
Status Handle(Session& session, const Origin& origin, const CopyBoxToDevice& op);
Status Handle(Session& session, const Origin& origin, const CopyBoxFromDevice& op);
Status Handle(Session& session, const Origin& origin, const CopyBoxOnDevice& op);
Status Handle(Session& session, const Origin& origin, const MemsetRows& op);
// copy.cc
Status Handle(Session& session, const Origin& origin, const CopyToDeviceInline& op);
Status Handle(Session& session, const Origin& origin, const CopyToDevice& op);
Status Handle(Session& session, const Origin& origin, const CopyFromDevice& op);
Status Handle(Session& session, const Origin& origin, const CopyOnDevice& op);
Status Handle(Session& session, const Origin& origin, const Memset& op);
Status Handle(Session& session, const Origin& origin, const Chunk& op);
// peer_copy.cc
Status Handle(Session& session, const Origin& origin, const PeerJoin& op);
Status Handle(Session& session, const Origin& origin, const PeerSend& op);
Status Handle(Session& session, const Origin& origin, const PeerReceive& op);
Status Handle(Session& session, const Origin& origin, const PeerAbandon& op);
// module.cc
Status Handle(Session& session, const Origin& origin, const ModuleImage& op);
Status Handle(Session& session, const Origin& origin, const ModuleLoad& op);
Status Handle(Session& session, const Origin& origin, const ModuleUnload& op);
Status Handle(Session& session, const Origin& origin, const KernelFind& op);
Status Handle(Session& session, const Origin& origin, const VariableFind& op);
Status Handle(Session& session, const Origin& origin, const ModuleKernels& op);
Status Handle(Session& session, const Origin& origin, const KernelParameter& op);
// launch.cc
Status Handle(Session& session, const Origin& origin, const KernelSetAttribute& op);
Status Handle(Session& session, const Origin& origin, const KernelOccupancy& op);
Status Handle(Session& session, const Origin& origin, const KernelAvailableShared& op);
Status Handle(Session& session, const Origin& origin, const KernelSetCacheConfig& op);
Status Handle(Session& session, const Origin& origin, const KernelClusters& op);
Status Handle(Session& session, const Origin& origin, const Launch& op);
Status Handle(Session& session, const Origin& origin, const LaunchShaped& op);
// graph.cc
Status Handle(Session& session, const Origin& origin, const GraphCreate& op);
Status Handle(Session& session, const Origin& origin, const GraphDestroy& op);
Status Handle(Session& session, const Origin& origin, const GraphCondition& op);
Status Handle(Session& session, const Origin& origin, const GraphClear& op);
Status Handle(Session& session, const Origin& origin, const GraphKernel& op);
Status Handle(Session& session, const Origin& origin, const GraphCopy& op);
Status Handle(Session& session, const Origin& origin, const GraphSet& op);
Status Handle(Session& session, const Origin& origin, const GraphJoin& op);
Status Handle(Session& session, const Origin& origin, const GraphBranch& op);
Status Handle(Session& session, const Origin& origin, const GraphInstantiate& op);
Status Handle(Session& session, const Origin& origin, const GraphLaunch& op);
Status Handle(Session& session, const Origin& origin, const GraphExecDestroy& op);
// stream.cc
Status Handle(Session& session, const Origin& origin, const StreamCreate& op);
Status Handle(Session& session, const Origin& origin, const StreamDestroy& op);
Status Handle(Session& session, const Origin& origin, const StreamSynchronize& op);
Status Handle(Session& session, const Origin& origin, const StreamQuery& op);
Status Handle(Session& session, const Origin& origin, const DeviceSynchronize& op);
// event.cc
Status Handle(Session& session, const Origin& origin, const EventCreate& op);
Status Handle(Session& session, const Origin& origin, const EventDestroy& op);
Status Handle(Session& session, const Origin& origin, const EventRecord& op);
Status Handle(Session& session, const Origin& origin, const StreamWaitEvent& op);
Status Handle(Session& session, const Origin& origin, const StreamWaitSignal& op);
Status Handle(Session& session, const Origin& origin, const Signal& op);
Status Handle(Session& session, const Origin& origin, const EventElapsed& op);
// device.cc
Status Handle(Session& session, const Origin& origin, const LimitGet& op);
Status Handle(Session& session, const Origin& origin, const LimitSet& op);

}  // namespace cuspan::proxy
