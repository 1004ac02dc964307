// The head agent's allocation of devices to the run: from the inventories of all agents, by the
// user's request and the hosts' leases.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/base/roles.h"
#include "launcher/agent/lease/run_leases.h"
#include "launcher/agent/node/agent_node.h"

namespace cuspan {

// Threads: one. Runs the agent's loop while waiting for other processes.
class RunAllocation {
 public:
  // `run`: id of the run. Returns an error for a request impossible to meet and for invalid
  // settings.
  static Result<std::unique_ptr<RunAllocation>> Create(AgentNode& node, const GpuRequest& request,
                                                       const std::string& run,
                                                       const std::vector<AgentInventory>& found)
      CUSPAN_REQUIRES(agent_thread);

  // Allocates the devices and returns them; waits for them as requested. Fails if `keep_on` returns
  // false. If it takes long, `tell` is called once with the GPUs waited for.
  Result<std::vector<DeviceDescription>> Allocate(
      const std::function<bool()>& keep_on, const std::function<void(const std::string&)>& tell)
      CUSPAN_REQUIRES(agent_thread);
  // Returns all GPUs, their holders and the waiting runs, without taking anything. It may be called
  // repeatedly.
  Result<RunReady> Query(const std::function<bool()>& keep_on) CUSPAN_REQUIRES(agent_thread);

  const std::vector<std::string>& notes() const CUSPAN_REQUIRES(agent_thread) {
    return pool_.notes;
  }

 private:
  RunAllocation(AgentNode& node, const GpuRequest& request, LeaseTicket ticket, RunPool pool)
      CUSPAN_REQUIRES(agent_thread);
  // The first host with its lock-keeping agent lost; empty: none.
  std::string LostHost() const CUSPAN_REQUIRES(agent_thread);

  AgentNode& node_;
  const GpuRequest request_;
  RunPool pool_;
  AllocationPlan plan_;
  RunLeases leases_;
  std::unique_ptr<LeaseEvents> events_;  // Receiver of the leases' reports.
};

}  // namespace cuspan
