// Graphs with conditional nodes as the device has them.
//
// A kernel sets a condition by a number that only means something in the driver's graph that it
// runs in. So such a graph is recorded there node by node, once it is instantiated, together with
// all that leads to its conditional nodes; what is for the host or another device stays behind or
// before it, in the client (run.cc).
//
// As in CUDA there is one executable graph of such a graph at a time.
// All functions are called with the graphs in peace (Graphs::mutex), but for those that say
// otherwise.
#pragma once

#include <memory>
#include <vector>

#include "common/mutex.h"
#include "interpose/calls/graph/device_exec.h"

namespace cuspan {

class DeviceGraph : public std::enable_shared_from_this<DeviceGraph> {
 public:
  // On the current device, for `whole` and the bodies of its conditional nodes.
  static Error Create(Session& session, const Graph& whole, std::shared_ptr<DeviceGraph>* made);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  struct Condition {
    std::uint64_t number = 0;
    unsigned value = 0;  // At the start of each launch, if the flag says so.
    unsigned flags = 0;
    bool operator==(const Condition&) const = default;
  };
  Error AddCondition(Session& session, unsigned value, unsigned flags, std::uint64_t* number);
  const std::vector<Condition>& conditions() const { return conditions_; }
  // The graph of the program that it is for.
  std::uint64_t whole() const { return whole_; }

  // Its proxy; CUDA_ERROR_INVALID_HANDLE when the device was reset since.
  Error FindLink(Session& session, std::shared_ptr<ContextConnection>* connection) const;

  // The device forgets what it was given for the executable graph before, whose last launch it
  // waits for: so not with the graphs in peace. CUDA_ERROR_NOT_SUPPORTED, as CUDA has it, while
  // there is one.
  Error MakeReady(Session& session);
  // Puts the exec's graph into the device, which is ready, and parts its nodes: what comes before
  // those that the device has, these, and what comes behind them. Fails as cuGraphInstantiate.
  Error Instantiate(Session& session, GraphExec& exec);

 private:
  DeviceGraph(int device, std::uint64_t connection_number, std::uint64_t handle,
              std::uint64_t whole)
      : device_(device), connection_number_(connection_number), handle_(handle), whole_(whole) {}

  friend class DeviceGraphExec;  // It records the event.
  Error NoteLaunch(Session& session, const StreamTarget& target);
  // Has the device make `*made` of these nodes.
  Error Build(Session& session, ContextConnection& connection, const std::vector<GraphNode*>& order,
              std::shared_ptr<DeviceGraphExec>* made);

  const int device_;
  const std::uint64_t connection_number_;
  const std::uint64_t handle_;
  const std::uint64_t whole_;
  std::vector<Condition> conditions_;
  Mutex renewing_;                       // Held while the graph is made ready.
  bool ready_ = true;                    // It has no nodes.
  std::weak_ptr<DeviceGraphExec> exec_;  // The last one.
  std::uint64_t launched_ = 0;           // An event behind the last launch; 0 before the first.
};

}  // namespace cuspan
