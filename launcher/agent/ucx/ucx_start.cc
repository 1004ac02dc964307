#include "launcher/agent/ucx/ucx_start.h"

#include <sys/prctl.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "launcher/agent/meeting/meeting.h"
#include "launcher/agent/ucx/ucx_transport.h"
#include "launcher/agent_cluster.h"

namespace cuspan {
namespace {

// For all hosts to be reached, as the launcher waits for them.
constexpr std::chrono::seconds kStartLimit{290};
// For the home agent, which listens before it starts anybody.
constexpr std::chrono::seconds kConnectLimit{30};

// The kernel and the namespaces of this process: UCX shares memory where two have the same, and
// wakes the other by a socket of its network namespace.
std::string OwnPlace() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string place;
  std::getline(boot, place);
  for (const char* const name : {"net", "ipc", "pid", "mnt", "user"}) {
    std::error_code ignored;
    place +=
        " " + std::filesystem::read_symlink(Format("/proc/self/ns/{}", name), ignored).string();
  }
  return place;
}

Result<Meeting::Attendee> SelfAt(const UcxWorker& worker) {
  Meeting::Attendee self{OwnHostName(), UcxRelease(), OwnPlace(), {}};
  CUSPAN_ASSIGN_OR_RETURN(Meeting::Address address, worker.address());
  self.addresses.push_back(std::move(address));
  return self;
}

}  // namespace

Status BecomeUcxAgent(char**) {
  // As the other one is called.
  ::prctl(PR_SET_NAME, "cuspan-agent");
  return Status::Ok();
}

Result<UcxRun> HoldUcxRun(const AgentOptions& options, const InstallPaths& paths,
                          const Environment& environment, const RunKey& key) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create());
  CUSPAN_ASSIGN_OR_RETURN(const Meeting::Attendee self, SelfAt(*worker));
  CUSPAN_ASSIGN_OR_RETURN(const net::Listener listener, net::Listener::OpenOnAll(SOMAXCONN));
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<net::Address> places,
                          net::OwnAddresses(listener.address().port));
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
  CUSPAN_ASSIGN_OR_RETURN(run.transport, UcxWorker::Join(std::move(worker), std::move(*meeting)));
  return run;
}

Result<UcxRun> AttendUcxRun(const AgentOptions& options, const Invitation& invitation) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create());
  CUSPAN_ASSIGN_OR_RETURN(const Meeting::Attendee self, SelfAt(*worker));
  CUSPAN_ASSIGN_OR_RETURN(
      Meeting meeting, Meeting::Attend(invitation.places, invitation.key.secret, options.rank, self,
                                       std::chrono::steady_clock::now() + kConnectLimit));
  UcxRun run;
  CUSPAN_ASSIGN_OR_RETURN(run.transport, UcxWorker::Join(std::move(worker), std::move(meeting)));
  return run;
}

}  // namespace cuspan
