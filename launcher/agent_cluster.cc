#include "launcher/agent_cluster.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/log.h"
#include "common/settings.h"
#include "launcher/ending_signals.h"
#include "launcher/mpirun_command.h"
#include "launcher/process_fd.h"
#include "launcher/wait_status.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// Long enough for a home agent that has just connected to say what it found:
// drivers with many GPUs take seconds to start.
constexpr milliseconds kInventoryLimit{120'000};
// For all hosts to be reached, MPI to start there, and the home agent to connect.
constexpr milliseconds kStartLimit{300'000};
// For an mpirun whose processes have all ended to end, too: with no room for its files it does not.
constexpr milliseconds kMpirunEndLimit{3'000};
// How long agents may take to end in good order, when the launcher hangs up, and after SIGTERM.
constexpr milliseconds kEndLimit{5'000};
// The same where they gather and write a trace.
constexpr milliseconds kTraceLimit{70'000};
constexpr milliseconds kHangUpLimit{1'000};
constexpr milliseconds kTerminateLimit{2'000};
// Each lasts some 50 ms. To lose the folder this often takes as many other runs that end just then.
constexpr int kMostStarts = 8;
constexpr std::size_t kKeptBytes = 64 * 1024;

int MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t start = text.rfind('\n');
  return std::string(start == std::string_view::npos ? text : text.substr(start + 1));
}

// How the home agent starts the others, where no mpirun does.
std::vector<std::string> OtherAgentsOptions(const Plan& plan, const AgentCommand& agent,
                                            const ClusterOptions& options,
                                            const Environment& environment) {
  // The agents have no terminal, so a question of ssh could not be answered.
  std::string shell = "ssh -oBatchMode=yes -oConnectTimeout=10";
  if (!options.remote_shell.empty())
    shell = options.remote_shell;
  else if (const auto chosen = environment.Get("OMPI_MCA_plm_rsh_agent"))
    shell = chosen->substr(0, chosen->find(':'));  // The first of those that Open MPI may take.
  return {"--others",       AgentsText(std::span(plan.agents).subspan(1)),
          "--remote-agent", agent.remote_path,
          "--remote-shell", shell};
}

}  // namespace

std::string OwnHostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

AgentCluster::AgentCluster(AgentStart start, RunKey key, bool traced,
                           const InheritedSignals& signals, Reception reception)
    : start_(std::move(start)),
      key_(key),
      traced_(traced),
      signals_(signals),
      reception_(std::move(reception)) {}

AgentCluster::~AgentCluster() { Stop(); }

Result<AgentStart> PrepareAgents(const ClusterOptions& options, const InstallPaths& paths,
                                 const RunKey& key) {
  AgentStart start{MakePlan(options.hosts, options.same_node, OwnHostName(), options.app_hosts),
                   {},
                   Environment::OfThisProcess()};
  start.plan.lanes = options.lanes;
  start.plan.relay = options.relay;
  Environment& environment = start.environment;
  StripOuterRun(environment);
  environment.Set(RunKey::kVariable, key.Text());
  environment.Set(settings::kDevice.name, options.device);
  environment.Set(settings::kSameNode.name,
                  options.same_node == SameNode::kNever ? "never" : "auto");
  environment.Set(settings::kLanes.name, std::to_string(options.lanes));
  const auto set_unless_chosen = [&environment](const Setting& setting, std::uint32_t value) {
    if (!environment.Get(setting.name)) environment.Set(setting.name, std::to_string(value));
  };
  if (options.lanes > 1) {
    set_unless_chosen(settings::kStagingBuffers, StagingBuffersFor(options.lanes));
    set_unless_chosen(settings::kSendsInFlight, SendsInFlightFor(options.lanes));
  }

  AgentCommand agent{paths.agent, paths.agent, {}};
  if (!options.remote_prefix.empty())
    agent.remote_path = options.remote_prefix + "/bin/cuspan-agent";
  agent.home_options = GpuWishOptions(options.wish);
  // Agents may have another folder.
  if (const auto log = environment.Get(settings::kLeaseLog.name);
      log && *log != settings::kLeaseLog.default_value)
    environment.Set(settings::kLeaseLog.name, std::filesystem::absolute(*log).string());
  if (!options.trace.empty())
    agent.home_options.insert(agent.home_options.end(), {"--trace", options.trace});

  if (!start.plan.mpi()) {
    start.command = {paths.agent};
    if (start.plan.relayed()) {
      const std::vector<std::string> others =
          OtherAgentsOptions(start.plan, agent, options, environment);
      start.command.insert(start.command.end(), others.begin(), others.end());
    } else {
      start.command.push_back("--alone");
    }
    const std::vector<std::string> planned = AgentPlanOptions(start.plan, 0);
    start.command.insert(start.command.end(), planned.begin(), planned.end());
    start.command.insert(start.command.end(), agent.home_options.begin(), agent.home_options.end());
    return start;
  }
  if (InsideMpiJob(environment)) StripMpi(environment);
  if (!options.remote_shell.empty())
    environment.Set("OMPI_MCA_plm_rsh_agent", options.remote_shell);
  CUSPAN_RETURN_IF_ERROR(CheckReach(environment, start.plan, options.mpirun_arguments));
  AddMpirunSettings(environment, start.plan, options.mpirun_arguments, ::geteuid() == 0);
  start.command =
      MpirunCommand(start.plan, agent, options.mpirun_arguments, SettingNames(environment));
  start.command.front() = options.mpirun;
  if (const Result<std::string> found =
          FindCommand(options.mpirun, environment.Get("PATH").value_or(""));
      !found.ok())
    return Status::NotFound("{}; install Open MPI, or set MPIRUN to its mpirun",
                            found.status().message());
  return start;
}

Result<std::unique_ptr<AgentCluster>> AgentCluster::Start(const ClusterOptions& options,
                                                          const InstallPaths& paths,
                                                          const RunKey& key,
                                                          const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(key.LauncherAddress()));
  CUSPAN_ASSIGN_OR_RETURN(AgentStart start, PrepareAgents(options, paths, key));
  std::unique_ptr<AgentCluster> cluster(new AgentCluster(
      std::move(start), key, !options.trace.empty(), signals, std::move(reception)));
  CUSPAN_RETURN_IF_ERROR(cluster->Spawn());
  return cluster;
}

Status AgentCluster::Spawn() {
  ++starts_;
  gone_ = false;
  partial_line_.clear();
  kept_.clear();
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  output_.Reset(output[0]);
  UniqueFd output_write(output[1]);
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return Status::Internal("/dev/null: {}", std::strerror(errno));
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);

  std::vector<char*> arguments;
  for (const std::string& word : start_.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = start_.environment.Pointers();
  const pid_t launcher = ::getpid();

  pid_ = ::fork();
  if (pid_ < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid_ == 0) {
    // A session of its own: the terminal's signals and its hang-up are the app's.
    ::setsid();
    // However the launcher ends, the agents end too; mpirun ends its job on SIGTERM.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != launcher) ::_exit(kExitOwnFailure);
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(output_write.get(), STDOUT_FILENO);
    ::dup2(output_write.get(), STDERR_FILENO);
    // What the launcher inherited belongs to the app: an open pipe here would keep its readers
    // waiting.
    ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    signals_.Restore();
    ::execvpe(arguments[0], arguments.data(), variables.data());
    const std::string_view parts[] = {"cuspan: starting ", arguments[0], " failed\n"};
    for (const std::string_view part : parts)
      if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
    ::_exit(kExitNotFound);
  }
  if (start_.plan.mpi())
    mpirun_folder_ = MpirunFolder(start_.environment, OwnHostName(), ::geteuid(), pid_);
  process_ = OpenProcess(pid_);
  if (!process_.valid()) return Status::Internal("pidfd_open: {}", std::strerror(errno));
  return Status::Ok();
}

Result<RunReady> AgentCluster::WaitReady() {
  CUSPAN_ASSIGN_OR_RETURN(EndingSignals signals, EndingSignals::Take());
  auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  for (;;) {
    if (home_) {
      Result<std::optional<ControlSocket::Message>> message = home_->TryReceive();
      if (!message.ok()) {
        // The connection ended first: its process tells why.
        WaitGone(kTerminateLimit);
        return Status::Unavailable("{}", ExplainEnd());
      }
      if (message->has_value()) {
        const Frame& frame = (*message)->frame;
        FindSharedMemory();
        if (frame.op() == Op::kRunWaiting) {
          CUSPAN_ASSIGN_OR_RETURN(const RunWaiting waiting, ParseMessage<RunWaiting>(frame));
          LogWarn("waiting for {}", waiting.text);
          waits_ = true;
          continue;
        }
        if (frame.op() != Op::kRefused) return ParseMessage<RunReady>(frame);
        const Result<Refused> refused = ParseMessage<Refused>(frame);
        return refused.ok() ? Status::Refused("{}", refused->reason) : refused.status();
      }
    }
    pollfd waited[4] = {{home_ ? home_->fd() : reception_.fd(), POLLIN, 0},
                        {output_.get(), POLLIN, 0},
                        {process_.get(), POLLIN, 0},
                        {signals.fd(), POLLIN, 0}};
    if (start_.plan.mpi() && !home_ && JobHasEnded(kept_) && !WaitGone(kMpirunEndLimit))
      return Status::Unavailable("{}", ExplainEnd());
    const int limit = waits_ ? -1 : MillisecondsUntil(deadline);
    if (limit == 0 || ::poll(waited, 4, limit) == 0)
      return home_ ? Status::Unavailable("the home agent found no devices within {} s",
                                         kInventoryLimit.count() / 1000)
                   : Status::Unavailable("the agents did not start within {} s{}",
                                         kStartLimit.count() / 1000,
                                         kept_.empty() ? "" : ": " + FirstLine(kept_));
    if (waited[3].revents != 0) {
      if (const int number = signals.Read(); number != 0) {
        // The run has used nothing yet: it gives back its place in the queues, and all is over.
        Stop();
        EndLike(number);
      }
    }
    if (waited[1].revents != 0) ReadOutput();
    if (waited[0].revents != 0 && !home_) {
      CUSPAN_RETURN_IF_ERROR(Admit());
      if (home_) {
        deadline = std::chrono::steady_clock::now() + kInventoryLimit;
        continue;
      }
    }
    // What the home agent said last comes first.
    if ((home_ && waited[0].revents != 0) || waited[2].revents == 0) continue;
    if (home_ || !ShouldStartAgain()) return Status::Unavailable("{}", ExplainEnd());
    LogInfo("another run removed mpirun's temporary directory; starting the agents again");
    CUSPAN_RETURN_IF_ERROR(Spawn());
  }
}

Status AgentCluster::Admit() {
  std::optional<Reception::Arrival> arrival = reception_.Next();
  if (!arrival) return Status::Ok();
  const Result<HomeJoin> join = ParseMessage<HomeJoin>(arrival->first.frame);
  if (!join.ok() || !SameSecret(join->secret, key_.secret)) {
    LogWarn("a process that is not the home agent of this run tried to connect as it");
    Reception::Refuse(std::move(*arrival), "not the home agent of this run");
    return Status::Ok();
  }
  home_ = std::move(arrival->socket);
  return home_->Send(LauncherHello{key_.secret, kOpTableHash});
}

bool AgentCluster::ShouldStartAgain() {
  if (!start_.plan.mpi() || starts_ >= kMostStarts || !WaitGone(kTerminateLimit)) return false;
  if (output_.valid()) ReadOutput();
  return LostItsFolder(kept_ + partial_line_);
}

void AgentCluster::ReadOutput() {
  char chunk[4096];
  for (;;) {
    const ssize_t got = ::read(output_.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) {
      output_.Reset();  // poll ignores it from now on.
      return;
    }
    if (got < 0) return;
    for (const char c : std::string_view(chunk, static_cast<std::size_t>(got))) {
      partial_line_ += c;
      if (c != '\n') continue;
      PassOn(partial_line_);
      partial_line_.clear();
    }
  }
}

void AgentCluster::PassOn(const std::string& line) {
  // Without mpirun all that comes is our own, or of a library below a proxy.
  const bool ours = !start_.plan.mpi() || line.starts_with("cuspan");
  if (ours || LogEnabled(LogLevel::kInfo)) LogPassedOn(line);
  if (ours) return;
  kept_ += line;
  if (kept_.size() > kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
}

std::string AgentCluster::ExplainEnd() {
  // What they wrote is complete, and their status known, when they are gone.
  WaitGone(kTerminateLimit);
  if (output_.valid()) ReadOutput();
  if (start_.plan.mpi() && gone_ && WIFSIGNALED(wait_status_))
    return Format("mpirun {}", DescribeExit(wait_status_));
  if (start_.plan.mpi()) return ExplainMpirun(kept_ + partial_line_, start_.plan);
  const std::string last = LastLine(partial_line_);
  return Format("the agent on this host {}{}{}", DescribeExit(wait_status_),
                last.empty() ? "" : ": ", last);
}

bool AgentCluster::WaitGone(milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!gone_) {
    if (::waitpid(pid_, &wait_status_, WNOHANG) == pid_) {
      gone_ = true;
      break;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    // A full pipe must not keep the agents from ending.
    pollfd waited[2] = {{process_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    ::poll(waited, 2, static_cast<int>(left.count()));
    if (waited[1].revents != 0) ReadOutput();
  }
  return true;
}

Result<RunStatistics> AgentCluster::End() {
  if (!home_) return Status::Unavailable("the agents did not start");
  CUSPAN_RETURN_IF_ERROR(home_->Send(RunEnd{}));
  Result<RunStatistics> statistics = home_->Expect<RunStatistics>(kEndLimit);
  WaitGone(traced_ ? kTraceLimit : kEndLimit);
  return statistics;
}

void AgentCluster::Stop() {
  if (pid_ <= 0) return;
  // The home agent takes the end of this connection as the end of the run.
  home_.reset();
  if (!gone_ && !WaitGone(kHangUpLimit)) {
    ::kill(pid_, SIGTERM);
    if (!WaitGone(kTerminateLimit)) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
      WaitGone(kTerminateLimit);
    }
  }
  if (output_.valid()) ReadOutput();
  if (gone_ && WIFSIGNALED(wait_status_)) RemoveTemporaryFiles();
}

void AgentCluster::FindSharedMemory() {
  ucred agent{};
  socklen_t bytes = sizeof agent;
  if (!start_.plan.mpi() || ::getsockopt(home_->fd(), SOL_SOCKET, SO_PEERCRED, &agent, &bytes) != 0)
    return;
  // Each agent and lane of this host has one, and maps those of all.
  std::ifstream maps(Format("/proc/{}/maps", agent.pid));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t name = line.find("/dev/shm/vader_segment.");
    if (name == std::string::npos) continue;
    const std::string file = line.substr(name);
    if (std::find(shared_memory_.begin(), shared_memory_.end(), file) == shared_memory_.end())
      shared_memory_.push_back(file);
  }
}

void AgentCluster::RemoveTemporaryFiles() {
  for (const std::string& file : shared_memory_) ::unlink(file.c_str());
  if (mpirun_folder_.empty()) return;
  const std::filesystem::path folder(mpirun_folder_);
  // In /tmp anybody may have put something under that name.
  struct stat parent {};
  if (::lstat(folder.parent_path().c_str(), &parent) != 0 || !S_ISDIR(parent.st_mode) ||
      parent.st_uid != ::geteuid())
    return;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  // Others of this user's may lie there.
  ::rmdir(folder.parent_path().c_str());
}

}  // namespace cuspan
