#include "launcher/doctor/reach.h"

#include <netdb.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "common/settings.h"
#include "common/start_thread.h"
#include "launcher/doctor/child.h"
#include "launcher/doctor/listener.h"
#include "launcher/host/own_host.h"
#include "launcher/starter/agent_command.h"
#include "launcher/text/words.h"

namespace cuspan::doctor {
namespace {

using std::chrono::steady_clock;

// Limit for an answer about other hosts: a probe waits for silent ones.
constexpr std::chrono::seconds kReachLimit{40};
// Limit per measured host; a measurement takes less.
constexpr std::chrono::seconds kMeasureLimit{1};
// Limit for a probe to end after its input.
constexpr std::chrono::seconds kEndLimit{2};

// A host, its probe, and its results. Threads: one at a time.
struct Asked {
  Visit visit;
  Passwords passwords;
  std::optional<Child> probe;
};

bool Resolves(const std::string& host) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

// Hosts of the plan, each once.
std::vector<Asked> HostsOf(const Plan& plan) {
  std::vector<Asked> hosts;
  const std::string own_name = OwnHostName();
  for (const AgentPlan& agent : plan.agents) {
    const bool own = agent.host == kThisHost;
    const std::string name = own ? own_name : agent.host;
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const Asked& other) { return other.visit.host == name; });
    if (known != hosts.end()) {
      known->visit.devices = AddDevices(known->visit.devices, agent.devices);
      continue;
    }
    Asked asked;
    asked.visit.host = name;
    asked.visit.own = own;
    asked.visit.devices = agent.devices;
    hosts.push_back(std::move(asked));
  }
  return hosts;
}

// Passes the run's settings to all hosts.
std::vector<std::string> ProbeCommand(const Asked& asked, const InstallPaths& paths,
                                      const ClusterOptions& options,
                                      const Environment& environment) {
  const std::vector<std::string> probe = {"doctor", settings::kProbe.option};
  std::vector<std::string> words;
  if (asked.visit.own) {
    words = {CommandThere(paths, ClusterOptions())};
    words.insert(words.end(), probe.begin(), probe.end());
    return words;
  }
  words = {"env"};
  for (const std::string& name : SettingNames(environment))
    words.push_back(Format("{}={}", name, *environment.Get(name)));
  words.push_back(CommandThere(paths, options));
  words.insert(words.end(), probe.begin(), probe.end());
  std::vector<std::string> command = SplitWords(RemoteShellText(options, environment));
  command.insert(command.end(), {asked.visit.host, QuoteForShell(words)});
  return command;
}

// Reads lines up to the facts. Other lines are from the remote shell.
void ReceiveFacts(Asked& asked, steady_clock::time_point deadline, double begun) {
  Visit& visit = asked.visit;
  for (;;) {
    const Result<std::string> line = asked.probe->ReadLine(deadline);
    if (!line.ok()) break;
    if (!LooksLikeFacts(*line)) {
      visit.stray += *line + "\n";
      continue;
    }
    const double now = Now();
    Result<HostFacts> facts = ParseFacts(*line);
    visit.facts.emplace();
    // Facts that cannot be parsed are of another version.
    if (facts.ok())
      visit.facts = std::move(*facts);
    else
      visit.facts->version = "unknown";
    if (visit.facts->time > now) visit.clock_apart = visit.facts->time - now;
    if (visit.facts->time != 0 && visit.facts->time < begun)
      visit.clock_apart = visit.facts->time - begun;
    return;
  }
  visit.stray += asked.probe->output();
  if (!asked.probe->late()) visit.wait_status = asked.probe->Wait(deadline);
  visit.errors += asked.probe->errors();
  // A shell may print the reason on either stream.
  if (visit.errors.empty()) visit.errors = visit.stray;
  asked.probe.reset();
}

// Answer of a probe; empty if it ignores its input, or has ended.
std::optional<Answer> Ask(Asked& asked, const Request& request, std::chrono::seconds limit) {
  if (!asked.probe || !asked.visit.facts || asked.visit.facts->places.empty()) return std::nullopt;
  asked.probe->Send(RequestText(request));
  const Result<std::string> line = asked.probe->ReadLine(steady_clock::now() + limit);
  if (!line.ok()) return std::nullopt;
  Result<Answer> answer = ParseAnswer(*line);
  return answer.ok() ? std::optional(std::move(*answer)) : std::nullopt;
}

Target TargetOf(const Asked& asked) {
  return {asked.visit.host, asked.visit.facts->places, asked.passwords};
}
bool Listens(const Asked& asked) {
  return asked.probe && asked.visit.facts && !asked.visit.facts->places.empty();
}

void ForAll(std::vector<Asked>& hosts, const std::function<void(Asked&)>& work) {
  std::vector<std::thread> threads;
  for (Asked& asked : hosts) {
    Result<std::thread> thread = StartThread("cuspan-host", [&work, &asked] { work(asked); });
    if (thread.ok())
      threads.push_back(std::move(*thread));
    else
      work(asked);  // Without threads: one host after the other.
  }
  for (std::thread& thread : threads) thread.join();
}

// Each host connects to all others; then the own host measures one after the other.
void AskForLinks(std::vector<Asked>& hosts) {
  if (hosts.size() < 2) return;
  ForAll(hosts, [&hosts](Asked& asked) {
    if (!Listens(asked)) return;
    Request request;
    for (const Asked& other : hosts)
      if (&other != &asked && Listens(other)) request.reach.push_back(TargetOf(other));
    std::optional<Answer> answer = Ask(asked, request, kReachLimit);
    asked.visit.unanswered = !answer && !request.reach.empty();
    if (answer) asked.visit.reached = std::move(answer->reached);
  });
  Asked& own = hosts.front();
  Request request;
  for (const Reached& reached : own.visit.reached)
    for (const Asked& other : hosts)
      if (other.visit.host == reached.host && reached.problem.empty())
        request.measure.push_back(TargetOf(other));
  if (request.measure.empty()) return;
  const auto hosts_to_measure = static_cast<int>(request.measure.size());
  const std::optional<Answer> answer =
      Ask(own, request, kReachLimit + hosts_to_measure * kMeasureLimit);
  if (!answer) return;
  for (const Reached& measured : answer->reached)
    for (Asked& other : hosts)
      if (other.visit.host == measured.host) other.visit.measured = measured;
}

}  // namespace

std::string CommandThere(const InstallPaths& paths, const ClusterOptions& options) {
  constexpr std::string_view kAgentSuffix = "-agent";
  if (!options.remote_prefix.empty()) return options.remote_prefix + "/bin/cuspan";
  return paths.agent.substr(0, paths.agent.size() - kAgentSuffix.size());
}

Result<std::vector<Visit>> VisitAll(const InstallPaths& paths, const ClusterOptions& options,
                                    const Plan& plan, const Environment& environment,
                                    std::chrono::seconds limit) {
  std::vector<Asked> hosts = HostsOf(plan);
  const auto deadline = steady_clock::now() + limit;
  const double begun = Now();
  // Started by this thread: the probes end with their starting thread.
  for (Asked& asked : hosts) {
    CUSPAN_ASSIGN_OR_RETURN(asked.passwords, RandomPasswords());
    CUSPAN_ASSIGN_OR_RETURN(
        Child child, Child::Start(ProbeCommand(asked, paths, options, environment), environment));
    asked.probe.emplace(std::move(child));
    asked.visit.waited_seconds = static_cast<std::uint32_t>(limit.count());
    Request first;
    first.own.push_back(asked.passwords);
    asked.probe->Send(RequestText(first));
  }
  ForAll(hosts, [&](Asked& asked) {
    ReceiveFacts(asked, deadline, begun);
    if (!asked.visit.own && !asked.visit.facts) asked.visit.resolves = Resolves(asked.visit.host);
  });
  AskForLinks(hosts);
  std::vector<Visit> visits;
  for (Asked& asked : hosts)
    if (asked.probe) asked.probe->EndInput();
  for (Asked& asked : hosts) {
    if (asked.probe) asked.probe->Wait(steady_clock::now() + kEndLimit);
    visits.push_back(std::move(asked.visit));
  }
  return visits;
}

}  // namespace cuspan::doctor
