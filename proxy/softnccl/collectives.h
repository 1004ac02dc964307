// Collective operations on host memory, between the ranks of a mesh.
//
// A reduction is computed in segments. Each rank receives its segment from all others, and reduces
// it from the first rank to the last. It then sends the result to the ranks needing it. All ranks
// get the same bits in every run, and no rank sends more than twice its own bytes.
//
// Threads: any; one at a time for a Mesh.
#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "protocol/nccl/nccl.h"
#include "proxy/softnccl/mesh.h"

namespace cuspan::softnccl {

using nccl::CallKind;

// One call without buffers. Ranks of a collective pass equal values. `root`: also peer of kSend,
// kReceive.
struct Call {
  CallKind kind;
  std::size_t count;  // Elements, as counted by NCCL for this kind.
  nccl::DataType type;
  nccl::ReduceOp op = nccl::kSum;
  int root = 0;
};

// Sizes of a rank's buffers, in bytes.
std::size_t SendBytes(const Call& call, int rank, int ranks);
std::size_t ReceiveBytes(const Call& call, int rank, int ranks);

// A call with its buffers. They do not overlap.
struct HostCall {
  Call call;
  std::byte* send;
  std::byte* receive;
};

// Runs any kind except kSend and kReceive. Errors are Mesh's.
Status RunCollective(Mesh& mesh, const HostCall& call);
// Runs kSend and kReceive concurrently: calls naming each other's ranks do not block each other.
Status RunPointToPoint(Mesh& mesh, std::span<const HostCall> calls);

}  // namespace cuspan::softnccl
