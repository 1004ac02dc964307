#include "launcher/run/plan.h"

#include <algorithm>
#include <charconv>

#include "common/trim.h"
#include "launcher/run/host_names.h"

namespace cuspan {
namespace {

std::optional<std::uint32_t> ParseCount(std::string_view text) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count == 0 ||
      count == kAllDevices)
    return std::nullopt;
  return count;
}

// Parses "host" or "host:N".
std::optional<HostRequest> ParseHost(std::string_view text) {
  HostRequest request;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::optional<std::uint32_t> count = ParseCount(text.substr(colon + 1));
    if (!count) return std::nullopt;
    request.devices = *count;
  }
  request.host = text.substr(0, colon);
  if (!IsHostName(request.host)) return std::nullopt;
  return request;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = Trim(line)).empty()) {
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

std::optional<HostRequest> ParseHostLine(std::string_view line) {
  const std::vector<std::string_view> words = Words(line);
  std::optional<HostRequest> request = ParseHost(words.front());
  if (!request) return std::nullopt;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view word = words[i];
    // Open MPI's hostfiles may contain it; it limits processes, and each host has one agent.
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    if (word.starts_with("slots="))
      word.remove_prefix(6);
    else if (words.size() != 2)
      return std::nullopt;
    const std::optional<std::uint32_t> count = ParseCount(word);
    if (!count || request->devices != kAllDevices) return std::nullopt;
    request->devices = *count;
  }
  return request;
}

}  // namespace

Result<std::uint32_t> ParseServe(std::string_view text) {
  if (text == "all") return kAllDevices;
  std::uint32_t devices = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), devices);
  if (error != std::errc() || end != text.end() || devices == kAllDevices)
    return Status::Invalid("--serve {}: use a number of GPUs, or all", text);
  return devices;
}

std::string ServeText(std::uint32_t devices) {
  return devices == kAllDevices ? "all" : std::to_string(devices);
}

Result<std::vector<AgentPlan>> ParseAgents(std::string_view text) {
  std::vector<AgentPlan> agents;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = item.rfind('=');
    CUSPAN_ASSIGN_OR_RETURN(
        const std::uint32_t devices,
        ParseServe(equals == std::string_view::npos ? "" : item.substr(equals + 1)));
    if (equals == 0) return Status::Invalid("'{}' names no host", item);
    agents.push_back({std::string(item.substr(0, equals)), devices});
  }
  return agents;
}

std::string AgentsText(std::span<const AgentPlan> agents) {
  std::string text;
  for (const AgentPlan& agent : agents) {
    if (!text.empty()) text += ',';
    text += Format("{}={}", agent.host, ServeText(agent.devices));
  }
  return text;
}

Result<RelayKind> ParseRelayKind(std::string_view text) {
  for (const RelayKind kind : kRelayKinds)
    if (text == NameOf(kind)) return kind;
  return Status::Invalid("relay must be mpi or ucx, not '{}'", text);
}

Result<std::optional<RelayKind>> ParseRelay(std::string_view text) {
  if (text == "auto") return std::optional<RelayKind>();
  const Result<RelayKind> kind = ParseRelayKind(text);
  if (!kind.ok()) return Status::Invalid("relay must be mpi, ucx or auto, not '{}'", text);
  return std::optional(*kind);
}

std::string_view NameOf(RelayKind kind) {
  switch (kind) {
    case RelayKind::kMpi:
      return "mpi";
    case RelayKind::kUcx:
      break;
  }
  return "ucx";
}

std::uint32_t AddDevices(std::uint32_t a, std::uint32_t b) {
  if (a == kAllDevices || b == kAllDevices || a > kAllDevices - b) return kAllDevices;
  return a + b;
}

Result<std::vector<HostRequest>> ParseHosts(std::string_view list, std::string_view option) {
  std::vector<HostRequest> hosts;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string_view item = Trim(list.substr(start, end - start));
    const std::optional<HostRequest> host = ParseHost(item);
    if (!host)
      return Status::Invalid(
          "{}: '{}' is not a host; write HOST or HOST:NUMBER, separated by commas", option, item);
    hosts.push_back(*host);
    start = end + 1;
  }
  return hosts;
}

Result<std::vector<HostRequest>> ParseHostfile(std::string_view text, std::string_view file) {
  std::vector<HostRequest> hosts;
  int number = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = text.substr(start, end - start);
    start = end + 1;
    ++number;
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::optional<HostRequest> host = ParseHostLine(line);
    if (!host)
      return Status::Invalid(
          "{}:{}: '{}' names no host; write HOST, HOST N, HOST:N or HOST slots=N", file, number,
          line);
    hosts.push_back(*host);
  }
  if (hosts.empty()) return Status::Invalid("{} names no host", file);
  return hosts;
}

Result<SameNode> ParseSameNode(std::string_view text) {
  if (text == "auto") return SameNode::kAuto;
  if (text == "never") return SameNode::kNever;
  return Status::Invalid("same-node must be auto or never, not '{}'", text);
}

Result<std::optional<std::uint32_t>> ParseLanes(std::string_view text) {
  if (text == "auto") return std::optional<std::uint32_t>();
  const std::optional<std::uint32_t> lanes = ParseCount(text);
  if (!lanes || *lanes > kMaxLanes)
    return Status::Invalid("lanes must be auto or a number from 1 to {}, not '{}'", kMaxLanes,
                           text);
  return lanes;
}

std::uint32_t AutoLanes(RelayKind relay, int cores) {
  // An agent, a proxy and the program need cores too.
  constexpr int kCoresForTwo = 6;
  constexpr int kCoresForFour = 16;
  if (cores < kCoresForTwo) return 1;
  // Measured over TCP: a launch beside a copy takes 943 µs with one lane, 30 with two or four; one
  // lane moves 5 … 7 GB/s, four 18. Over MPI four lanes start 0.25 s later than one.
  return cores < kCoresForFour || relay == RelayKind::kMpi ? 2 : 4;
}

std::uint32_t StagingBuffersFor(std::uint32_t lanes) {
  // Measured with four lanes: 17 GB/s with 32 buffers, 13 with 16.
  return std::clamp<std::uint32_t>(8 * lanes, 16, 64);
}

std::uint32_t SendsInFlightFor(std::uint32_t lanes) {
  // Measured with four lanes: 17 GB/s with 4 sends on each, 15 with 8; with one lane 7.3 and 7.2.
  return lanes > 2 ? 4 : 8;
}

bool IsHostName(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

namespace {

Plan PlanDevices(const std::vector<HostRequest>& hosts, SameNode same_node,
                 std::string_view own_name) {
  Plan plan;
  plan.agents.push_back({std::string(kThisHost), 0});
  if (hosts.empty()) {
    if (same_node == SameNode::kAuto)
      plan.agents.front().devices = kAllDevices;
    else
      plan.agents.push_back({std::string(kThisHost), kAllDevices});
    return plan;
  }
  bool head_serves = false;
  for (const HostRequest& request : hosts) {
    const bool local = IsThisHost(request.host, own_name);
    const std::string host = local ? std::string(kThisHost) : request.host;
    if (same_node == SameNode::kNever) {
      plan.agents.push_back({host, request.devices});
      continue;
    }
    if (local) {
      AgentPlan& head = plan.agents.front();
      if (!head_serves) plan.head_position = static_cast<std::uint32_t>(plan.agents.size() - 1);
      head.devices = head_serves ? AddDevices(head.devices, request.devices) : request.devices;
      head_serves = true;
      continue;
    }
    const auto known = std::find_if(plan.agents.begin() + 1, plan.agents.end(),
                                    [&host](const AgentPlan& agent) { return agent.host == host; });
    if (known == plan.agents.end())
      plan.agents.push_back({host, request.devices});
    else
      known->devices = AddDevices(known->devices, request.devices);
  }
  return plan;
}

}  // namespace

Plan MakePlan(const std::vector<HostRequest>& hosts, SameNode same_node, std::string_view own_name,
              const std::vector<HostRequest>& program_hosts) {
  Plan plan = PlanDevices(hosts, same_node, own_name);
  for (const HostRequest& request : program_hosts) {
    if (IsThisHost(request.host, own_name)) continue;
    const bool known =
        std::any_of(plan.agents.begin(), plan.agents.end(),
                    [&](const AgentPlan& agent) { return agent.host == request.host; });
    if (!known) plan.agents.push_back({request.host, 0});
  }
  return plan;
}

}  // namespace cuspan
