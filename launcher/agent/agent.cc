// cuspan-agent: one process on each node of a run. It serves the node's GPUs to the run and, on the
// program's node, the program's processes.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "common/descriptor_limit.h"
#include "common/find_command.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/agent/base/agent_options.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/head_agent.h"
#include "launcher/agent/mpi/lane_processes.h"
#include "launcher/agent/mpi/mpi_transport.h"
#include "launcher/agent/ucx/ucx_start.h"
#include "launcher/agent/ucx/ucx_transports.h"
#include "launcher/agent/worker_agent.h"
#include "launcher/allocator/lease_sweeper.h"
#include "launcher/host/own_host.h"
#include "launcher/host/program_check.h"
#include "launcher/run/client_environment.h"
#include "launcher/run/lease_key.h"
#include "launcher/run/tables.h"

namespace cuspan {
namespace {

int Fail(const Status& status) {
  LogError("{}", status.message());
  return kExitOwnFailure;
}

// Key set by this run's launcher; none if mpirun started the agents directly.
Result<std::optional<RunKey>> KeyFromEnvironment() {
  const char* text = std::getenv(RunKey::kVariable);
  if (text == nullptr) return std::optional<RunKey>();
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Parse(text));
  return std::optional<RunKey>(key);
}

// True if this is rank 0 in mpirun's environment; usable before MPI_Init.
bool IsFirstRank(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const auto rank = environment.Get(name)) return *rank == "0";
  return true;
}

// True if this agent may take locks on GPUs. Errors in the setting are reported later.
bool NeedsSweeper(const AgentOptions& options) {
  const Result<LeaseMode> mode = ParseLeaseMode(SettingText(settings::kLeases));
  if (!mode.ok() || *mode == LeaseMode::kOff || options.serve == 0U || options.request.look)
    return false;
  return LeaseModeOf(*mode, options.request.share) == LeaseMode::kOn || options.device != "soft";
}

struct Setup {
  AgentOptions options;
  InstallPaths paths;
  Environment environment;        // This process's.
  Environment proxy_environment;  // Without MPI's and outer runs' variables.
  std::optional<RunKey> key;
};

int RunHeadAgent(const Setup& setup, std::optional<ProgramProcess> app, const RunKey& key,
                 AgentLinks links, InventoryQuery& inventory) {
  const AgentThread::Scope role(agent_thread);
  Result<std::unique_ptr<HeadAgent>> head = HeadAgent::Create(
      setup.options, setup.paths, setup.proxy_environment, key, std::move(links), inventory);
  if (!head.ok()) return Fail(head.status());
  if (!app) {
    if (const Status joined = (*head)->JoinLauncher(); !joined.ok()) return Fail(joined);
  }
  Status status = (*head)->FindDevices();
  // If there is a launcher, the error was reported to it. Exit status 0: mpirun kills all agents if
  // one fails.
  int exit_status = status.ok() || !app ? 0 : kExitOwnFailure;
  if (status.ok() && app) {
    status = app->Start();
    if (!status.ok()) exit_status = ExitStatusOf(status);
  }
  int program_status = 0;
  if (status.ok())
    program_status = (*head)->Serve(app ? &*app : nullptr);
  else if (app)
    LogError("{}", status.message());  // A launcher would report it.
  (*head)->Shutdown();
  if (app && status.ok() && setup.options.statistics)
    std::fputs(StatisticsTable((*head)->reports(), std::string((*head)->relay_name())).c_str(),
               stderr);
  head->reset();
  if (app && status.ok()) EndLike(program_status);
  return exit_status;
}

int RunWorkerAgent(const Setup& setup, AgentLinks links, InventoryQuery& inventory) {
  const AgentThread::Scope role(agent_thread);
  Result<std::unique_ptr<WorkerAgent>> worker =
      WorkerAgent::Create(setup.options, setup.paths, setup.proxy_environment, std::move(links));
  if (!worker.ok()) return Fail(worker.status());
  if (!(*worker)->Meet(setup.key ? &*setup.key : nullptr, inventory)) {
    (*worker)->Leave();
    return kExitOwnFailure;
  }
  (*worker)->Serve();
  return 0;
}

int RunHeadAgentOverUcx(const Setup& setup, std::optional<ProgramProcess> app, const RunKey& key,
                        InventoryQuery& inventory) {
  if (setup.options.serve.value_or(0) != 0) inventory.Begin();
  Result<UcxRun> run = HoldUcxRun(setup.options, setup.paths, setup.environment, key);
  if (!run.ok()) return Fail(run.status());
  SetLogName(Format("cuspan agent[{} rank 0]", OwnHostName()), "agent");
  return RunHeadAgent(setup, std::move(app), key, run->Links(), inventory);
}

int RunWorkerAgentOverUcx(Setup setup, InventoryQuery& inventory) {
  const Result<Invitation> invitation = Invitation::Read(std::cin);
  if (!invitation.ok()) return Fail(invitation.status());
  if (setup.options.serve != 0U) inventory.Begin();
  setup.key = invitation->key;
  Result<UcxRun> run = AttendUcxRun(setup.options, *invitation);
  if (!run.ok()) return Fail(run.status());
  SetLogName(Format("cuspan agent[{} rank {}]", OwnHostName(), run->transport->rank()), "agent");
  return RunWorkerAgent(setup, run->Links(), inventory);
}

int RunAgent(int argc, char** argv) {
  const InheritedSignals signals = InheritedSignals::Save();
  Result<AgentCommandLine> line = ParseAgentCommandLine(argc, argv);
  if (!line.ok()) return Fail(line.status());
  if (!line->options) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  SetLogName(Format("cuspan agent[{}]", OwnHostName()), "agent");
  if (const Status settings = CheckLogSettings(); !settings.ok()) return Fail(settings);
  const bool ucx = !line->options->others.empty() || line->options->rank != 0;
  if (ucx) {
    if (const Status became = BecomeUcxAgent(argv); !became.ok()) return Fail(became);
  }
  const Environment environment = Environment::OfThisProcess();
  const bool mpi = !line->options->alone && !ucx && InsideMpiJob(environment);
  if (mpi) {
    if (const Status became = BecomeMpiAgent(argv); !became.ok()) return Fail(became);
  }
  KeepLogFromWaiting();
  // Exceeding a file size limit then returns an ordinary error (EFBIG).
  ::signal(SIGXFSZ, SIG_IGN);
  Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) return Fail(paths.status());
  Result<std::optional<RunKey>> told = KeyFromEnvironment();
  if (!told.ok()) return Fail(told.status());

  Setup setup{*line->options, *paths, environment, {}, *told};
  const bool head = ucx ? setup.options.rank == 0 : !mpi || IsFirstRank(setup.environment);
  setup.proxy_environment = setup.environment;
  StripOuterRun(setup.proxy_environment);
  StripMpi(setup.proxy_environment);

  if (!head && !setup.options.command.empty())
    return Fail(
        Status::Invalid("only rank 0 starts a program; remove '-- PROGRAM' from the other ranks"));
  RunKey key;
  std::optional<ProgramProcess> app;
  if (head) {
    if (setup.options.command.empty() && !setup.key)
      return Fail(Status::Invalid(
          "rank 0 needs a program: cuspan-agent [OPTIONS] -- PROGRAM; or use cuspan run"));
    Result<RunKey> random = RunKey::Random();
    if (!random.ok()) return Fail(random.status());
    key = setup.key && setup.options.command.empty() ? *setup.key : *random;
  }
  if (!setup.options.command.empty()) {
    if (const Status client = CheckClient(*paths); !client.ok()) return Fail(client);
    Environment program_environment = setup.proxy_environment;
    const Result<std::string> program =
        FindCommand(setup.options.command.front(), program_environment.Get("PATH").value_or(""));
    const Status enters = program.ok() ? CheckEntered(*program) : program.status();
    if (!enters.ok()) {
      LogError("{}", enters.message());
      return ExitStatusOf(enters);
    }
    if (const std::string warning = WarnOfOwnRights(*program); !warning.empty())
      LogWarn("{}", warning);
    AddClient(program_environment, *paths, key);
    if (setup.options.statistics) program_environment.Set(settings::kStats.name, "on");
    // Forked before MPI starts: a child must inherit nothing of it.
    Result<ProgramProcess> prepared =
        ProgramProcess::Prepare(setup.options.command, program_environment, signals);
    if (!prepared.ok()) return Fail(prepared.status());
    app.emplace(std::move(*prepared));
  }
  // The program is already forked and keeps its own limit and variable.
  RaiseDescriptorLimit();
  ExcludeSharedSegments();
  std::optional<LeaseSweeper> sweeper;
  if (NeedsSweeper(setup.options)) {
    Result<LeaseSweeper> started = LeaseSweeper::Start(OwnHostName());
    if (!started.ok()) return Fail(started.status());
    sweeper.emplace(std::move(*started));
  }
  InventoryQuery inventory(paths->proxy, setup.proxy_environment, setup.options.device);
  if (ucx)
    return head ? RunHeadAgentOverUcx(setup, std::move(app), key, inventory)
                : RunWorkerAgentOverUcx(std::move(setup), inventory);
  if (!mpi) return RunHeadAgent(setup, std::move(app), key, {}, inventory);
  Result<std::unique_ptr<Transport>> transport = StartMpiTransport(&argc, &argv);
  if (!transport.ok()) return Fail(transport.status());
  SetLogName(Format("cuspan agent[{} rank {}]", OwnHostName(), (*transport)->rank()), "agent");
  const Result<std::uint32_t> lanes = ParseLanes(SettingText(settings::kLanes), 1);
  const Result<Ranks> ranks =
      lanes.ok() ? Ranks::Of((*transport)->size(), *lanes) : Result<Ranks>(lanes.status());
  // One report is enough.
  if (!ranks.ok()) return head ? Fail(ranks.status()) : kExitOwnFailure;
  if (ranks->is_lane((*transport)->rank())) {
    const Status served = ServeAsLane(**transport, *ranks);
    return served.ok() ? 0 : Fail(served);
  }
  Result<std::vector<ControlSocket>> joined = InviteLanes(**transport, *ranks);
  if (!joined.ok()) return Fail(joined.status());
  AgentLinks links{transport->get(), ranks->agents, std::move(*joined)};
  return head ? RunHeadAgent(setup, std::move(app), key, std::move(links), inventory)
              : RunWorkerAgent(setup, std::move(links), inventory);
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) { return cuspan::RunAgent(argc, argv); }
