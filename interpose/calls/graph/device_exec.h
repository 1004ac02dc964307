// Executable graphs as the device has them, and the pieces that launches of a graph consist of.
//
// A graph that is launched again goes to the device: its nodes are recorded in a graph of the
// driver, which one op launches. What other nodes do that are for the host or another device, the
// client hands to streams one by one, at each launch (run.cc), and so it does with all nodes of a
// graph's first launch: many graphs have only one.
#pragma once

#include "interpose/calls/graph/recorder.h"

namespace cuspan {

// Forgotten by the device with the object.
class DeviceGraphExec {
 public:
  // `conditions`: the graph that it was made of, where that has conditional nodes.
  DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle,
                  std::shared_ptr<DeviceGraph> conditions);
  // Of the proxy's `graph`, which goes with it.
  DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle, std::uint64_t graph,
                  RecordedPlaces places);
  ~DeviceGraphExec();
  DeviceGraphExec(const DeviceGraphExec&) = delete;
  DeviceGraphExec& operator=(const DeviceGraphExec&) = delete;

  // Its proxy; null where the device was reset since.
  std::shared_ptr<ContextConnection> FindLink(Session& session) const {
    return session.devices().ConnectionNumbered(connection_number_);
  }
  bool Has(const GraphNode& node) const { return places_.contains(&node); }
  // Puts a launch into the stream's order, whatever device that is of; the nodes of `changed` that
  // it has do their new work from then on. Not with the graphs in peace.
  Error Launch(Session& session, const StreamTarget& target,
               const std::vector<const GraphNode*>& changed) const;

 private:
  const std::uint64_t connection_number_;
  const std::uint64_t handle_;
  const std::uint64_t graph_ = 0;
  const std::shared_ptr<DeviceGraph> conditions_;
  const RecordedPlaces places_;
};

// --- Of graphs without conditional nodes; with the graphs in peace.

// All nodes by the client.
Error PutInOrder(const Graph& graph, std::vector<GraphPart>* parts);
// By the device of `connection` what it can do. Fails where that is nothing, or refused.
Error GiveToDevice(Session& session, ContextConnection& connection, const Graph& graph,
                   std::vector<GraphPart>* parts);

}  // namespace cuspan
