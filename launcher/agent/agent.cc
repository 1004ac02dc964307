// cuspan-agent: one process on each node of a run. It serves the node's GPUs to the run and, on the
// program's node, the program's processes.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
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
  if (!status.message().empty()) LogError("{}", status.message());
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

int RunHeadAgent(const Setup& setup, std::optional<ProgramProcess> program, const RunKey& key,
                 AgentLinks links, InventoryQuery& inventory) {
  const AgentThread::Scope role(agent_thread);
  Result<std::unique_ptr<HeadAgent>> head = HeadAgent::Create(
      setup.options, setup.paths, setup.proxy_environment, key, std::move(links), inventory);
  if (!head.ok()) return Fail(head.status());
  if (!program) {
    if (const Status joined = (*head)->JoinLauncher(); !joined.ok()) return Fail(joined);
  }
  Status status = (*head)->FindDevices();
  // If there is a launcher, the error was reported to it. Exit status 0: mpirun kills all agents if
  // one fails.
  int exit_status = status.ok() || !program ? 0 : kExitOwnFailure;
  if (status.ok() && program) {
    status = program->Start();
    if (!status.ok()) exit_status = ExitStatusOf(status);
  }
  int program_status = 0;
  if (status.ok())
    program_status = (*head)->Serve(program ? &*program : nullptr);
  else if (program)
    LogError("{}", status.message());  // A launcher would report it.
  (*head)->Shutdown();
  if (program && status.ok() && setup.options.statistics)
    std::fputs(StatisticsTable((*head)->reports(), std::string((*head)->relay_name())).c_str(),
               stderr);
  head->reset();
  if (program && status.ok()) EndLike(program_status);
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

// --- Connections to the other agents: a function for each kind of transport.

// How the agents of a run are connected.
enum class LinkKind { kNone, kMpi, kUcx };

LinkKind LinkKindOf(const AgentOptions& options, const Environment& environment) {
  if (!options.others.empty() || options.rank != 0) return LinkKind::kUcx;
  return !options.alone && InsideMpiJob(environment) ? LinkKind::kMpi : LinkKind::kNone;
}

// Executes the agent linked with the transport's library in place of this one, if it is another
// program.
Status BecomeAgentFor(LinkKind kind, char** arguments) {
  switch (kind) {
    case LinkKind::kMpi:
      return BecomeMpiAgent(arguments);
    case LinkKind::kUcx:
      return BecomeUcxAgent(arguments);
    case LinkKind::kNone:
      break;
  }
  return Status::Ok();
}

bool IsHead(LinkKind kind, const Setup& setup) {
  switch (kind) {
    case LinkKind::kMpi:
      return IsFirstRank(setup.environment);
    case LinkKind::kUcx:
      return setup.options.rank == 0;
    case LinkKind::kNone:
      break;
  }
  return true;
}

struct Connections {
  AgentLinks links;
  std::optional<RunKey> key;  // Key of the run, if the connection has brought it.
};

// Empty: this process was a lane, and has served its agent to the end.
using MaybeConnections = std::optional<Connections>;

void NameByRank(const Transport& transport) {
  SetLogName(Format("cuspan agent[{} rank {}]", OwnHostName(), transport.rank()), "agent");
}

// `owner`: keeps the transport. It outlives the agent, and the report of an error: MPICH ends a
// process that destroys its transport early.
Result<MaybeConnections> ConnectOverUcx(const Setup& setup, bool head, const RunKey& key,
                                        InventoryQuery& inventory, std::shared_ptr<void>& owner) {
  std::optional<Invitation> invitation;
  if (!head) {
    CUSPAN_ASSIGN_OR_RETURN(invitation, Invitation::Read(std::cin));
  }
  // The GPUs are listed during the meeting.
  if (head ? setup.options.serve.value_or(0) != 0 : setup.options.serve != 0U) inventory.Begin();
  CUSPAN_ASSIGN_OR_RETURN(UcxRun run,
                          head ? HoldUcxRun(setup.options, setup.paths, setup.environment, key)
                               : AttendUcxRun(setup.options, *invitation));
  const auto kept = std::make_shared<UcxRun>(std::move(run));
  owner = kept;
  NameByRank(*kept->transport);
  return MaybeConnections({kept->Links(), head ? std::nullopt : std::optional(invitation->key)});
}

// An error without a message is reported by the head agent.
Result<MaybeConnections> ConnectOverMpi(bool head, int argc, char** argv,
                                        std::shared_ptr<void>& owner) {
  // Set by the launcher. Agents started by hand have no lanes unless the variable says so.
  const Result<std::optional<std::uint32_t>> lanes = ParseLanes(SettingText(settings::kLanes));
  const std::uint32_t number = lanes.ok() ? lanes->value_or(1) : 1;
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Transport> transport,
                          StartMpiTransport(&argc, &argv, number));
  owner = transport;
  NameByRank(*transport);
  const Result<Ranks> ranks =
      lanes.ok() ? Ranks::Of(transport->size(), number) : Result<Ranks>(lanes.status());
  if (!ranks.ok()) return head ? ranks.status() : Status::Invalid("");
  if (ranks->is_lane(transport->rank())) {
    CUSPAN_RETURN_IF_ERROR(ServeAsLane(*transport, *ranks));
    return MaybeConnections();
  }
  CUSPAN_ASSIGN_OR_RETURN(std::vector<ControlSocket> joined, InviteLanes(*transport, *ranks));
  return MaybeConnections({{transport.get(), ranks->agents, std::move(joined)}, std::nullopt});
}

// --- Start

// Prepares the program of an agent started without a launcher. It is forked before MPI starts: a
// child must inherit nothing of it. Returns the exit status of a failure, else 0.
int PrepareProgram(const Setup& setup, const RunKey& key, const InheritedSignals& signals,
                   std::optional<ProgramProcess>& program) {
  if (const Status client = CheckClient(setup.paths); !client.ok()) return Fail(client);
  Environment environment = setup.proxy_environment;
  const Result<std::string> path =
      FindCommand(setup.options.command.front(), environment.Get("PATH").value_or(""));
  const Status enters = path.ok() ? CheckEntered(*path) : path.status();
  if (!enters.ok()) {
    LogError("{}", enters.message());
    return ExitStatusOf(enters);
  }
  if (const std::string warning = WarnOfOwnRights(*path); !warning.empty()) LogWarn("{}", warning);
  AddClient(environment, setup.paths, key);
  if (setup.options.statistics) environment.Set(settings::kStats.name, "on");
  Result<ProgramProcess> prepared =
      ProgramProcess::Prepare(setup.options.command, environment, signals);
  if (!prepared.ok()) return Fail(prepared.status());
  program.emplace(std::move(*prepared));
  return 0;
}

// Key of the head agent's run: the launcher's, or a new one if the agent starts the program itself.
Result<RunKey> KeyOfHead(const Setup& setup) {
  if (setup.options.command.empty() && !setup.key)
    return Status::Invalid(
        "rank 0 needs a program: cuspan-agent [OPTIONS] -- PROGRAM; or use cuspan run");
  return setup.options.command.empty() ? Result<RunKey>(*setup.key) : RunKey::Random();
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
  const Environment environment = Environment::OfThisProcess();
  const LinkKind kind = LinkKindOf(*line->options, environment);
  if (const Status became = BecomeAgentFor(kind, argv); !became.ok()) return Fail(became);
  KeepLogFromWaiting();
  // Exceeding a file size limit then returns an ordinary error (EFBIG).
  ::signal(SIGXFSZ, SIG_IGN);
  Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) return Fail(paths.status());
  Result<std::optional<RunKey>> given = KeyFromEnvironment();
  if (!given.ok()) return Fail(given.status());

  Setup setup{*line->options, *paths, environment, environment, *given};
  StripOuterRun(setup.proxy_environment);
  StripMpi(setup.proxy_environment);
  const bool head = IsHead(kind, setup);
  if (!head && !setup.options.command.empty())
    return Fail(
        Status::Invalid("only rank 0 starts a program; remove '-- PROGRAM' from the other ranks"));
  RunKey key;
  std::optional<ProgramProcess> program;
  if (head) {
    const Result<RunKey> of_head = KeyOfHead(setup);
    if (!of_head.ok()) return Fail(of_head.status());
    key = *of_head;
    if (!setup.options.command.empty()) {
      if (const int failed = PrepareProgram(setup, key, signals, program); failed != 0)
        return failed;
    }
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
  InventoryQuery inventory(paths->proxy, setup.proxy_environment, setup.options.device, false);
  std::shared_ptr<void> owner;
  Result<MaybeConnections> connected = [&]() -> Result<MaybeConnections> {
    switch (kind) {
      case LinkKind::kMpi:
        return ConnectOverMpi(head, argc, argv, owner);
      case LinkKind::kUcx:
        return ConnectOverUcx(setup, head, key, inventory, owner);
      case LinkKind::kNone:
        break;
    }
    return MaybeConnections(Connections());
  }();
  if (!connected.ok()) return Fail(connected.status());
  if (!*connected) return 0;
  Connections& connections = **connected;
  if (connections.key) setup.key = connections.key;
  return head
             ? RunHeadAgent(setup, std::move(program), key, std::move(connections.links), inventory)
             : RunWorkerAgent(setup, std::move(connections.links), inventory);
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) { return cuspan::RunAgent(argc, argv); }
