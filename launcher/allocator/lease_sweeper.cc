#include "launcher/allocator/lease_sweeper.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "launcher/allocator/node_locks.h"

namespace cuspan {
namespace {

// Pause between two queries, in µs; all queries take 5 s. The agent's proxies hold locks too. The
// kernel kills them when the agent dies, except those of pairs: these end within two seconds. The
// driver may delay their end.
constexpr useconds_t kPause = 20'000;
constexpr int kMaxQueries = 250;

[[noreturn]] void SweepWhenGone(int alive, const std::string& host) {
  // Signals to the agent's group or session, or to agents by name, must not reach this process.
  ::setsid();
  ::prctl(PR_SET_NAME, "cuspan-sweeper");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  // Readers of the agent's output must not wait for this process to close it.
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
  ::dup2(alive, STDERR_FILENO + 1);
  ::close_range(STDERR_FILENO + 2, UINT_MAX, 0);
  char in_order = 0;
  ssize_t got = 0;
  do got = ::read(STDERR_FILENO + 1, &in_order, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  Result<NodeLocks> locks = NodeLocks::Open(host);
  for (int i = 0; i < kMaxQueries && locks.ok(); ++i) {
    NodeView view;
    if (!locks->Query({}, view).ok() || locks->Unused()) break;
    ::usleep(kPause);
  }
  ::_exit(0);
}

}  // namespace

Result<LeaseSweeper> LeaseSweeper::Start(const std::string& host) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (pid == 0) {
    ours.Reset();
    SweepWhenGone(theirs.get(), host);
  }
  return LeaseSweeper(pid, std::move(ours));
}

LeaseSweeper::~LeaseSweeper() {
  if (pid_ < 0) return;
  const char in_order = 1;
  // The byte ends the sweeper at once. If the sweeper is stopped, waitpid blocks until the launcher
  // kills this agent.
  if (::write(alive_.get(), &in_order, 1) != 1) ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace cuspan
