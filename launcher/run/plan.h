// Which agents a run has: pure, from what the user asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan {

// How many of a host's devices may be used.
inline constexpr std::uint32_t kAllDevices = ~std::uint32_t{0};

// As an agent's --serve says it: a number, or all. kInvalid for anything else.
Result<std::uint32_t> ParseServe(std::string_view text);
std::string ServeText(std::uint32_t devices);

// The sum of two such limits.
std::uint32_t AddDevices(std::uint32_t a, std::uint32_t b);

struct HostRequest {
  std::string host;
  std::uint32_t devices = kAllDevices;
  bool operator==(const HostRequest&) const = default;
};

// "a,b:2,…": a host, or a host and how many of its devices to use at most. Failures name `option`.
Result<std::vector<HostRequest>> ParseHosts(std::string_view list,
                                            std::string_view option = "--hosts");
// The same, one host a line: "host", "host N", "host:N" or "host slots=N"; # starts
// a comment. Failures name `file` and the line.
Result<std::vector<HostRequest>> ParseHostfile(std::string_view text, std::string_view file);

// What brings messages from host to host: MPI, whose mpirun starts the agents, or UCX, for which
// the head agent starts them.
enum class RelayKind { kMpi, kUcx };
Result<RelayKind> ParseRelayKind(std::string_view text);
// The same, or "auto", which is none.
Result<std::optional<RelayKind>> ParseRelay(std::string_view text);
std::string_view NameOf(RelayKind kind);

// Whether a program and a device of one node share memory.
enum class SameNode { kAuto, kNever };
Result<SameNode> ParseSameNode(std::string_view text);

// How many processes of each node move bulk: 1, the agents alone, up to kMaxLanes, or "auto": what
// a node of so many cores has room for.
inline constexpr std::uint32_t kMaxLanes = 16;
Result<std::uint32_t> ParseLanes(std::string_view text, unsigned cores);

// Staging buffers of a device where so many lanes use them, and sends at a time on each of those,
// where the user did not choose.
std::uint32_t StagingBuffersFor(std::uint32_t lanes);
std::uint32_t SendsInFlightFor(std::uint32_t lanes);

// Host names, and addresses of IPv4: nothing that a shell or mpirun would read otherwise.
bool IsHostName(std::string_view text);

// What a plan calls this node.
inline constexpr std::string_view kThisHost = "localhost";

struct AgentPlan {
  std::string host;
  std::uint32_t devices = kAllDevices;  // At most so many of it; 0: it serves none.
  bool operator==(const AgentPlan&) const = default;
};

// "HOST=GPUS,…", as ServeText writes GPUS: how an agent is told of others. kInvalid for anything
// else.
Result<std::vector<AgentPlan>> ParseAgents(std::string_view text);
std::string AgentsText(std::span<const AgentPlan> agents);

struct Plan {
  // The first is the head agent, on this node.
  std::vector<AgentPlan> agents;
  // How many of the other agents' hosts come before the head agent's devices
  // in the app's numbering, which follows the order of the hosts.
  std::uint32_t home_place = 0;
  // Processes of each node that move bulk; from 2 on they are ranks beside the agent.
  std::uint32_t lanes = 1;
  RelayKind relay = RelayKind::kMpi;
  // Whether agents talk to each other, and how.
  bool relayed() const { return agents.size() > 1; }
  bool mpi() const { return relayed() && relay == RelayKind::kMpi; }
  bool operator==(const Plan&) const = default;
};

// No hosts: this node alone. Where only the app's processes are, `app_hosts`, an agent serves no
// device.
Plan MakePlan(const std::vector<HostRequest>& hosts, SameNode same_node, std::string_view own_name,
              const std::vector<HostRequest>& app_hosts = {});

}  // namespace cuspan
