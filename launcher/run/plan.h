// Plan of a run's agents: pure, from the user's options.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan {

// Limit on a host's devices: no limit.
inline constexpr std::uint32_t kAllDevices = ~std::uint32_t{0};

// Value of an agent's --serve: a number, or all. kInvalid for anything else.
Result<std::uint32_t> ParseServe(std::string_view text);
std::string ServeText(std::uint32_t devices);

// Sum of two limits.
std::uint32_t AddDevices(std::uint32_t a, std::uint32_t b);

struct HostRequest {
  std::string host;
  std::uint32_t devices = kAllDevices;
  bool operator==(const HostRequest&) const = default;
};

// Parses "a,b:2,…": hosts, each with an optional maximum number of devices. Errors name `option`.
Result<std::vector<HostRequest>> ParseHosts(std::string_view list,
                                            std::string_view option = "--hosts");
// The same with one host per line: "host", "host N", "host:N" or "host slots=N"; # starts a
// comment. Errors name `file` and the line.
Result<std::vector<HostRequest>> ParseHostfile(std::string_view text, std::string_view file);

// Transport between hosts. MPI: mpirun starts the agents. UCX: the head agent starts the others.
enum class RelayKind { kMpi, kUcx };
inline constexpr RelayKind kRelayKinds[] = {RelayKind::kMpi, RelayKind::kUcx};
Result<RelayKind> ParseRelayKind(std::string_view text);
// The same; empty for "auto".
Result<std::optional<RelayKind>> ParseRelay(std::string_view text);
std::string_view NameOf(RelayKind kind);

// Use of shared memory between a program and a device on one node.
enum class SameNode { kAuto, kNever };
Result<SameNode> ParseSameNode(std::string_view text);

// Number of lanes for bulk data per node. 1: the agent itself; at most kMaxLanes. Empty for "auto".
inline constexpr std::uint32_t kMaxLanes = 16;
Result<std::optional<std::uint32_t>> ParseLanes(std::string_view text);
// The number for "auto" on a node with that many cores. From 2 on, calls do not wait behind the
// bytes of copies.
std::uint32_t AutoLanes(RelayKind relay, int cores);

// Defaults for this number of lanes: staging buffers of a device, and concurrent sends per lane.
std::uint32_t StagingBuffersFor(std::uint32_t lanes);
std::uint32_t SendsInFlightFor(std::uint32_t lanes);

// True for host names and IPv4 addresses: text without special meaning to a shell or mpirun.
bool IsHostName(std::string_view text);

// Name of this node in plans.
inline constexpr std::string_view kThisHost = "localhost";

struct AgentPlan {
  std::string host;
  std::uint32_t devices = kAllDevices;  // Maximum number used; 0: none.
  bool operator==(const AgentPlan&) const = default;
};

// Parses "HOST=GPUS,…", with GPUS as from ServeText: an agent's list of other agents. kInvalid for
// anything else.
Result<std::vector<AgentPlan>> ParseAgents(std::string_view text);
std::string AgentsText(std::span<const AgentPlan> agents);

struct Plan {
  // The first is the head agent, on this node.
  std::vector<AgentPlan> agents;
  // Number of other agents' hosts before the head agent's devices in the program's numbering. This
  // numbering follows the order of the hosts.
  std::uint32_t head_position = 0;
  // Lanes for bulk data per node. From 2 on, they are ranks beside the agent (MPI) or threads
  // (UCX).
  std::uint32_t lanes = 1;
  RelayKind relay = RelayKind::kMpi;
  // True if agents communicate, and over MPI.
  bool relayed() const { return agents.size() > 1; }
  bool mpi() const { return relayed() && relay == RelayKind::kMpi; }
  bool operator==(const Plan&) const = default;
};

// Without hosts: this node alone. On hosts only in `program_hosts`, the agent serves no device.
Plan MakePlan(const std::vector<HostRequest>& hosts, SameNode same_node, std::string_view own_name,
              const std::vector<HostRequest>& program_hosts = {});

}  // namespace cuspan
