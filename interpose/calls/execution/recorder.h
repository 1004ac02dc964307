// Records nodes' work in graphs of the driver, at the proxy, and changes it there. All functions
// are called with GraphTable::mutex held.
#pragma once

#include <unordered_map>
#include <vector>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// True if the device of `connection` can run a node without the client.
class OnDevice {
 public:
  OnDevice(Session& session, const ContextConnection& connection)
      : session_(session), connection_(connection) {}

  bool operator()(const GraphNode& node) const {
    // Only kernels and memory operations are bound to a device; others run where their pointers and
    // arrays are.
    if (std::holds_alternative<KernelWork>(node.work)) return node.device == connection_.device();
    return std::visit(*this, node.work);
  }
  bool operator()(const KernelWork&) const { return true; }
  bool operator()(const CopyWork& work) const;
  bool operator()(const SetWork& work) const;
  bool operator()(const HostWork&) const { return false; }
  bool operator()(const ChildWork& work) const;
  bool operator()(const EmptyWork&) const { return true; }
  bool operator()(const WaitWork&) const { return false; }
  bool operator()(const RecordWork&) const { return false; }
  bool operator()(const AllocateWork&) const { return true; }
  bool operator()(const FreeWork&) const { return true; }
  bool operator()(const MemoryBatchWork& work) const { return work.device == connection_.device(); }
  bool operator()(const ConditionWork&) const { return true; }
  bool operator()(const CollectiveWork&) const { return false; }

 private:
  Session& session_;
  const ContextConnection& connection_;
};

// Positions of nodes in the driver's graph: their order of recording.
using RecordedPositions = std::unordered_map<const GraphNode*, std::uint32_t>;

// Records nodes, in topological order, in the proxy's `graph`. Adds their positions to *places,
// also those of nodes in child graphs.
Error RecordNodes(Session& session, ContextConnection& connection, std::uint64_t graph,
                  const std::vector<GraphNode*>& order, RecordedPositions* positions);

// Treatment of a recorded node after a change of its work.
enum class Renewal {
  kNone,     // Work unchanged on the device.
  kChange,   // PostChange sends it.
  kAllAnew,  // Recorded again: the driver cannot change it.
};
Renewal RenewalOf(const Work& before, const Work& after);
// Changes the node at `position` of the instance `exec` to its new work, from the next launch in
// the order of `there` on.
Error PostChange(Session& session, const StreamTarget& there, std::uint64_t exec,
                 std::uint32_t position, const GraphNode& node);

}  // namespace cuspan
