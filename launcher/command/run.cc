#include "launcher/command/run.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/batch_system.h"
#include "common/find_command.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/batch/batch_job.h"
#include "launcher/batch/slurm_ranks.h"
#include "launcher/batch/slurm_run.h"
#include "launcher/host/job_control.h"
#include "launcher/host/program_check.h"
#include "launcher/host/tool_check.h"
#include "launcher/metrics/run_metrics.h"
#include "launcher/run/client_environment.h"
#include "launcher/run/tables.h"
#include "launcher/run/trace_file.h"
#include "launcher/starter/open_mpi.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

// Signals passed on to the program.
constexpr int kForwarded[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// Descriptor for the signals handled by the launcher while the program runs. SIGINT and SIGQUIT are
// ignored: the terminal sends them to the program as well, and the program decides on them.
Result<UniqueFd> ReceiveSignals() {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (const int number : kForwarded) sigaddset(&taken, number);
  for (const int number : JobControl::kJobSignals) sigaddset(&taken, number);
  if (::sigprocmask(SIG_BLOCK, &taken, nullptr) != 0)
    return Status::Internal("sigprocmask: {}", std::strerror(errno));
  UniqueFd fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return Status::Internal("signalfd: {}", std::strerror(errno));
  return fd;
}

// Watches the program until it ends. WaitEnd returns its status from waitpid.
class ProgramWatch {
 public:
  // `metrics` may be null.
  ProgramWatch(pid_t app, int signals, AgentCluster& agents, RunMetrics* metrics)
      : program_(app), job_(app), signals_(signals), agents_(agents), metrics_(metrics) {}

  int WaitEnd() {
    while (!ended_) {
      pollfd waited[5] = {{signals_, POLLIN, 0},
                          {agents_.output_fd(), POLLIN, 0},
                          {agents_lost_ ? -1 : agents_.process_fd(), POLLIN, 0},
                          {metrics_ != nullptr ? metrics_->request_fd() : -1, POLLIN, 0},
                          {metrics_ != nullptr ? metrics_->answer_fd(agents_) : -1, POLLIN, 0}};
      // Returns on a signal (including SIGCHLD of the program), on events of the agents, and on
      // requests for metrics.
      ::poll(waited, 5, -1);
      if (waited[0].revents != 0) ReceiveSignals();
      if (waited[1].revents != 0) agents_.ReadOutput();
      if (waited[2].revents != 0 && !ended_) {
        agents_lost_ = true;
        LogError("{}; its devices were lost", agents_.ExplainEnd());
        if (metrics_ != nullptr) metrics_->LoseAgents();
      }
      if (waited[3].revents != 0) metrics_->ConsumeRequest(agents_);
      if (waited[4].revents != 0 && !agents_lost_) metrics_->ReceiveAnswer(agents_);
    }
    return wait_status_;
  }
  // The agents ended before the program, and the user was notified.
  bool agents_lost() const { return agents_lost_; }

 private:
  void ReceiveSignals() {
    signalfd_siginfo information{};
    while (::read(signals_, &information, sizeof information) == sizeof information) {
      const int number = static_cast<int>(information.ssi_signo);
      if (number == SIGCHLD) continue;
      if (std::ranges::find(JobControl::kJobSignals, number) != std::end(JobControl::kJobSignals)) {
        job_.Handle(information);
        continue;
      }
      // If a terminal hangs up, the kernel signals only the leader of its session. If this is a
      // shell, it signals the launcher and the program.
      const bool program_has_it = information.ssi_code == SI_KERNEL && ::getsid(0) != ::getpid();
      if (!program_has_it && static_cast<pid_t>(information.ssi_pid) != program_)
        ::kill(program_, number);
      if (number == SIGTERM || number == SIGHUP) job_.LetEnd();
    }
    int status = 0;
    while (!ended_ && ::waitpid(program_, &status, WNOHANG | WUNTRACED) == program_) {
      if (WIFSTOPPED(status)) {
        job_.FollowStop(WSTOPSIG(status));
      } else {
        wait_status_ = status;
        ended_ = true;
      }
    }
  }

  const pid_t program_;
  JobControl job_;
  const int signals_;
  AgentCluster& agents_;
  RunMetrics* const metrics_;
  bool agents_lost_ = false;
  bool ended_ = false;
  int wait_status_ = 0;
};

int Fail(const Status& status, int exit_status) {
  LogError("{}", status.message());
  return exit_status;
}

struct ProgramCommand {
  std::vector<std::string> words;
  bool in_job = false;  // Slurm chooses the nodes of its processes.
};

// Command for ranks started by srun.
Result<ProgramCommand> CommandOfSrun(const MpiProgram& app, const std::vector<std::string>& names,
                                     const std::vector<std::string>& program,
                                     Environment& environment) {
  if (!InsideSlurmJob(environment))
    return Status::Invalid(
        "--app-mpirun {}: srun starts ranks only in a Slurm job (salloc, sbatch), and only if {} "
        "is not off",
        app.mpirun.front(), settings::kBatch.name);
  SlurmJob job;
  if (!app.hosts.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(job, AskSlurm(environment));
  }
  ProgramCommand command{{}, app.hosts.empty()};
  CUSPAN_ASSIGN_OR_RETURN(
      command.words, SlurmRanksCommand(app, job.nodes, OwnNodeName(environment), names, program));
  StripForRanks(environment);
  return command;
}

// Command line of the program: the user's, or an mpirun followed by the user's. May change
// `environment` for mpirun.
Result<ProgramCommand> CommandOf(const RunOptions& options, Environment& environment) {
  if (options.mpi.ranks == 0) return ProgramCommand{options.command};
  MpiKind kind = MpiKind::kOpenMpi;
  MpiProgram app = options.mpi;
  app.in_job = BatchSystemAround(environment) != BatchSystem::kNone;
  if (options.cluster.secure.on && ChoosesHosts(app.mpirun))
    return Status::Refused(
        "--secure: --app-mpirun may start ranks on other hosts, and its starter may send them the "
        "secret of the run unencrypted: start all ranks on this host");
  // A missing mpirun is reported later, like any missing program.
  const bool there = FindCommand(app.mpirun.front(), environment.Get("PATH").value_or("")).ok();
  if (there && (!app.hosts.empty() || app.in_job || IsNamedSrun(app))) {
    const Result<MpiKind> found = FindMpiKind(app);
    if (!found.ok() && !app.hosts.empty()) return found.status();
    app.in_job = app.in_job && found.ok();
    if (found.ok()) kind = *found;
  }
  std::vector<std::string> names = {"LD_PRELOAD", "LD_LIBRARY_PATH", "CUSPAN_SOCKET",
                                    "CUSPAN_SECRET"};
  if (environment.Get(kCufileSettings)) names.emplace_back(kCufileSettings);
  for (std::string& name : SettingNames(environment)) names.push_back(std::move(name));
  if (kind == MpiKind::kOpenMpi) {
    std::vector<std::string> hosts;
    for (const HostRequest& host : app.hosts) hosts.push_back(host.host);
    KeepFullHostNames(hosts, environment);
  }
  if (kind == MpiKind::kSrun) return CommandOfSrun(app, names, options.command, environment);
  return ProgramCommand{MpiProgramCommand(app, kind, names, options.command)};
}

// Prints the plan of a run: the agents, by host, and the commands.
int PrintPlan(const ClusterOptions& cluster, const InstallPaths& paths, const RunKey& key,
              const std::vector<std::string>& command) {
  const Result<std::unique_ptr<AgentStarter>> made = AgentStarter::Make(cluster, paths, key);
  if (!made.ok()) return Fail(made.status(), kExitOwnFailure);
  const AgentStarter& starter = **made;
  for (const AgentPlan& agent : starter.plan().agents) {
    const std::string devices = agent.devices == kAllDevices ? "all its GPUs"
                                : agent.devices == 0
                                    ? "no GPU"
                                    : Format("at most {} of its GPUs", agent.devices);
    std::fputs(Format("host {}: {}\n", agent.host, devices).c_str(), stdout);
  }
  std::fputs(Format("agents: {}\n", QuoteForShell(starter.command())).c_str(), stdout);
  std::fputs(Format("program: {}\n", QuoteForShell(command)).c_str(), stdout);
  return 0;
}

}  // namespace

int Run(const RunOptions& options, const InheritedSignals& signals) {
  // Position in the queues of all hosts.
  const std::uint64_t started = RealTimeNow();
  Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) return Fail(paths.status(), kExitOwnFailure);
  if (const Status status = CheckClient(*paths); !status.ok()) return Fail(status, kExitOwnFailure);

  Result<RunKey> key = RunKey::Random();
  if (!key.ok()) return Fail(key.status(), kExitOwnFailure);

  Environment environment = Environment::OfThisProcess();
  StripOuterRun(environment);
  AddClient(environment, *paths, *key);
  if (options.strict) environment.Set(settings::kStrict.name, "on");
  if (options.statistics) environment.Set(settings::kStats.name, "on");
  if (options.mpi.devices_a_rank != 0)
    environment.Set(settings::kGpusPerRank.name, std::to_string(options.mpi.devices_a_rank));
  Result<ProgramCommand> command = CommandOf(options, environment);
  if (!command.ok()) return Fail(command.status(), kExitOwnFailure);
  const std::string search_path(environment.Get("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  if (const Result<std::string> starter = FindCommand(command->words.front(), search_path);
      !starter.ok())
    return Fail(starter.status(), ExitStatusOf(starter.status()));
  const Result<std::string> program = FindCommand(options.command.front(), search_path);
  if (const Status enters = program.ok() ? CheckEntered(*program) : program.status(); !enters.ok())
    return Fail(enters, ExitStatusOf(enters));
  if (const std::string warning = WarnOfOwnRights(*program); !warning.empty())
    LogWarn("{}", warning);
  if (const std::string warning = WarnOfTool(options.command, environment); !warning.empty())
    LogWarn("{}", warning);

  ClusterOptions cluster = options.cluster;
  cluster.program_in_job = command->in_job;
  if (options.dry_run) return PrintPlan(cluster, *paths, *key, command->words);
  // Checked before the run, since the file is written only at its end.
  if (!cluster.trace.empty())
    if (const Status may = CheckTraceFile(cluster.trace); !may.ok())
      return Fail(may, kExitOwnFailure);
  cluster.request.order = started;
  cluster.request.program = std::filesystem::path(options.command.front()).filename().string();
  // Opened before waiting for GPUs: an error is reported at once.
  std::unique_ptr<RunMetrics> metrics;
  if (options.metrics) {
    Result<std::unique_ptr<RunMetrics>> opened =
        RunMetrics::Open(*options.metrics, {key->Id(), cluster.request.program, started});
    if (opened.ok())
      metrics = std::move(*opened);
    else if (options.metrics_demanded)
      return Fail(opened.status(), kExitOwnFailure);
    else
      LogWarn("{}: {}; the run has no metrics", settings::kMetrics.name, opened.status().message());
  }
  Result<std::unique_ptr<AgentCluster>> agents =
      AgentCluster::Start(cluster, *paths, *key, signals);
  if (!agents.ok()) return Fail(agents.status(), kExitOwnFailure);
  // The file of a Unix socket must not remain.
  (*agents)->SetFarewell([&metrics] { metrics.reset(); });
  Result<RunReady> ready = (*agents)->WaitReady();
  if (!ready.ok()) return Fail(ready.status(), kExitOwnFailure);
  for (const std::string& note : ready->notes) LogWarn("{}", note);

  Result<ProgramProcess> app = ProgramProcess::Prepare(command->words, environment, signals);
  if (!app.ok()) return Fail(app.status(), kExitOwnFailure);
  Result<UniqueFd> signal_fd = ReceiveSignals();
  if (!signal_fd.ok()) return Fail(signal_fd.status(), kExitOwnFailure);
  if (const Status started = app->Start(); !started.ok())
    return Fail(started, ExitStatusOf(started));

  if (metrics) metrics->Begin(*ready);
  ProgramWatch watch(app->pid(), signal_fd->get(), **agents, metrics.get());
  const int wait_status = watch.WaitEnd();

  if (metrics && !watch.agents_lost()) metrics->End(**agents);
  Result<RunStatistics> statistics = (*agents)->End();
  if (!statistics.ok() && !watch.agents_lost()) {
    // The agents ended first, and the program because of it.
    LogError("{}; its devices were lost", (*agents)->ExplainEnd());
  } else if (options.statistics && statistics.ok()) {
    const std::string table = StatisticsTable(statistics->reports, ready->relay);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, table.data(), table.size());
  }
  // Other programs see the run's device files through the C library.
  if (statistics.ok() && statistics->reports.empty() && CallsKernelItself(*program))
    LogWarn(
        "no process of the run used a GPU. {} calls the kernel without the C library, so it cannot "
        "see the run's device files (/dev/nvidia0 and others): if it detects GPUs by these files, "
        "enable GPUs with its own options",
        *program);
  agents->reset();
  metrics.reset();
  EndLike(wait_status);
}

}  // namespace cuspan
