// The head agent's way to the run's devices: from what all agents have found, by the user's request
// and the leases of the hosts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/lease/run_leases.h"
#include "launcher/agent/node/agent_node.h"

namespace cuspan {

// One thread. Runs the agent's loop while it waits for others.
class RunAllocation {
 public:
  // `run` is the run's id. Refuses a request that can never be met, and settings that are wrong.
  static Result<std::unique_ptr<RunAllocation>> Create(AgentNode& node, const GpuRequest& request,
                                                       const std::string& run,
                                                       const std::vector<AgentInventory>& found)
      CUSPAN_REQUIRES(agent_thread);

  // The devices, which the run has from now on; waits for them as the request says. Ends with a
  // failure when `keep_on` becomes false. `tell` is called once when it takes a while, with what is
  // waited for.
  Result<std::vector<DeviceDescription>> Allocate(
      const std::function<bool()>& keep_on, const std::function<void(const std::string&)>& tell)
      CUSPAN_REQUIRES(agent_thread);
  // What there is, who has it and who waits, without taking anything; as often as wanted.
  Result<RunReady> Look(const std::function<bool()>& keep_on) CUSPAN_REQUIRES(agent_thread);

  // A message of another agent; false when it is none about leases.
  bool TakeControl(std::uint32_t rank, const Frame& frame) CUSPAN_REQUIRES(agent_thread) {
    return leases_.TakeControl(rank, frame);
  }
  const std::vector<std::string>& notes() const CUSPAN_REQUIRES(agent_thread) {
    return pool_.notes;
  }

 private:
  RunAllocation(AgentNode& node, const GpuRequest& request, LeaseTicket ticket, RunPool pool);
  // The host of one that keeps locks and was lost; empty: all are there.
  std::string LostHost() const CUSPAN_REQUIRES(agent_thread);

  AgentNode& node_;
  const GpuRequest request_;
  RunPool pool_;
  AllocationPlan plan_;
  RunLeases leases_;
  std::unique_ptr<LeaseEvents> events_;  // What the leases tell.
};

}  // namespace cuspan
