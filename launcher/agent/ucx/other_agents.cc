#include "launcher/agent/ucx/other_agents.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <sstream>
#include <utility>

#include "common/process_fd.h"
#include "common/settings.h"
#include "launcher/host/wait_status.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

// Time for agents to end by themselves, and after each signal.
constexpr std::chrono::milliseconds kEndLimit{1'000};
constexpr std::chrono::milliseconds kTerminateLimit{500};

// Time for further agents to end after the first failed start.
constexpr std::chrono::milliseconds kOtherEndsLimit{500};

// Settings of cuspan and UCX, passed to all hosts without the secrets.
std::vector<std::string> SettingsOf(const Environment& environment) {
  std::vector<std::string> settings;
  for (const std::string& entry : environment.entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool secret =
        name == RunKey::kVariable || name == "CUSPAN_SOCKET" || name == "CUSPAN_SECRET";
    if ((name.starts_with("CUSPAN_") && !secret) || name.starts_with("UCX_"))
      settings.push_back(entry);
  }
  return settings;
}

// Standard input for a child: `text`, then end of file.
Result<UniqueFd> AsInput(const std::string& text) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // Never blocks: the text fits in the pipe's buffer.
  if (::write(write_end.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return Status::Internal("the invitation cannot be written to a pipe: {}", std::strerror(errno));
  return read_end;
}

Result<pid_t> Spawn(const std::vector<std::string>& command, const UniqueFd& input,
                    const UniqueFd& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid > 0) return pid;
  // Resets signals: the child must not inherit ignored or blocked ones.
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(input.get(), STDIN_FILENO);
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
  ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  ::execvp(arguments[0], arguments.data());
  const std::string_view parts[] = {"cuspan: starting ", arguments[0],
                                    " failed: ", std::strerror(errno), "\n"};
  for (const std::string_view part : parts)
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  ::_exit(127);
}

}  // namespace

std::string Invitation::Text() const {
  std::string text = key.Text();
  for (const net::Address& place : places) text += " " + net::Text(place);
  return text + "\n";
}

Result<Invitation> Invitation::Read(std::istream& input) {
  std::string line;
  std::getline(input, line);
  std::istringstream words(line);
  std::string word;
  if (!(words >> word))
    return Status::Invalid(
        "standard input of this agent is empty: the remote shell must forward it");
  Invitation invitation;
  CUSPAN_ASSIGN_OR_RETURN(invitation.key, RunKey::Parse(word));
  while (words >> word) {
    CUSPAN_ASSIGN_OR_RETURN(const net::Address place, net::ParseAddress(word));
    invitation.places.push_back(place);
  }
  return invitation;
}

Result<OtherAgents> OtherAgents::Start(std::span<const AgentPlan> agents, const RemoteShell& shell,
                                       std::span<const net::Address> places,
                                       std::span<const std::string> options,
                                       const Environment& environment, const RunKey& key) {
  OtherAgents started;
  // On another host, a loopback address would mean that host.
  Invitation near{key, {}};
  Invitation far{key, {}};
  for (const net::Address& place : places)
    (net::IsLoopback(place) ? near : far).places.push_back(place);
  if (near.places.empty()) near.places = far.places;
  if (far.places.empty()) far.places = near.places;  // Works only for other names of this host.
  std::vector<UniqueFd> outputs;
  CUSPAN_ASSIGN_OR_RETURN(started.output_, HostsOutput::Start(agents.size(), outputs));
  const std::vector<std::string> settings = SettingsOf(environment);
  for (std::size_t i = 0; i < agents.size(); ++i) {
    Child child;
    child.host = agents[i].host;
    child.remote = child.host != kThisHost;
    std::vector<std::string> agent = {child.remote ? shell.agent : shell.own_agent,
                                      settings::kRank.option, std::to_string(i + 1),
                                      settings::kServe.option, ServeText(agents[i].devices)};
    agent.insert(agent.end(), options.begin(), options.end());
    std::vector<std::string> command = agent;
    if (child.remote) {
      agent.insert(agent.begin(), settings.begin(), settings.end());
      agent.insert(agent.begin(), "env");
      command = shell.command;
      command.insert(command.end(), {child.host, QuoteForShell(agent)});
    }
    CUSPAN_ASSIGN_OR_RETURN(const UniqueFd input, AsInput((child.remote ? far : near).Text()));
    CUSPAN_ASSIGN_OR_RETURN(child.pid, Spawn(command, input, outputs[i]));
    outputs[i].Reset();
    child.process = OpenProcess(child.pid);
    started.fds_.push_back(child.process.get());
    started.children_.push_back(std::move(child));
    if (started.fds_.back() < 0) return Status::Exhausted("pidfd_open: {}", std::strerror(errno));
  }
  return started;
}

OtherAgents::~OtherAgents() {
  const auto wait_all = [this](std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (Child& child : children_) {
      if (child.pid <= 0) continue;
      pollfd waited{child.process.get(), POLLIN, 0};
      if (::poll(&waited, 1, net::PollTimeout(end)) <= 0) continue;
      ::waitpid(child.pid, nullptr, WNOHANG);
      child.pid = -1;
    }
  };
  const auto kill_all = [this](int number) {
    for (const Child& child : children_)
      if (child.pid > 0) ::kill(child.pid, number);
  };
  // Remote shells may still be forwarding the last output.
  wait_all(kEndLimit);
  kill_all(SIGTERM);
  wait_all(kTerminateLimit);
  kill_all(SIGKILL);
  wait_all(kTerminateLimit);
}

std::string OtherAgents::ExplainEnd() {
  const auto has_ended = [](const Child& child, std::chrono::milliseconds limit) {
    pollfd waited{child.process.get(), POLLIN, 0};
    return child.pid > 0 && ::poll(&waited, 1, static_cast<int>(limit.count())) > 0;
  };
  if (std::none_of(children_.begin(), children_.end(),
                   [&](const Child& child) { return has_ended(child, {}); }))
    return "";
  // One deadline for all hosts: others may be about to fail too.
  const auto end = std::chrono::steady_clock::now() + kOtherEndsLimit;
  std::string causes;
  std::string consequences;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (!has_ended(child, std::chrono::milliseconds(net::PollTimeout(end)))) continue;
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    child.pid = -1;
    const std::string words = output_->LastWords(i);
    // This agent left the meeting because another one failed.
    std::string& text =
        words.ends_with("the other side closed the connection") ? consequences : causes;
    text += text.empty() ? "" : "; ";
    text += child.remote ? Format(
                               "the agent on host {} could not be started, or has ended: the "
                               "remote shell {}",
                               child.host, DescribeExit(status))
                         : Format("the agent {}", DescribeExit(status));
    if (!words.empty()) text += ": " + words;
  }
  return causes.empty() ? consequences : causes;
}

}  // namespace cuspan
