// Executable graphs on the device, and the parts of a graph's launches.
//
// If a graph is launched again, the nodes its device can run are recorded in a graph of the driver,
// launched by one op. The client posts the others (nodes of the host or another device) to streams
// at each launch (run.h). It posts all nodes at the first launch: many graphs have only one.
#pragma once

#include "interpose/calls/execution/recorder.h"

namespace cuspan {

// The destructor also destroys it on the device.
class DeviceGraphExec {
 public:
  // `conditions`: the graph it was made of, if it has conditional nodes.
  DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle,
                  std::shared_ptr<DeviceGraph> conditions);
  // Instance of the proxy's `graph`; owns this graph.
  DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle, std::uint64_t graph,
                  RecordedPositions positions);
  ~DeviceGraphExec();
  DeviceGraphExec(const DeviceGraphExec&) = delete;
  DeviceGraphExec& operator=(const DeviceGraphExec&) = delete;

  // Its context's connection; null after a reset of the device.
  std::shared_ptr<ContextConnection> FindLink(Session& session) const {
    return session.devices().ConnectionNumbered(connection_number_);
  }
  bool Has(const GraphNode& node) const { return positions_.contains(&node); }
  // Posts a launch in the stream's order; the stream may be of any device. Nodes in `changed` use
  // their new work from then on. To be called without GraphTable::mutex.
  Error Launch(Session& session, const StreamTarget& target,
               const std::vector<const GraphNode*>& changed) const;

 private:
  const std::uint64_t connection_number_;
  const std::uint64_t handle_;
  const std::uint64_t graph_ = 0;
  const std::shared_ptr<DeviceGraph> conditions_;
  const RecordedPositions positions_;
};

// --- Graphs without conditional nodes; GraphTable::mutex is held

// One part, posted by the client.
Error PutInOrder(const Graph& graph, std::vector<GraphPart>* parts);
// Records nodes on the device of `connection` as far as possible. Fails if they are too few, or
// refused.
Error GiveToDevice(Session& session, ContextConnection& connection, const Graph& graph,
                   std::vector<GraphPart>* parts);

}  // namespace cuspan
