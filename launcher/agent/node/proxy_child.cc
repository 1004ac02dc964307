#include "launcher/agent/node/proxy_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "common/process_fd.h"

namespace cuspan {
namespace {

// Descriptor of a proxy's socket.
constexpr int kProxySocket = 3;
// Descriptor holding its GPU's lock, otherwise unused by the proxy.
constexpr int kProxyLease = 4;

}  // namespace

Result<ProxyChild> SpawnProxy(const std::string& executable, const Environment& environment,
                              int lease, int niceness) {
  if (::access(executable.c_str(), X_OK) != 0)
    return Status::NotFound("{}: {}: build or install cuspan again", executable,
                            std::strerror(errno));
  CUSPAN_ASSIGN_OR_RETURN(auto sockets, ControlSocket::Pair());
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return Status::Internal("/dev/null: {}", std::strerror(errno));
  const int proxy_end = sockets.second.fd();
  const std::string socket_text = std::to_string(kProxySocket);
  const char* const arguments[] = {executable.c_str(), "--socket", socket_text.c_str(), nullptr};
  const std::vector<char*> variables = environment.Pointers();
  const pid_t agent = ::getpid();

  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != agent) ::_exit(1);
    // Only the agent handles signals of the terminal and of mpirun.
    ::setpgid(0, 0);
    ::dup2(nothing.get(), STDIN_FILENO);
    if (niceness > ::getpriority(PRIO_PROCESS, 0)) ::setpriority(PRIO_PROCESS, 0, niceness);
    // Copied first: it may have the descriptor number of the socket.
    const int kept = lease < 0 ? -1 : ::fcntl(lease, F_DUPFD_CLOEXEC, kProxyLease + 1);
    if (proxy_end == kProxySocket)
      ::fcntl(proxy_end, F_SETFD, 0);
    else
      ::dup2(proxy_end, kProxySocket);
    if (kept >= 0) ::dup2(kept, kProxyLease);
    ::close_range((kept < 0 ? kProxySocket : kProxyLease) + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    for (int number = 1; number <= SIGRTMAX; ++number) ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(executable.c_str(), const_cast<char* const*>(arguments), variables.data());
    ::_exit(127);
  }
  UniqueFd process = OpenProcess(pid);
  if (!process.valid()) {
    const Status failure = Status::Exhausted("pidfd_open: {}", std::strerror(errno));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failure;
  }
  return ProxyChild{pid, std::move(process), std::move(sockets.first)};
}

}  // namespace cuspan
