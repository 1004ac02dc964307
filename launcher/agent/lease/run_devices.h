// Devices of a run, chosen from its agents' inventories, and their addresses. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "launcher/allocator/policy.h"
#include "launcher/run/gpu_request.h"
#include "launcher/run/lease_key.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// All GPUs usable by the run, in the allocator's form and as served by agents. Hosts and GPUs are
// in the order of the program's device numbers.
struct RunPool {
  // An agent serving up to `limit` GPUs of a host.
  struct Server {
    std::uint32_t rank = 0;
    std::uint32_t limit = 0;
  };
  struct Host {
    std::string name;
    std::uint32_t limit = 0;  // Maximum number of its GPUs.
    std::vector<Server> servers;
    // Rank of the agent keeping the host's locks.
    std::uint32_t keeper() const { return servers.front().rank; }
  };
  GpuPool pool;
  std::vector<Host> hosts;
  // Descriptions of each GPU, by each agent seeing it.
  std::vector<std::vector<DeviceDescription>> devices;
  std::vector<std::string> keys;   // LeaseKey of each GPU; empty: not leased.
  std::vector<std::string> notes;  // Information for the user, in sentences.
  std::string problem;             // Reason for the first host without a GPU.
};

// A GPU seen by several agents of a host is one GPU. Software GPUs without leases exist per
// process, so each agent has its own.
RunPool MakeRunPool(const std::vector<AgentInventory>& agents, LeaseMode mode);

// Converts the user's request for the allocator, on the pool's hosts; `own_host`: the program's
// host.
AllocationRequest MakeRequest(const RunPool& pool, const GpuRequest& request,
                              const std::string& own_host);

// Error for a request impossible to meet, with the requested and the existing GPUs.
Status ExplainNever(const RunPool& pool, const AllocationRequest& request);

// The chosen GPUs, each described by the agent to serve it.
std::vector<DeviceDescription> AssignAgents(const RunPool& pool,
                                            const std::vector<std::uint32_t>& gpus);

// Address windows of the devices: adjacent, within the address plan (protocol/api/address_plan.h),
// and all of one size. This is a power of two, at least 256 GiB and four times the largest memory.
// Windows for contexts created by a process follow; `stride` is the size of all together. Returns
// an error if the devices do not fit.
Result<std::vector<AddressWindow>> PlanWindows(const std::vector<DeviceDescription>& devices);

}  // namespace cuspan
