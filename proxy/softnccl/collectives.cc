#include "proxy/softnccl/collectives.h"

#include <vector>

#include "proxy/softnccl/elements.h"

namespace cuspan::softnccl {
namespace {

constexpr std::uint64_t kPointToPoint = 0xff;

// Identifies a call. Ranks compare it to detect different calls.
std::uint64_t KindOf(const Call& call) {
  return static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.type) << 8U |
         static_cast<std::uint64_t>(call.op) << 16U | static_cast<std::uint64_t>(call.root) << 32U;
}

// Division of a reduction's elements into one segment per rank.
struct Segments {
  std::size_t count, element_bytes;
  int ranks;
  std::size_t begin(int rank) const { return count * rank / ranks * element_bytes; }
  std::size_t bytes(int rank) const { return begin(rank + 1) - begin(rank); }
};

// Writes this rank's segment of the reduction of `data` to `result`.
Status ReduceSegments(Mesh& mesh, const Call& call, const Segments& segments, std::byte* data,
                      std::byte* result) {
  const std::size_t own = segments.bytes(mesh.rank());
  std::vector<std::byte> parts(own * mesh.size());
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    outgoing.push_back({rank, data + segments.begin(rank), segments.bytes(rank)});
    incoming.push_back({rank, parts.data() + own * rank, own});
    inputs.push_back(incoming.back().data);
  }
  CUSPAN_RETURN_IF_ERROR(mesh.Exchange(KindOf(call), outgoing, incoming));
  Reduce(call.type, call.op, inputs, result, own / segments.element_bytes);
  return Status::Ok();
}

Status AllReduce(Mesh& mesh, const HostCall& host, const Segments& segments) {
  std::byte* const own = host.receive + segments.begin(mesh.rank());
  CUSPAN_RETURN_IF_ERROR(ReduceSegments(mesh, host.call, segments, host.send, own));
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    outgoing.push_back({rank, own, segments.bytes(mesh.rank())});
    incoming.push_back({rank, host.receive + segments.begin(rank), segments.bytes(rank)});
  }
  return mesh.Exchange(KindOf(host.call), outgoing, incoming);
}

Status ReduceToRoot(Mesh& mesh, const HostCall& host, const Segments& segments) {
  std::vector<std::byte> own(segments.bytes(mesh.rank()));
  CUSPAN_RETURN_IF_ERROR(ReduceSegments(mesh, host.call, segments, host.send, own.data()));
  const std::vector<Outgoing> outgoing = {{host.call.root, own.data(), own.size()}};
  std::vector<Incoming> incoming;
  for (int rank = 0; rank < mesh.size() && mesh.rank() == host.call.root; ++rank)
    incoming.push_back({rank, host.receive + segments.begin(rank), segments.bytes(rank)});
  return mesh.Exchange(KindOf(host.call), outgoing, incoming);
}

// Executes the kinds without a reduction. `bytes`: size of one rank's part.
Status Move(Mesh& mesh, const HostCall& host, std::size_t bytes) {
  const CallKind kind = host.call.kind;
  const bool is_root = mesh.rank() == host.call.root;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const bool with_root = rank == host.call.root;
    const std::size_t part = bytes * rank;
    if (kind == CallKind::kAllGather || (kind == CallKind::kBroadcast && is_root) ||
        (kind == CallKind::kGather && with_root))
      outgoing.push_back({rank, host.send, bytes});
    if (kind == CallKind::kAllToAll || (kind == CallKind::kScatter && is_root))
      outgoing.push_back({rank, host.send + part, bytes});
    if ((kind == CallKind::kBroadcast || kind == CallKind::kScatter) && with_root)
      incoming.push_back({rank, host.receive, bytes});
    if (kind == CallKind::kAllGather || kind == CallKind::kAllToAll ||
        (kind == CallKind::kGather && is_root))
      incoming.push_back({rank, host.receive + part, bytes});
  }
  return mesh.Exchange(KindOf(host.call), outgoing, incoming);
}

}  // namespace

std::size_t SendBytes(const Call& call, int rank, int ranks) {
  const std::size_t bytes = call.count * nccl::ElementBytes(call.type);
  switch (call.kind) {
    case CallKind::kReceive:
      return 0;
    case CallKind::kBroadcast:
      return rank == call.root ? bytes : 0;
    case CallKind::kScatter:
      return rank == call.root ? bytes * ranks : 0;
    case CallKind::kReduceScatter:
    case CallKind::kAllToAll:
      return bytes * ranks;
    default:
      return bytes;
  }
}

std::size_t ReceiveBytes(const Call& call, int rank, int ranks) {
  const std::size_t bytes = call.count * nccl::ElementBytes(call.type);
  switch (call.kind) {
    case CallKind::kSend:
      return 0;
    case CallKind::kReduce:
      return rank == call.root ? bytes : 0;
    case CallKind::kGather:
      return rank == call.root ? bytes * ranks : 0;
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
      return bytes * ranks;
    default:
      return bytes;
  }
}

Status RunCollective(Mesh& mesh, const HostCall& host) {
  const Call& call = host.call;
  const std::size_t element_bytes = nccl::ElementBytes(call.type);
  const Segments segments{call.count, element_bytes, mesh.size()};
  switch (call.kind) {
    case CallKind::kAllReduce:
      return AllReduce(mesh, host, segments);
    case CallKind::kReduce:
      return ReduceToRoot(mesh, host, segments);
    case CallKind::kReduceScatter: {
      const Segments of_ranks{call.count * mesh.size(), element_bytes, mesh.size()};
      return ReduceSegments(mesh, call, of_ranks, host.send, host.receive);
    }
    default:
      return Move(mesh, host, call.count * element_bytes);
  }
}

Status RunPointToPoint(Mesh& mesh, std::span<const HostCall> calls) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const HostCall& host : calls) {
    const std::size_t bytes = host.call.count * nccl::ElementBytes(host.call.type);
    if (host.call.kind == CallKind::kSend)
      outgoing.push_back({host.call.root, host.send, bytes});
    else
      incoming.push_back({host.call.root, host.receive, bytes});
  }
  return mesh.Exchange(kPointToPoint, outgoing, incoming);
}

}  // namespace cuspan::softnccl
