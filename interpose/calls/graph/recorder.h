// Records the work of nodes in graphs of the driver, at the proxy, and changes it there. All
// functions are called with the graphs in peace (Graphs::mutex).
#pragma once

#include <unordered_map>
#include <vector>

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// Whether the device of `connection` can do a node by itself.
class OnDevice {
 public:
  OnDevice(Session& session, const ContextConnection& connection)
      : session_(session), connection_(connection) {}

  bool operator()(const GraphNode& node) const {
    // Only kernels and memory operations run where they were put; the rest goes by its pointers and
    // arrays.
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

// Where nodes are in the driver's graph: by the order in which they were recorded.
using RecordedPlaces = std::unordered_map<const GraphNode*, std::uint32_t>;

// Records nodes, each behind those that it depends on, in the proxy's `graph`; *places gets theirs,
// and those of the nodes in graphs inside.
Error RecordNodes(Session& session, ContextConnection& connection, std::uint64_t graph,
                  const std::vector<GraphNode*>& order, RecordedPlaces* places);

// What is to become of a recorded node whose work was `before`.
enum class Renewal {
  kNone,     // The device does the same as before.
  kChange,   // PostChange tells the device.
  kAllAnew,  // The driver does not take it as a change.
};
Renewal RenewalOf(const Work& before, const Work& after);
// The node at `place` of what was instantiated as `exec` does its new work from the next launch in
// the order of `there` on.
Error PostChange(Session& session, const StreamTarget& there, std::uint64_t exec,
                 std::uint32_t place, const GraphNode& node);

}  // namespace cuspan
