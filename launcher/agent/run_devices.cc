#include "launcher/agent/run_devices.h"

#include <algorithm>
#include <bit>
#include <set>

namespace cuspan {
namespace {

constexpr std::uint64_t kFirstAddress = 0x1800'0000'0000;
constexpr std::uint64_t kEndAddress = 0x5500'0000'0000;
constexpr std::uint64_t kSmallestWindow = std::uint64_t{256} << 30;

}  // namespace

Result<RunDevices> ChooseDevices(const FoundDevices& found, std::optional<std::uint32_t> wanted) {
  RunDevices run;
  std::string problem;
  std::string hosts;
  std::set<std::pair<std::string, std::array<std::uint8_t, 16>>> taken;
  for (const AgentInventory& agent : found.agents) {
    std::uint32_t used = 0;
    bool new_host = true;
    for (const DeviceDescription& device : agent.devices) {
      if (used == agent.limit) break;
      // A software GPU is made anew by each process that uses one.
      if (!device.software && !taken.insert({device.host, device.uuid}).second) continue;
      run.devices.push_back(device);
      ++used;
      if (new_host) hosts += (hosts.empty() ? "" : ", ") + device.host;
      new_host = false;
    }
    if (agent.problem.empty()) continue;
    if (std::find(run.notes.begin(), run.notes.end(), agent.problem) == run.notes.end())
      run.notes.push_back(agent.problem);
    if (agent.devices.empty() && problem.empty()) problem = agent.problem;
  }
  if (run.devices.empty())
    return Status::Unavailable("{}",
                               problem.empty() ? "no host of this run serves a GPU" : problem);
  if (wanted && *wanted > run.devices.size())
    return Status::Unavailable(
        "{} GPUs are wanted and {} found (on {}){}{}; use fewer, or name more hosts", *wanted,
        run.devices.size(), hosts, problem.empty() ? "" : "; ", problem);
  if (wanted) run.devices.resize(*wanted);
  return run;
}

Result<std::vector<AddressWindow>> PlanWindows(const std::vector<DeviceDescription>& devices) {
  std::uint64_t bytes = kSmallestWindow;
  for (const DeviceDescription& device : devices) {
    if (device.memory_bytes > kEndAddress - kFirstAddress)
      return Status::Invalid("{} on host {} claims {} bytes of memory", device.name, device.host,
                             device.memory_bytes);
    bytes = std::max(bytes, std::bit_ceil(4 * device.memory_bytes));
  }
  if (devices.size() > (kEndAddress - kFirstAddress) / bytes)
    return Status::Exhausted(
        "{} GPUs with {} GiB of addresses each are too many for one program: use at most {}",
        devices.size(), bytes >> 30, (kEndAddress - kFirstAddress) / bytes);
  std::vector<AddressWindow> windows;
  for (std::size_t i = 0; i < devices.size(); ++i)
    windows.push_back({kFirstAddress + i * bytes, bytes, bytes * devices.size()});
  return windows;
}

}  // namespace cuspan
