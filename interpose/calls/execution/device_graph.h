// Graphs with conditional nodes on the device.
//
// A kernel sets a condition by a number valid only in the kernel's own driver graph. Such a graph
// is therefore recorded there node by node when instantiated, with all nodes leading to its
// conditional nodes. Nodes of the host or another device run before or after it, in the client
// (run.h).
//
// At most one executable graph of it exists at a time, same as in CUDA. All functions are called
// with GraphTable::mutex held, unless stated otherwise.
#pragma once

#include <memory>
#include <vector>

#include "common/mutex.h"
#include "interpose/calls/execution/device_exec.h"

namespace cuspan {

class DeviceGraph : public std::enable_shared_from_this<DeviceGraph> {
 public:
  // Creates it on the current device, for `whole` and the bodies of its conditional nodes.
  static Error Create(Session& session, const Graph& whole, std::shared_ptr<DeviceGraph>* made);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  struct Condition {
    std::uint64_t number = 0;
    unsigned value = 0;  // Initial value at each launch, if flagged.
    unsigned flags = 0;
    bool operator==(const Condition&) const = default;
  };
  Error AddCondition(Session& session, unsigned value, unsigned flags, std::uint64_t* number);
  const std::vector<Condition>& conditions() const { return conditions_; }
  // Handle of the program's graph.
  std::uint64_t whole() const { return whole_; }

  // Its context's connection; CUDA_ERROR_INVALID_HANDLE after a reset of the device.
  Error FindLink(Session& session, std::shared_ptr<ContextConnection>* connection) const;

  // Waits for the last launch of the former executable graph, and removes its nodes from the
  // device. To be called without GraphTable::mutex. CUDA_ERROR_NOT_SUPPORTED, same as in CUDA,
  // while an executable graph exists.
  Error MakeReady(Session& session);
  // Records the exec's graph on the device; MakeReady was called before. Divides its nodes into
  // three parts: before, on and after the device. Fails like cuGraphInstantiate.
  Error Instantiate(Session& session, GraphExec& exec);

 private:
  DeviceGraph(int device, std::uint64_t connection_number, std::uint64_t handle,
              std::uint64_t whole)
      : device_(device), connection_number_(connection_number), handle_(handle), whole_(whole) {}

  friend class DeviceGraphExec;  // Calls NoteLaunch.
  Error NoteLaunch(Session& session, const StreamTarget& target);
  // Makes `*made` of these nodes on the device.
  Error Build(Session& session, ContextConnection& connection, const std::vector<GraphNode*>& order,
              std::shared_ptr<DeviceGraphExec>* made);

  const int device_;
  const std::uint64_t connection_number_;
  const std::uint64_t handle_;
  const std::uint64_t whole_;
  std::vector<Condition> conditions_;
  Mutex renewing_;                       // Held by MakeReady.
  bool ready_ = true;                    // True without nodes on the device.
  std::weak_ptr<DeviceGraphExec> exec_;  // Latest executable graph.
  std::uint64_t launched_ = 0;           // Event after the last launch; 0 before the first.
};

}  // namespace cuspan
