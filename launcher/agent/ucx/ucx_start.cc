#include "launcher/agent/ucx/ucx_start.h"

#include <sys/prctl.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/boot_id.h"
#include "common/settings.h"
#include "launcher/agent/meeting/meeting.h"
#include "launcher/agent/ucx/lane_threads.h"
#include "launcher/agent/ucx/ucx_transport.h"
#include "launcher/host/own_host.h"
#include "launcher/host/route.h"
#include "launcher/run/secure_network.h"

namespace cuspan {
namespace {

// Time for all hosts to be reached, consistent with the launcher's limit.
constexpr std::chrono::seconds kStartLimit{290};
// Time for connecting to the head agent, which listens before it starts other agents.
constexpr std::chrono::seconds kConnectLimit{30};

// Identifies this process's kernel and namespaces. If they are equal, UCX uses shared memory and
// wakes the peer by a socket of the network namespace.
std::string OwnPlace() {
  std::string place = BootId();
  for (const char* const name : {"net", "ipc", "pid", "mnt", "user"}) {
    std::error_code ignored;
    place +=
        " " + std::filesystem::read_symlink(Format("/proc/self/ns/{}", name), ignored).string();
  }
  return place;
}

using Workers = std::vector<std::unique_ptr<UcxWorker>>;

// The agent's own worker, then those of its lanes according to CUSPAN_LANES.
Result<Workers> CreateWorkers() {
  CUSPAN_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> set,
                          ParseLanes(SettingText(settings::kLanes)));
  const std::uint32_t lanes = set.value_or(1);
  Workers workers(lanes > 1 ? 1 + lanes : 1);
  for (std::unique_ptr<UcxWorker>& worker : workers) {
    CUSPAN_ASSIGN_OR_RETURN(worker, UcxWorker::Create());
  }
  return workers;
}

Result<Meeting::Attendee> SelfAt(const Workers& workers) {
  Meeting::Attendee self{OwnHostName(), UcxRelease(), OwnPlace(), {}};
  for (const std::unique_ptr<UcxWorker>& worker : workers) {
    CUSPAN_ASSIGN_OR_RETURN(Meeting::Address address, worker->address());
    self.addresses.push_back(std::move(address));
  }
  return self;
}

// Restricts UCX to the encrypting interfaces and returns their names. Without --secure, returns an
// empty set.
Result<std::set<std::string>> Confine() {
  CUSPAN_ASSIGN_OR_RETURN(std::set<std::string> interfaces, SecureInterfacesOfRun());
  if (std::getenv(kSecureHostsVariable) == nullptr) return interfaces;
  std::string list;
  for (const std::string& interface : interfaces) list += (list.empty() ? "" : ",") + interface;
  // If the list is empty, agents of one host still share memory. Overwrites the user's setting,
  // since it could bypass encryption.
  ::setenv("UCX_NET_DEVICES", list.empty() ? "lo" : list.c_str(), 1);
  return interfaces;
}

// Addresses of the head agent reached by loopback or an encrypting interface.
std::vector<net::Address> SecurePlaces(const std::vector<net::Address>& places,
                                       const std::set<std::string>& interfaces) {
  std::vector<net::Address> secure;
  for (const net::Address& place : places) {
    const std::string way = InterfaceTowards(net::HostText(place));
    if (net::IsLoopback(place) || interfaces.contains(way)) secure.push_back(place);
  }
  return secure;
}

// Creates the run's transport and lanes after the meeting.
Status Join(UcxRun& run, Workers workers, Meeting meeting) {
  std::unique_ptr<UcxWorker> own = std::move(workers.front());
  workers.erase(workers.begin());
  if (!workers.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<LaneThreads> lanes,
                            LaneThreads::Start(std::move(workers), meeting));
    run.sockets = lanes->ExtractSockets();
    run.lanes = std::move(lanes);
  }
  CUSPAN_ASSIGN_OR_RETURN(run.transport, UcxWorker::Join(std::move(own), std::move(meeting)));
  return Status::Ok();
}

}  // namespace

Status BecomeUcxAgent(char**) {
  // Same process name as the agent without UCX.
  ::prctl(PR_SET_NAME, "cuspan-agent");
  return Status::Ok();
}

Result<UcxRun> HoldUcxRun(const AgentOptions& options, const InstallPaths& paths,
                          const Environment& environment, const RunKey& key) {
  CUSPAN_ASSIGN_OR_RETURN(const std::set<std::string> interfaces, Confine());
  CUSPAN_ASSIGN_OR_RETURN(Workers workers, CreateWorkers());
  CUSPAN_ASSIGN_OR_RETURN(const Meeting::Attendee self, SelfAt(workers));
  CUSPAN_ASSIGN_OR_RETURN(const net::Listener listener, net::Listener::OpenOnAll(SOMAXCONN));
  CUSPAN_ASSIGN_OR_RETURN(std::vector<net::Address> places,
                          net::OwnAddresses(listener.address().port));
  // Other agents get only addresses on encrypting interfaces.
  if (!interfaces.empty())
    std::erase_if(places, [&interfaces](const net::Address& place) {
      return !net::IsLoopback(place) && !interfaces.contains(InterfaceWith(place));
    });
  const std::vector<std::string> told = {"--device", options.device};
  UcxRun run;
  CUSPAN_ASSIGN_OR_RETURN(
      OtherAgents others,
      OtherAgents::Start(options.others, {options.remote_shell, options.remote_agent, paths.agent},
                         places, told, environment, key));
  run.others.emplace(std::move(others));
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  std::vector<std::string> hosts;
  for (const AgentPlan& other : options.others)
    hosts.push_back(other.host == kThisHost ? OwnHostName() : other.host);
  Result<Meeting> meeting = Meeting::Hold(listener, key.secret, hosts, self, run.others->fds(),
                                          *never, std::chrono::steady_clock::now() + kStartLimit);
  if (!meeting.ok()) {
    const std::string end = run.others->ExplainEnd();
    return end.empty() ? meeting.status() : Status::Unavailable("{}", end);
  }
  run.others->PassOnOutput();
  CUSPAN_RETURN_IF_ERROR(Join(run, std::move(workers), std::move(*meeting)));
  return run;
}

Result<UcxRun> AttendUcxRun(const AgentOptions& options, const Invitation& invitation) {
  CUSPAN_ASSIGN_OR_RETURN(const std::set<std::string> interfaces, Confine());
  const std::vector<net::Address> places =
      interfaces.empty() ? invitation.places : SecurePlaces(invitation.places, interfaces);
  CUSPAN_ASSIGN_OR_RETURN(Workers workers, CreateWorkers());
  CUSPAN_ASSIGN_OR_RETURN(const Meeting::Attendee self, SelfAt(workers));
  CUSPAN_ASSIGN_OR_RETURN(Meeting meeting,
                          Meeting::Attend(places, invitation.key.secret, options.rank, self,
                                          std::chrono::steady_clock::now() + kConnectLimit));
  UcxRun run;
  CUSPAN_RETURN_IF_ERROR(Join(run, std::move(workers), std::move(meeting)));
  return run;
}

}  // namespace cuspan
