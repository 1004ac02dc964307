#include "launcher/agent/lease/run_devices.h"

#include <algorithm>
#include <bit>

#include "common/settings.h"
#include "launcher/allocator/allocation.h"
#include "launcher/run/device_attributes.h"
#include "launcher/run/plan.h"
#include "protocol/api/address_plan.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kSmallestWindow = std::uint64_t{256} << 30;
// Address windows for contexts created by a process, besides its devices' primary ones.
constexpr std::uint64_t kMoreWindows = 8;

// CU_COMPUTEMODE_PROHIBITED (cuda.h).
constexpr std::uint32_t kProhibited = 2;

std::uint32_t CountOf(const DeviceDescription& device, std::size_t number) {
  return static_cast<std::uint32_t>(std::max(Attribute(device, number), 0));
}

PoolGpu FactsOf(const DeviceDescription& device) {
  PoolGpu facts;
  facts.memory_bytes = device.memory_bytes;
  facts.capability =
      10 * CountOf(device, kAttributeCapabilityMajor) + CountOf(device, kAttributeCapabilityMinor);
  facts.speed =
      GpuSpeed(CountOf(device, kAttributeMultiprocessors), facts.capability,
               CountOf(device, kAttributeClockRate), CountOf(device, kAttributeMemoryClockRate));
  facts.usable = CountOf(device, kAttributeComputeMode) != kProhibited;
  return facts;
}

}  // namespace

RunPool MakeRunPool(const std::vector<AgentInventory>& agents, LeaseMode mode) {
  RunPool made;
  std::vector<std::vector<std::uint32_t>> gpus;  // Indices into `devices`, by host.
  std::vector<std::vector<DeviceDescription>> devices;
  std::vector<std::string> keys;
  for (const AgentInventory& agent : agents) {
    if (!agent.problem.empty() &&
        std::find(made.notes.begin(), made.notes.end(), agent.problem) == made.notes.end())
      made.notes.push_back(agent.problem);
    if (agent.devices.empty()) {
      if (made.problem.empty()) made.problem = agent.problem;
      continue;
    }
    // An agent has one driver: all of its devices are software GPUs, or none is.
    const DeviceDescription& first = agent.devices.front();
    const bool shared = first.software && !IsLeased(first, mode);
    const auto known =
        std::find_if(made.hosts.begin(), made.hosts.end(), [&](const RunPool::Host& host) {
          return host.name == first.host && !shared &&
                 !keys[gpus[static_cast<std::size_t>(&host - made.hosts.data())].front()].empty();
        });
    const auto number = static_cast<std::size_t>(known - made.hosts.begin());
    if (known == made.hosts.end()) {
      made.hosts.push_back({first.host, 0, {}});
      gpus.emplace_back();
    }
    RunPool::Host& host = made.hosts[number];
    host.limit = AddDevices(host.limit, agent.limit);
    host.servers.push_back({first.agent, agent.limit});
    for (const DeviceDescription& device : agent.devices) {
      const std::string key = shared ? "" : LeaseKey(device);
      const auto same = std::find_if(gpus[number].begin(), gpus[number].end(),
                                     [&](std::uint32_t gpu) { return keys[gpu] == key; });
      if (key.empty() || same == gpus[number].end()) {
        gpus[number].push_back(static_cast<std::uint32_t>(devices.size()));
        devices.push_back({device});
        keys.push_back(key);
      } else {
        devices[*same].push_back(device);
      }
    }
  }
  for (const std::vector<std::uint32_t>& of_host : gpus) {
    std::vector<PoolGpu> facts;
    for (const std::uint32_t gpu : of_host) {
      facts.push_back(FactsOf(devices[gpu].front()));
      made.devices.push_back(std::move(devices[gpu]));
      made.keys.push_back(mode == LeaseMode::kOff ? "" : keys[gpu]);
    }
    made.pool.AddHost(facts);
  }
  return made;
}

AllocationRequest MakeRequest(const RunPool& pool, const GpuRequest& request,
                              const std::string& own_host) {
  AllocationRequest result;
  result.amount = request.number ? AllocationRequest::Amount::kNumber
                  : request.all  ? AllocationRequest::Amount::kAll
                                 : AllocationRequest::Amount::kAllFree;
  result.number = request.number.value_or(1);
  result.policy = request.policy;
  result.least_memory_bytes = std::max(request.least_memory_bytes, request.share.memory);
  result.least_capability = request.least_capability;
  result.kind = scheduling::BottleneckOf(request.share.bottleneck);
  for (std::uint32_t number = 0; number < pool.hosts.size(); ++number) {
    result.host_limits.push_back(pool.hosts[number].limit);
    if (!result.home && pool.hosts[number].name == own_host) result.home = number;
  }
  return result;
}

Status ExplainNever(const RunPool& pool, const AllocationRequest& request) {
  if (pool.devices.empty())
    return Status::Unavailable(
        "{}", pool.problem.empty() ? "no host of this run has a usable GPU" : pool.problem);
  std::string hosts;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < pool.hosts.size(); ++i) {
    found += std::min(pool.pool.hosts[i].count, pool.hosts[i].limit);
    hosts += (hosts.empty() ? "" : ", ") + pool.hosts[i].name;
  }
  const std::string problem = pool.problem.empty() ? "" : "; " + pool.problem;
  const std::uint32_t wanted =
      request.amount == AllocationRequest::Amount::kNumber ? request.number : 1;
  const bool software =
      std::all_of(pool.devices.begin(), pool.devices.end(),
                  [](const std::vector<DeviceDescription>& gpu) { return gpu.front().software; });
  if (wanted > found)
    return Status::Unavailable(
        "{} GPUs requested, {} found (on {}){}; request fewer, {}name more hosts", wanted, found,
        hosts, problem,
        software
            ? Format("set {}=N for N software GPUs on each host, or ", settings::kSoftGpus.name)
            : "or ");
  const auto unusable = std::count_if(pool.pool.gpus.begin(), pool.pool.gpus.end(),
                                      [](const PoolGpu& gpu) { return !gpu.usable; });
  std::string why = RequirementText(request.least_memory_bytes, request.least_capability);
  if (!why.empty()) why = "have " + why;
  if (unusable != 0)
    AppendFormat(why, "{}may be used ({} are in compute mode \"prohibited\")",
                 why.empty() ? "" : " and ", unusable);
  PoolLeases free(pool.pool);
  return Status::Unavailable(
      "{} {} requested, and of the {} found (on {}) only {} {}{}; request fewer, relax the "
      "requirements, or name more hosts",
      AmountText(request), wanted == 1 ? "is" : "are", found, hosts,
      Decide(pool.pool, free, request).fitting, why, problem);
}

std::vector<DeviceDescription> AssignAgents(const RunPool& pool,
                                            const std::vector<std::uint32_t>& gpus) {
  std::vector<RunPool::Host> left = pool.hosts;
  std::vector<DeviceDescription> assigned;
  std::size_t host = 0;
  for (const std::uint32_t gpu : gpus) {
    while (gpu >= pool.pool.hosts[host].first + pool.pool.hosts[host].count) ++host;
    // Agents of a host see the same GPUs unless configured differently. In that case an agent may
    // exceed its own limit; the host's limit is kept.
    const std::vector<DeviceDescription>& seen = pool.devices[gpu];
    const DeviceDescription* chosen = &seen.front();
    for (RunPool::Server& server : left[host].servers) {
      const auto by = std::find_if(seen.begin(), seen.end(), [&](const DeviceDescription& device) {
        return device.agent == server.rank;
      });
      if (by == seen.end() || server.limit == 0) continue;
      if (server.limit != kAllDevices) --server.limit;
      chosen = &*by;
      break;
    }
    assigned.push_back(*chosen);
  }
  return assigned;
}

Result<std::vector<AddressWindow>> PlanWindows(const std::vector<DeviceDescription>& devices) {
  std::uint64_t bytes = kSmallestWindow;
  for (const DeviceDescription& device : devices) {
    if (device.memory_bytes > kWindowsEnd - kWindowsBase)
      return Status::Invalid("{} on host {} reports {} bytes of memory", device.name, device.host,
                             device.memory_bytes);
    bytes = std::max(bytes, std::bit_ceil(4 * device.memory_bytes));
  }
  if (devices.size() > (kWindowsEnd - kWindowsBase) / bytes)
    return Status::Exhausted(
        "{} GPUs with {} GiB of address space each are too many for one program: use at most {}",
        devices.size(), bytes >> 30, (kWindowsEnd - kWindowsBase) / bytes);
  const std::uint64_t room = (kWindowsEnd - kWindowsBase) / bytes;
  const std::uint64_t planned = std::min<std::uint64_t>(devices.size() + kMoreWindows, room);
  std::vector<AddressWindow> windows;
  for (std::size_t i = 0; i < devices.size(); ++i)
    windows.push_back({kWindowsBase + i * bytes, bytes, bytes * planned});
  return windows;
}

}  // namespace cuspan
