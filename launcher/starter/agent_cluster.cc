#include "launcher/starter/agent_cluster.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

#include "common/log.h"
#include "common/process_fd.h"
#include "common/process_state.h"
#include "launcher/host/wait_status.h"
#include "launcher/starter/agent_command.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// Time for a connected head agent to report the devices: drivers with many GPUs take seconds to
// start.
constexpr milliseconds kInventoryLimit{120'000};
// The same for later queries: a lost host is noticed sooner.
constexpr milliseconds kQueryLimit{60'000};
// Time to reach all hosts, start MPI there, and connect the head agent.
constexpr milliseconds kAgentsStartLimit{300'000};
// Delay before the user is notified of the reason for a slow start.
constexpr milliseconds kStartNotice{5'000};
// Time for a starter to end after all of its agents: an mpirun without space for its files hangs.
constexpr milliseconds kStarterEndLimit{3'000};
// Interval of checks for a starter without agents.
constexpr milliseconds kAgentsPoll{1'000};
// Limits for the end of the agents: after the end of the run, after the launcher closes its
// connection (kHangUpLimit), and after SIGTERM (kAgentsTerminateLimit).
constexpr milliseconds kAgentsEndLimit{5'000};
// The same if they collect and write a trace.
constexpr milliseconds kTraceLimit{70'000};
constexpr milliseconds kHangUpLimit{1'000};
constexpr milliseconds kAgentsTerminateLimit{2'000};
// Maximum number of starts, of some 50 ms each. Only as many other runs ending at the same time
// could remove Open MPI's folder this often.
constexpr int kMaxStarts = 8;
constexpr std::size_t kKeptBytes = 64 * 1024;

int MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

AgentCluster::AgentCluster(std::unique_ptr<AgentStarter> starter, RunKey key, bool traced,
                           const InheritedSignals& signals, Reception reception)
    : starter_(std::move(starter)),
      key_(key),
      traced_(traced),
      signals_(signals),
      reception_(std::move(reception)) {}

AgentCluster::~AgentCluster() { Stop(); }

Result<std::unique_ptr<AgentCluster>> AgentCluster::Start(const ClusterOptions& options,
                                                          const InstallPaths& paths,
                                                          const RunKey& key,
                                                          const InheritedSignals& signals) {
  SetLogRun(key.Id());
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(key.LauncherAddress()));
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentStarter> starter,
                          AgentStarter::Make(options, paths, key));
  CUSPAN_RETURN_IF_ERROR(starter->obstacle());
  std::unique_ptr<AgentCluster> cluster(new AgentCluster(
      std::move(starter), key, !options.trace.empty(), signals, std::move(reception)));
  CUSPAN_RETURN_IF_ERROR(cluster->Spawn());
  return cluster;
}

Status AgentCluster::Spawn() {
  ++starts_;
  gone_ = false;
  had_agents_ = false;
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
  for (const std::string& word : starter_->command())
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = starter_->environment().Pointers();
  const pid_t launcher = ::getpid();

  pid_ = ::fork();
  if (pid_ < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid_ == 0) {
    // A session of its own: signals and the hang-up of the terminal are for the program.
    ::setsid();
    // If the launcher ends in any way, the agents end too; mpirun ends its job on SIGTERM.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != launcher) ::_exit(kExitOwnFailure);
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(output_write.get(), STDOUT_FILENO);
    ::dup2(output_write.get(), STDERR_FILENO);
    // Inherited descriptors belong to the program: a pipe left open here would block its readers.
    ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    signals_.Restore();
    // If the launcher was killed, the agents' output has no reader, but they must end in good
    // order. mpirun would die of SIGPIPE and leave its files. Open MPI restores the default for its
    // children.
    ::signal(SIGPIPE, SIG_IGN);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    const std::string_view parts[] = {"cuspan: starting ", arguments[0], " failed\n"};
    for (const std::string_view part : parts)
      if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
    ::_exit(kExitNotFound);
  }
  starter_->Started(pid_);
  process_ = OpenProcess(pid_);
  if (!process_.valid()) return Status::Internal("pidfd_open: {}", std::strerror(errno));
  return Status::Ok();
}

Result<RunReady> AgentCluster::WaitReady() {
  CUSPAN_ASSIGN_OR_RETURN(EndingSignals signals, EndingSignals::Block());
  auto deadline = std::chrono::steady_clock::now() + kAgentsStartLimit;
  std::optional notice(std::chrono::steady_clock::now() + kStartNotice);
  for (;;) {
    if (head_) {
      Result<std::optional<ControlSocket::Message>> message = head_->TryReceive();
      if (!message.ok()) {
        // The connection ended before the process; its output has the reason.
        WaitGone(kAgentsTerminateLimit);
        return Status::Unavailable("{}", ExplainEnd());
      }
      if (message->has_value()) {
        const Frame& frame = (*message)->frame;
        MeetHead();
        if (frame.op() == Op::kRunWaiting) {
          PassOnKept();
          CUSPAN_ASSIGN_OR_RETURN(const RunWaiting waiting, ParseMessage<RunWaiting>(frame));
          LogWarn("waiting for {}", waiting.text);
          waits_ = true;
          continue;
        }
        return ReceiveReady(frame);
      }
    }
    pollfd waited[4] = {{head_ ? head_->fd() : reception_.fd(), POLLIN, 0},
                        {output_.get(), POLLIN, 0},
                        {process_.get(), POLLIN, 0},
                        {signals.fd(), POLLIN, 0}};
    if (!head_ && (starter_->IsEnding(kept_) || AgentsHaveEnded()) && !WaitGone(kStarterEndLimit))
      return Status::Unavailable("{}", ExplainEnd());
    const int limit =
        waits_ ? -1 : MillisecondsUntil(notice ? std::min(*notice, deadline) : deadline);
    const int turn = head_ || limit == 0 ? limit : std::min<int>(limit, kAgentsPoll.count());
    if (limit == 0 || ::poll(waited, 4, turn) == 0) {
      if (turn != limit) continue;
      if (notice) {
        notice.reset();
        ReportWaiting();
        continue;
      }
      if (!head_)
        return Status::Unavailable("the agents did not start within {} s{}",
                                   kAgentsStartLimit.count() / 1000,
                                   kept_.empty() ? "" : ": " + FirstLine(LogText(kept_)));
      PassOnKept();
      return Status::Unavailable("the head agent found no devices within {} s",
                                 kInventoryLimit.count() / 1000);
    }
    if (waited[3].revents != 0) HandleSignal(signals);
    if (waited[1].revents != 0) ReadOutput();
    if (waited[0].revents != 0 && !head_) {
      CUSPAN_RETURN_IF_ERROR(Admit());
      if (head_) {
        deadline = std::chrono::steady_clock::now() + kInventoryLimit;
        notice = std::chrono::steady_clock::now() + kStartNotice;
        continue;
      }
    }
    // The last message of the head agent is read first.
    if ((head_ && waited[0].revents != 0) || waited[2].revents == 0) continue;
    if (head_ || !ShouldRetryStart()) return Status::Unavailable("{}", ExplainEnd());
    LogInfo("another run removed mpirun's temporary directory; starting the agents again");
    CUSPAN_RETURN_IF_ERROR(Spawn());
  }
}

bool AgentCluster::AgentsHaveEnded() {
  if (!starter_->plan().mpi()) return false;  // The starter itself is an agent.
  const bool living = HasLivingChild(pid_);
  had_agents_ = had_agents_ || living;
  return had_agents_ && !living;
}

void AgentCluster::ReportWaiting() {
  if (reported_waiting_) return;
  if (head_) return LogWarn("waiting for the list of GPUs of {}", HostsText(starter_->plan()));
  const std::vector<std::string_view> said = OutputLines(kept_);
  LogWarn("waiting for {}{}", starter_->WaitsFor(),
          said.empty() ? "" : Format("; its last output: {}", LogText(said.back())));
}

Result<RunReady> AgentCluster::ReceiveReady(const Frame& frame) {
  if (frame.op() != Op::kRefused) {
    SetReady();
    return ParseMessage<RunReady>(frame);
  }
  PassOnKept();
  const Result<Refused> refused = ParseMessage<Refused>(frame);
  return refused.ok() ? Status::Refused("{}", refused->reason) : refused.status();
}

void AgentCluster::HandleSignal(EndingSignals& signals) {
  const int number = signals.Read();
  if (number == 0) return;
  // No program is running yet: ends the agents, thereby leaves the queues, and exits.
  Stop();
  if (farewell_) farewell_();
  EndLike(number);
}

Result<RunReady> AgentCluster::QueryAgain(milliseconds pause) { return Query(-1, pause); }

Result<RunReady> AgentCluster::QueryWhenReadable(int fd) { return Query(fd, milliseconds(-1)); }

Result<RunReady> AgentCluster::Query(int fd, milliseconds pause) {
  if (!query_signals_) {
    CUSPAN_ASSIGN_OR_RETURN(EndingSignals taken, EndingSignals::Block());
    query_signals_.emplace(std::move(taken));
  }
  EndingSignals& signals = *query_signals_;
  auto deadline = std::chrono::steady_clock::now() + pause;
  bool timed = pause.count() >= 0;
  bool wanted = false;
  bool asked = false;
  for (;;) {
    Result<std::optional<ControlSocket::Message>> message = head_->TryReceive();
    if (!message.ok()) return Status::Unavailable("{}", ExplainEnd());
    if (message->has_value()) return ReceiveReady((*message)->frame);
    if (wanted || (timed && MillisecondsUntil(deadline) == 0)) {
      if (asked)
        return Status::Unavailable("the head agent did not answer within {} s",
                                   kQueryLimit.count() / 1000);
      if (!head_->Send(cuspan::QueryAgain{}).ok()) return Status::Unavailable("{}", ExplainEnd());
      asked = timed = true;
      wanted = false;
      deadline = std::chrono::steady_clock::now() + kQueryLimit;
    }
    pollfd waited[5] = {{head_->fd(), POLLIN, 0},
                        {output_.get(), POLLIN, 0},
                        {process_.get(), POLLIN, 0},
                        {signals.fd(), POLLIN, 0},
                        {asked ? -1 : fd, POLLIN, 0}};
    ::poll(waited, 5, timed ? MillisecondsUntil(deadline) : -1);
    if (waited[3].revents != 0) HandleSignal(signals);
    wanted = waited[4].revents != 0;
    if (waited[1].revents != 0) ReadOutput();
    // The last message of the head agent is read first.
    if (waited[0].revents == 0 && waited[2].revents != 0)
      return Status::Unavailable("{}", ExplainEnd());
  }
}

Status AgentCluster::Admit() {
  std::optional<Reception::Arrival> arrival = reception_.Next();
  if (!arrival) return Status::Ok();
  const Result<HeadJoin> join = ParseMessage<HeadJoin>(arrival->first.frame);
  if (!join.ok() || !SameSecret(join->secret, key_.secret)) {
    LogWarn("another process tried to connect as the head agent of this run");
    Reception::Refuse(std::move(*arrival), "not the head agent of this run");
    return Status::Ok();
  }
  head_ = std::move(arrival->socket);
  return head_->Send(LauncherHello{key_.secret, kOpTableHash});
}

void AgentCluster::MeetHead() {
  ucred agent{};
  socklen_t bytes = sizeof agent;
  if (::getsockopt(head_->fd(), SOL_SOCKET, SO_PEERCRED, &agent, &bytes) == 0)
    starter_->SetHeadPid(agent.pid);
}

void AgentCluster::SetReady() {
  ready_ = true;
  PassOnKept();
}

void AgentCluster::PassOnKept() {
  std::istringstream lines(std::exchange(kept_, {}));
  if (LogEnabled(LogLevel::kInfo)) return;  // Already passed on.
  for (std::string line; std::getline(lines, line);)
    if (starter_->IsForUser(LogText(line), true)) LogPassedOn(line + "\n");
}

bool AgentCluster::ShouldRetryStart() {
  if (starts_ >= kMaxStarts || !WaitGone(kAgentsTerminateLimit)) return false;
  if (output_.valid()) ReadOutput();
  return starter_->MayRetryStart(LogText(kept_ + partial_line_));
}

void AgentCluster::ReadOutput() {
  char chunk[4096];
  for (;;) {
    const ssize_t got = ::read(output_.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) {
      output_.Reset();  // From now on poll ignores it.
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
  const bool for_user = starter_->IsForUser(LogText(line), ready_);
  if (for_user || LogEnabled(LogLevel::kInfo)) LogPassedOn(line);
  reported_waiting_ = reported_waiting_ || IsWaitingReport(LogText(line));
  if (for_user) return;
  kept_ += line;
  if (kept_.size() > kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
}

std::string AgentCluster::ExplainEnd() {
  // After their end, their output is complete and their status known.
  WaitGone(kAgentsTerminateLimit);
  if (output_.valid()) ReadOutput();
  return starter_->ExplainEnd(LogText(kept_ + partial_line_),
                              gone_ ? std::optional(wait_status_) : std::nullopt);
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

Status AgentCluster::AskMetrics() {
  if (!head_) return Status::Unavailable("the agents did not start");
  answers_.clear();
  return head_->Send(MetricsAsk{++question_});
}

Result<std::optional<std::vector<AgentMetrics>>> AgentCluster::ReceiveMetrics() {
  for (;;) {
    CUSPAN_ASSIGN_OR_RETURN(const std::optional<ControlSocket::Message> message,
                            head_->TryReceive());
    if (!message) return std::optional<std::vector<AgentMetrics>>();
    if (message->frame.op() == Op::kMetricsEnd) {
      CUSPAN_ASSIGN_OR_RETURN(const MetricsEnd end, ParseMessage<MetricsEnd>(message->frame));
      if (end.number == question_) return std::optional(std::exchange(answers_, {}));
      continue;
    }
    CUSPAN_ASSIGN_OR_RETURN(MetricsPart part, ParseMessage<MetricsPart>(message->frame));
    if (part.number != question_) continue;
    const auto known =
        std::find_if(answers_.begin(), answers_.end(),
                     [&](const AgentMetrics& other) { return other.rank == part.agent.rank; });
    if (known == answers_.end())
      answers_.push_back(std::move(part.agent));
    else
      std::move(part.agent.devices.begin(), part.agent.devices.end(),
                std::back_inserter(known->devices));
  }
}

Result<RunStatistics> AgentCluster::End() {
  if (!head_) return Status::Unavailable("the agents did not start");
  CUSPAN_RETURN_IF_ERROR(head_->Send(RunEnd{}));
  Result<RunStatistics> statistics = ReceiveStatistics();
  WaitGone(traced_ ? kTraceLimit : kAgentsEndLimit);
  return statistics;
}

Result<RunStatistics> AgentCluster::ReceiveStatistics() {
  const auto deadline = std::chrono::steady_clock::now() + kAgentsEndLimit;
  RunStatistics all;
  for (;;) {
    CUSPAN_ASSIGN_OR_RETURN(
        const ControlSocket::Message message,
        head_->Receive(milliseconds(MillisecondsUntil(deadline)), "its statistics"));
    // Late answers to earlier requests for metrics.
    if (message.frame.op() == Op::kMetricsPart || message.frame.op() == Op::kMetricsEnd) continue;
    CUSPAN_ASSIGN_OR_RETURN(RunStatistics piece, ParseMessage<RunStatistics>(message.frame));
    if (piece.reports.empty()) return all;
    std::move(piece.reports.begin(), piece.reports.end(), std::back_inserter(all.reports));
  }
}

void AgentCluster::Stop() {
  if (pid_ <= 0) return;
  // The end of this connection ends the run in the head agent.
  head_.reset();
  if (!gone_ && !WaitGone(kHangUpLimit)) {
    ::kill(pid_, SIGTERM);
    if (!WaitGone(kAgentsTerminateLimit)) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
      WaitGone(kAgentsTerminateLimit);
    }
  }
  if (output_.valid()) ReadOutput();
  // An mpirun signalled twice leaves as many files as a killed one.
  if (gone_) starter_->RemoveTemporaryFiles();
}

}  // namespace cuspan
