#include "launcher/doctor/doctor.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/batch_system.h"
#include "common/descriptor_limit.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/doctor/probe.h"
#include "launcher/doctor/reach.h"
#include "launcher/doctor/report.h"
#include "launcher/host/app_process.h"
#include "launcher/host/own_host.h"
#include "launcher/run/client_environment.h"
#include "launcher/starter/agent_command.h"
#include "launcher/starter/agent_starter.h"
#include "launcher/starter/mpi_launcher.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

constexpr int kFound = 1;

doctor::Needs NeedsOf(const InstallPaths& paths, const ClusterOptions& options, const Plan& plan,
                      const Environment& environment) {
  doctor::Needs needs;
  needs.device = options.device;
  needs.relay = plan.relay;
  needs.relayed = plan.relayed();
  needs.mpi = OwnMpiLauncher().name();
  needs.mpi_has_prefix = options.mpirun.find('/') != std::string::npos;
  needs.remote_shell = RemoteShellText(options, environment);
  needs.cuspan = doctor::CommandThere(paths, options);
  needs.may_lack_shell = plan.mpi() && options.remote_shell.empty() &&
                         BatchSystemAround(environment) != BatchSystem::kNone &&
                         !environment.Get("OMPI_MCA_plm_rsh_agent");
  return needs;
}

// PBS's commands write a process's output to the job's files (docs/batch.md).
bool IsSilentShell(const std::string& remote_shell) {
  const std::vector<std::string> words = SplitWords(remote_shell);
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "pbs_tmrsh" || word == "pbsdsh";
  });
}

Plan OwnPart(const Plan& plan) {
  Plan own = plan;
  std::erase_if(own.agents, [](const AgentPlan& agent) { return agent.host != kThisHost; });
  return own;
}

// Options not set are completed as for a run.
Result<std::vector<doctor::Visit>> VisitHosts(const DoctorOptions& wanted,
                                              std::vector<doctor::Finding>& findings) {
  CUSPAN_ASSIGN_OR_RETURN(const InstallPaths paths, InstallPaths::Find());
  ClusterOptions options = wanted.cluster;
  Environment environment = Environment::OfThisProcess();
  const Result<Plan> plan = PlanRun(paths, options, environment);
  if (!plan.ok()) {
    findings.push_back({"batch-job", doctor::Severity::kError, OwnHostName(),
                        plan.status().message(),
                        "correct this first: all other checks were skipped"});
    return std::vector<doctor::Visit>();
  }
  StripOuterRun(environment);
  environment.Set(settings::kDevice.name, options.device);
  const bool silent = IsSilentShell(options.remote_shell);
  CUSPAN_ASSIGN_OR_RETURN(
      std::vector<doctor::Visit> visits,
      doctor::VisitAll(paths, options, silent ? OwnPart(*plan) : *plan, environment, wanted.limit));
  findings = doctor::CheckAll(NeedsOf(paths, options, *plan, environment), visits);
  if (silent)
    for (const AgentPlan& agent : plan->agents)
      if (agent.host != kThisHost)
        findings.push_back({"not-looked-at", doctor::Severity::kWarning, agent.host,
                            "the command that starts agents there does not return their output",
                            "start cuspan doctor on that host, in the job"});
  if (const Status names =
          plan->mpi() ? OwnMpiLauncher().CheckNames(*plan, OwnHostName()) : Status::Ok();
      !names.ok())
    findings.push_back({"host-name", doctor::Severity::kError, OwnHostName(), names.message(),
                        "a run with these hosts does not start"});
  if (const Result<SecureHosts> secure =
          CheckSecure(*plan, options, !wanted.cluster.remote_shell.empty(), environment);
      !secure.ok())
    findings.push_back({"not-secure", doctor::Severity::kError, OwnHostName(),
                        secure.status().message(), "omit --secure only if you trust the network"});
  return visits;
}

}  // namespace

int Doctor(const DoctorOptions& options) {
  // Each host needs four descriptors.
  RaiseDescriptorLimit();
  if (options.probe) return doctor::RunProbe(options.cluster);
  // A remote shell may end before reading its input.
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<doctor::Finding> findings;
  const Result<std::vector<doctor::Visit>> visits = VisitHosts(options, findings);
  if (!visits.ok()) {
    LogError("{}", visits.status().message());
    return kExitOwnFailure;
  }
  const std::string text =
      options.json ? doctor::ReportJson(*visits, findings) : doctor::ReportText(*visits, findings);
  std::fputs(text.c_str(), stdout);
  return doctor::IsHealthy(findings) ? 0 : kFound;
}

}  // namespace cuspan
