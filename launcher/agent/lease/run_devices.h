// The devices of a run, from what its agents found, and their addresses. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/allocator/policy.h"
#include "launcher/run/gpu_request.h"
#include "launcher/run/lease_key.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// All that a run could use, as the allocator sees it and as the agents serve it. Hosts and GPUs are
// in the order of the app's numbering.
struct RunPool {
  // An agent that serves GPUs of a host, at most so many.
  struct Server {
    std::uint32_t rank = 0;
    std::uint32_t limit = 0;
  };
  struct Host {
    std::string name;
    std::uint32_t limit = 0;  // At most so many of its GPUs.
    std::vector<Server> servers;
    // The agent that keeps its locks.
    std::uint32_t keeper() const { return servers.front().rank; }
  };
  GpuPool pool;
  std::vector<Host> hosts;
  // By GPU: how each agent describes it that has it.
  std::vector<std::vector<DeviceDescription>> devices;
  std::vector<std::string> keys;   // By GPU: LeaseKey; empty where runs share it.
  std::vector<std::string> notes;  // What the user should know, a sentence each.
  std::string problem;             // Why a host has no GPU; of the first such host.
};

// A GPU that several agents of a host see is one GPU. Software GPUs that are not leased are made
// anew by each process, so each agent has its own.
RunPool MakeRunPool(const std::vector<AgentInventory>& agents, LeaseMode mode);

// What the request is to the allocator, on the pool's hosts; `own_host` is the program's.
AllocationRequest MakeRequest(const RunPool& pool, const GpuRequest& request,
                              const std::string& own_host);

// Of a request that can never be met: what was wanted, and what there is.
Status ExplainNever(const RunPool& pool, const AllocationRequest& request);

// The chosen GPUs, each with the agent that will serve it.
std::vector<DeviceDescription> AssignAgents(const RunPool& pool,
                                            const std::vector<std::uint32_t>& gpus);

// The window of each device: equal powers of two of at least 256 GiB and four
// times the largest memory, side by side where the address plan has room for them
// (protocol/api/address_plan.h). Behind them is room for some more, for contexts
// that a process creates: their stride says where it ends. A failure when they do
// not fit.
Result<std::vector<AddressWindow>> PlanWindows(const std::vector<DeviceDescription>& devices);

}  // namespace cuspan
