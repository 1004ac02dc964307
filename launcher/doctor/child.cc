#include "launcher/doctor/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "common/process_fd.h"
#include "launcher/host/wait_status.h"
#include "launcher/text/words.h"
#include "protocol/network/sockets.h"

namespace cuspan::doctor {
namespace {

// Facts of a host take some kilobytes.
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::chrono::milliseconds kTerminateLimit{500};
// Limit for a child to read input larger than a pipe.
constexpr std::chrono::duration<int, std::milli> kSendLimit{2'000};

struct Pipe {
  UniqueFd read_end, write_end;
};
Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

[[noreturn]] void Become(const std::vector<char*>& arguments, const std::vector<char*>& variables,
                         const std::array<int, 3>& streams) {
  // Resets signals: this process's ignored and blocked ones do not apply to the child.
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  ::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  ::execvpe(arguments[0], arguments.data(), variables.data());
  const std::string_view parts[] = {arguments[0], ": ", std::strerror(errno), "\n"};
  for (const std::string_view part : parts)
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  ::_exit(127);
}

// Returns false at the end of the pipe.
bool ReadSome(UniqueFd& pipe, std::string& text) {
  std::array<char, 16384> part{};
  const ssize_t got = ::read(pipe.get(), part.data(), part.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    pipe.Reset();
    return false;
  }
  // Output beyond the limit is read and discarded, so that the child does not block.
  text.append(part.data(), std::min(static_cast<std::size_t>(got),
                                    kMaxBytes - std::min(kMaxBytes, text.size())));
  return true;
}

}  // namespace

Result<Child> Child::Start(const std::vector<std::string>& command,
                           const Environment& environment) {
  CUSPAN_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  CUSPAN_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  CUSPAN_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = environment.Pointers();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid == 0) {
    if (::getppid() != parent) ::_exit(1);
    Become(arguments, variables,
           {input.read_end.get(), output.write_end.get(), errors.write_end.get()});
  }
  for (const UniqueFd* const end : {&input.write_end, &output.read_end, &errors.read_end})
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  Child child(pid, OpenProcess(pid), std::move(input.write_end), std::move(output.read_end),
              std::move(errors.read_end));
  if (!child.process_.valid()) return Status::Exhausted("pidfd_open: {}", std::strerror(errno));
  return child;
}

Child::Child(pid_t pid, UniqueFd process, UniqueFd input, UniqueFd output, UniqueFd errors)
    : pid_(pid),
      process_(std::move(process)),
      input_(std::move(input)),
      output_pipe_(std::move(output)),
      errors_pipe_(std::move(errors)) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      process_(std::move(other.process_)),
      input_(std::move(other.input_)),
      output_pipe_(std::move(other.output_pipe_)),
      errors_pipe_(std::move(other.errors_pipe_)),
      wait_status_(other.wait_status_),
      late_(other.late_),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)) {}

Child::~Child() {
  if (pid_ <= 0) return;
  EndInput();
  // Until waitpid for its leader, the session's number cannot be reused.
  ::kill(-pid_, SIGTERM);
  if (wait_status_) return;
  const auto end = std::chrono::steady_clock::now() + kTerminateLimit;
  pollfd waited{process_.get(), POLLIN, 0};
  if (process_.valid()) ::poll(&waited, 1, net::PollTimeout(end));
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Child::Send(const std::string& line) {
  const std::string whole = line + "\n";
  for (std::string_view rest = whole; input_.valid() && !rest.empty();) {
    const ssize_t written = ::write(input_.get(), rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    pollfd waited{input_.get(), POLLOUT, 0};
    if (errno != EAGAIN || ::poll(&waited, 1, kSendLimit.count()) <= 0) EndInput();
  }
}

bool Child::Read(Deadline deadline) {
  pollfd waited[3] = {{output_pipe_.get(), POLLIN, 0},
                      {errors_pipe_.get(), POLLIN, 0},
                      {wait_status_ ? -1 : process_.get(), POLLIN, 0}};
  const int ready = ::poll(waited, 3, net::PollTimeout(deadline));
  if (ready < 0 && errno == EINTR) return true;
  if (ready <= 0) {
    late_ = true;
    return false;
  }
  if (waited[0].revents != 0) ReadSome(output_pipe_, output_);
  if (waited[1].revents != 0) ReadSome(errors_pipe_, errors_);
  if (waited[2].revents == 0) return true;
  // Its last output is still in the pipes; other processes of its session may keep them open.
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
  for (UniqueFd* const pipe : {&output_pipe_, &errors_pipe_}) {
    std::string& text = pipe == &output_pipe_ ? output_ : errors_;
    for (std::size_t before = ~std::size_t{0}; pipe->valid() && before != text.size();) {
      before = text.size();
      ReadSome(*pipe, text);
    }
    pipe->Reset();
  }
  ::kill(-pid_, SIGTERM);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  wait_status_ = status;
  pid_ = -1;
  return true;
}

Result<std::string> Child::ReadLine(Deadline deadline) {
  for (;;) {
    if (const std::size_t end = output_.find('\n'); end != std::string::npos) {
      std::string line = output_.substr(0, end);
      output_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (wait_status_) return Status::Unavailable("it has ended");
    if (!output_pipe_.valid()) {
      // It has closed its output; its exit status has the reason.
      if (!Wait(deadline)) return Status::Unavailable("it writes nothing more");
      continue;
    }
    if (!Read(deadline)) return Status::Unavailable("it does not answer");
  }
}

std::optional<int> Child::Wait(Deadline deadline) {
  while (!wait_status_)
    if (!Read(deadline)) return std::nullopt;
  return wait_status_;
}

std::string FailureOf(const std::vector<std::string>& command, const Environment& environment,
                      std::chrono::milliseconds limit) {
  Result<Child> child = Child::Start(command, environment);
  if (!child.ok()) return child.status().message();
  child->EndInput();
  const std::optional<int> status = child->Wait(std::chrono::steady_clock::now() + limit);
  if (!status) return Format("{} did not end within {} s", command[0], limit.count() / 1000);
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return "";
  const std::vector<std::string_view> lines = OutputLines(child->errors());
  return lines.empty() ? Format("{} {}", command[0], DescribeExit(*status))
                       : std::string(lines.front());
}

}  // namespace cuspan::doctor
