#include "proxy/sharing/pair_keeper.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "common/log.h"
#include "common/process_fd.h"
#include "common/start_thread.h"
#include "protocol/sharing/share_file.h"
#include "proxy/sharing/mps_control.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A keeper's descriptors of the folder's lock file, and of the pipe to its starter.
constexpr int kKeeperLock = 3;
constexpr int kKeeperAnswer = 4;

// Until the daemon's first answer; it usually takes a tenth of a second.
constexpr milliseconds kDaemonLimit{10'000};
// Until each later answer.
constexpr milliseconds kControlLimit{2'000};
constexpr milliseconds kBetweenAsking{20};
// Until the daemon and its server have ended.
constexpr milliseconds kQuitLimit{5'000};
// Until killed processes have ended: before that, the driver frees a GPU's memory.
constexpr milliseconds kKillLimit{5'000};
// Until a started keeper reports its result.
constexpr milliseconds kKeeperLimit = kDaemonLimit + milliseconds{5'000};
// Between queries while runs exist but none of their processes uses the GPU.
constexpr milliseconds kRunPollInterval{100};

constexpr char kReadyWord = 'R';
constexpr char kFailedWord = 'E';

struct Child {
  pid_t pid = -1;
  UniqueFd process;  // Pidfd: readable when the process ends.
};

// Async-signal-safe. A program inherits ignored and blocked signals from its starter.
void ResetSignals() {
  for (int number = 1; number <= SIGRTMAX; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool EndsWithin(const Child& child, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd waited{child.process.get(), POLLIN, 0};
    const int ready = ::poll(&waited, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Waits until the process ends, kills it after `limit`, and returns its exit status.
int EndChild(const Child& child, milliseconds limit) {
  if (!EndsWithin(child, limit)) ::kill(child.pid, SIGKILL);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string LastLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return Printable(last, 200);
}

// The control daemon of one GPU, and its control program.
class MpsDaemon {
 public:
  MpsDaemon(const PairKeeping& keeping, const PairFolder& folder)
      : control_(keeping.control, folder, keeping.gpu), log_(folder.log()) {}

  // Starts the daemon and waits until it answers.
  Status Start() {
    const UniqueFd output(
        ::open(Said().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    CUSPAN_ASSIGN_OR_RETURN(daemon_, Spawn(output.get()));
    const auto deadline = steady_clock::now() + kDaemonLimit;
    while (!control_.Ask("get_server_list", kControlLimit).ok()) {
      if (EndsWithin(daemon_, kBetweenAsking)) {
        const int status = EndChild(daemon_, milliseconds(0));
        return Failure(WIFSIGNALED(status)
                           ? Format("was ended by signal {}", WTERMSIG(status))
                           : Format("ended with exit status {}", WEXITSTATUS(status)));
      }
      if (steady_clock::now() > deadline) {
        EndChild(daemon_, milliseconds(0));
        return Failure(Format("did not answer within {} s", kDaemonLimit.count() / 1000));
      }
    }
    return Status::Ok();
  }
  // Pidfd: readable when the process ends.
  int process() const { return daemon_.process.get(); }
  bool HasEnded(milliseconds limit) const { return EndsWithin(daemon_, limit); }
  void Quit() {
    // The control program returns after the daemon has ended.
    if (const auto told = control_.Ask("quit", kQuitLimit); !told.ok())
      LogInfo("{}", told.status().message());
    EndChild(daemon_, kQuitLimit);
  }

 private:
  std::string Said() const { return log_ + "/daemon.log"; }

  Status Failure(const std::string& what) const {
    std::string said = LastLineOf(Said());
    if (said.empty()) said = LastLineOf(log_ + "/control.log");
    return Status::Unavailable("NVIDIA's MPS ({}) {}{}{}; use --share to share the GPU by time",
                               control_.program(), what, said.empty() ? "" : ": ", said);
  }

  // Starts the daemon with fork: it must end with this process in any case, and posix_spawn can not
  // set PR_SET_PDEATHSIG.
  Result<Child> Spawn(int output) const {
    const std::vector<std::string> words = {control_.program(), "-f"};
    const std::vector<char*> arguments = PointersTo(words);
    const std::vector<char*> variables = PointersTo(control_.environment());
    const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const pid_t keeper = ::getpid();
    Child child;
    child.pid = ::fork();
    if (child.pid < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
    if (child.pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != keeper) ::_exit(1);
      ::dup2(nothing.get(), STDIN_FILENO);
      ::dup2(output, STDOUT_FILENO);
      ::dup2(output, STDERR_FILENO);
      ::close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
      ResetSignals();
      ::execve(arguments.front(), arguments.data(), variables.data());
      ::_exit(127);
    }
    child.process = OpenProcess(child.pid);
    if (child.process.valid()) return child;
    const Status failure = Status::Exhausted("pidfd_open: {}", std::strerror(errno));
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    return failure;
  }

  const MpsControl control_;
  const std::string log_;
  Child daemon_;
};

// True if any run may start a process that needs the server.
bool SomeRunShares(const std::string& table) {
  const Result<std::unique_ptr<sharing::ShareFile>> file =
      sharing::ShareFile::Open({table, std::nullopt});
  // All runs of a table share the GPU in the same way.
  return file.ok() && (*file)->HasRuns() && (*file)->TermsOf(0).pair;
}

// Waits until the server is unused. Returns true with the clients' lock held exclusively; false if
// the daemon has ended by itself.
bool AwaitUnused(const MpsDaemon& daemon, PairFolder& folder, const std::string& table) {
  const int unused = ::eventfd(0, EFD_CLOEXEC);
  for (;;) {
    // poll() can not wait for a file lock, so a thread waits for it.
    const auto await = [&folder, unused] {
      if (folder.AwaitAlone(PairFolder::Part::kClients)) ::eventfd_write(unused, 1);
    };
    Result<std::thread> thread = StartThread("cuspan-unused", await);
    if (thread.ok())
      thread->detach();
    else
      await();  // Delays noticing the daemon's end.
    pollfd waited[] = {{daemon.process(), POLLIN, 0}, {unused, POLLIN, 0}};
    while (::poll(waited, 2, -1) < 0) {
    }
    if (waited[0].revents != 0) return false;
    eventfd_t ignored = 0;
    ::eventfd_read(unused, &ignored);
    if (!SomeRunShares(table)) return true;
    folder.Unlock(PairFolder::Part::kClients);
    if (daemon.HasEnded(kRunPollInterval)) return false;
  }
}

void ReportToStarter(UniqueFd& answer, char word, const std::string& text) {
  const std::string said = word + text;
  // The starter may have ended.
  [[maybe_unused]] const ssize_t written = ::write(answer.get(), said.data(), said.size());
  answer.Reset();
}

// Reads the keeper's report until it closes its end of the pipe.
Status AwaitKeeper(const UniqueFd& answer) {
  std::string said;
  const auto deadline = steady_clock::now() + kKeeperLimit;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd waited{answer.get(), POLLIN, 0};
    const int heard = left.count() <= 0 ? 0 : ::poll(&waited, 1, static_cast<int>(left.count()));
    if (heard < 0) continue;
    if (heard == 0)
      return Status::Unavailable("the keeper of the MPS server was not ready within {} s",
                                 kKeeperLimit.count() / 1000);
    char text[512];
    const ssize_t got = ::read(answer.get(), text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(text, static_cast<std::size_t>(got));
  }
  if (said.starts_with(kReadyWord)) return Status::Ok();
  if (said.starts_with(kFailedWord)) return Status::Unavailable("{}", said.substr(1));
  return Status::Unavailable("the keeper of the MPS server ended before its server was ready");
}

}  // namespace

Status StartPairKeeper(const std::string& executable, const PairKeeping& keeping,
                       const PairFolder& lock) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.valid()) return Status::Internal("/dev/null: {}", std::strerror(errno));
  const std::vector<std::string> words = {executable,    kKeepPairServer, keeping.folder,
                                          keeping.table, keeping.gpu,     keeping.control};
  const std::vector<char*> arguments = PointersTo(words);
  const pid_t between = ::fork();
  if (between < 0) return Status::Exhausted("fork: {}", std::strerror(errno));
  if (between == 0) {
    // Runs in its own session with init as its parent: ends independently of any run.
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    // Keeps no folder of the run busy.
    if (::chdir("/") != 0) ::_exit(1);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::dup2(nothing.get(), standard);
    // First moved to numbers above both targets. All other descriptors are closed: the keeper must
    // not keep the proxy's socket and its GPU's lock.
    const int kept = ::fcntl(lock.lock_fd(), F_DUPFD_CLOEXEC, kKeeperAnswer + 1);
    const int told = ::fcntl(write_end.get(), F_DUPFD_CLOEXEC, kKeeperAnswer + 1);
    ::dup2(kept, kKeeperLock);
    ::dup2(told, kKeeperAnswer);
    ::close_range(kKeeperAnswer + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    ResetSignals();
    ::execve(arguments.front(), arguments.data(), environ);
    ::_exit(127);
  }
  write_end.Reset();
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  return AwaitKeeper(read_end);
}

int KeepPairServer(const std::vector<std::string>& words) {
  if (words.size() != 4) return 2;
  const PairKeeping keeping{words[0], words[1], words[2], words[3]};
  for (const int fd : {kKeeperLock, kKeeperAnswer}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  UniqueFd answer(kKeeperAnswer);
  // Never destroyed: a thread may still wait for one of its locks.
  auto* const folder = new PairFolder(PairFolder::Adopt(keeping.folder, UniqueFd(kKeeperLock)));
  ::umask(077);
  ::signal(SIGPIPE, SIG_IGN);
  // Removes the rest of a killed keeper.
  folder->KillServers(kKillLimit);
  folder->Clear();
  Status ready;
  for (const std::string& made : {folder->pipe(), folder->log()})
    if (ready.ok() && ::mkdir(made.c_str(), 0700) != 0)
      ready = Status::Unavailable("cannot create the folder {} of the MPS server: {}", made,
                                  std::strerror(errno));
  MpsDaemon daemon(keeping, *folder);
  if (ready.ok()) ready = daemon.Start();
  if (!ready.ok()) {
    folder->KillServers(kKillLimit);
    folder->Clear();
    // Unlocked before the report: its receiver may start another keeper, or remove the folder.
    folder->Unlock(PairFolder::Part::kKeeper);
    ReportToStarter(answer, kFailedWord, ready.message());
    return 1;
  }
  folder->LockAlone(PairFolder::Part::kReady);
  ReportToStarter(answer, kReadyWord, "");
  const bool unused = AwaitUnused(daemon, *folder, keeping.table);
  folder->Unlock(PairFolder::Part::kReady);
  if (unused) daemon.Quit();
  folder->KillServers(kKillLimit);
  // If the daemon was killed, clients may still use its server; the end of their runs removes the
  // folder.
  if (folder->LockAlone(PairFolder::Part::kClients)) folder->Remove();
  return unused ? 0 : 1;
}

}  // namespace cuspan::proxy
