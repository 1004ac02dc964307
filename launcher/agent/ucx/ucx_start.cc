#include "launcher/agent/ucx/ucx_start.h"

#include <sys/prctl.h>

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

Meeting::Attendee SelfAt(const UcxWorker& worker) {
  return {OwnHostName(), UcxRelease(), {worker.address()}};
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
  Result<Meeting> meeting =
      Meeting::Hold(listener, key.secret, hosts, SelfAt(*worker), run.others->fds(), *never,
                    std::chrono::steady_clock::now() + kStartLimit);
  if (!meeting.ok()) {
    const std::string end = run.others->ExplainEnd();
    return end.empty() ? meeting.status() : Status::Unavailable("{}", end);
  }
  CUSPAN_ASSIGN_OR_RETURN(run.transport, UcxWorker::Join(std::move(worker), std::move(*meeting)));
  return run;
}

Result<UcxRun> AttendUcxRun(const AgentOptions& options, const Invitation& invitation) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create());
  CUSPAN_ASSIGN_OR_RETURN(
      Meeting meeting,
      Meeting::Attend(invitation.places, invitation.key.secret, options.rank, SelfAt(*worker),
                      std::chrono::steady_clock::now() + kConnectLimit));
  UcxRun run;
  CUSPAN_ASSIGN_OR_RETURN(run.transport, UcxWorker::Join(std::move(worker), std::move(meeting)));
  return run;
}

}  // namespace cuspan
