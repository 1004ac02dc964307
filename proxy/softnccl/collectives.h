// What each collective operation does, on host memory, between the ranks of a mesh.
//
// A reduction is made in segments: each rank gets its segment of all the others, reduces them from
// the first rank to the last, and hands the result to those who want it. So all ranks have the same
// bits, in every run, and no rank sends more than twice what it has.
//
// Threads: any; a Mesh by one at a time.
#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "protocol/nccl/nccl.h"
#include "proxy/softnccl/mesh.h"

namespace cuspan::softnccl {

using nccl::CallKind;

// One call, the same at all ranks but for the buffers; of kSend and kReceive `root` is the peer.
struct Call {
  CallKind kind;
  std::size_t count;  // Elements, as NCCL counts for this kind.
  nccl::DataType type;
  nccl::ReduceOp op = nccl::kSum;
  int root = 0;
};

// Bytes that a rank gives and gets.
std::size_t SendBytes(const Call& call, int rank, int ranks);
std::size_t ReceiveBytes(const Call& call, int rank, int ranks);

// A call with its bytes, which do not overlap.
struct HostCall {
  Call call;
  std::byte* send;
  std::byte* receive;
};

// Neither kSend nor kReceive. Errors are Mesh's.
Status RunCollective(Mesh& mesh, const HostCall& call);
// kSend and kReceive only, at once: calls that name each other's ranks do not wait for each other.
Status RunPointToPoint(Mesh& mesh, std::span<const HostCall> calls);

}  // namespace cuspan::softnccl
