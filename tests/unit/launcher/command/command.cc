#include "tests/unit/launcher/command/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/host/environment.h"

namespace cuspan::test {
namespace {

std::string NewMarker() {
  static std::atomic<int> count{0};
  return "CUSPAN_TEST_MARKER=" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

std::string Content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// Returns the processes with the marker in their environment.
std::vector<pid_t> ProcessesWith(const std::string& marker) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (Content(entry.path() / "environ").find(marker + '\0') != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace

Command::Command(const std::vector<std::string>& words,
                 const std::map<std::string, std::string>& variables, const std::string& input)
    : marker_(NewMarker()) {
  Environment environment = Environment::OfThisProcess();
  for (const auto& [name, value] : variables) environment.Set(name, value);
  environment.Set(marker_.substr(0, marker_.find('=')), marker_.substr(marker_.find('=') + 1));
  // Sanitizers accept a library preloaded by cuspan before their runtime.
  environment.Set("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0");

  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
  const int in = ::memfd_create("input", MFD_CLOEXEC);
  if (::write(in, input.data(), input.size()) != static_cast<ssize_t>(input.size())) std::abort();
  ::lseek(in, 0, SEEK_SET);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> pointers = environment.Pointers();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in, 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execvpe(arguments[0], arguments.data(), pointers.data());
    ::_exit(99);
  }
  ::close(in);
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Command::~Command() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

bool Command::WaitFor(const std::string& text) {
  char chunk[4096];
  while (outcome_.out.find(text) == std::string::npos) {
    const ssize_t got = ::read(out_, chunk, sizeof chunk);
    if (got <= 0) return false;
    outcome_.out.append(chunk, static_cast<std::size_t>(got));
  }
  return true;
}

void Command::ReadAll() {
  char chunk[4096];
  pollfd waited[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  while (waited[0].fd >= 0 || waited[1].fd >= 0) {
    ::poll(waited, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (waited[i].revents == 0) continue;
      const ssize_t got = ::read(waited[i].fd, chunk, sizeof chunk);
      if (got <= 0)
        waited[i].fd = -1;
      else
        (i == 0 ? outcome_.out : outcome_.err).append(chunk, static_cast<std::size_t>(got));
    }
  }
}

Outcome Command::Wait() {
  ReadAll();
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status))
    outcome_.signal = WTERMSIG(status);
  else
    outcome_.exit_status = WEXITSTATUS(status);
  return outcome_;
}

void Command::WaitAllGone() {
  // No limit but the test's own time-out.
  while (!ProcessesWith(marker_).empty()) ::usleep(1000);
}

pid_t Command::FindDescendant(const std::vector<std::string>& words) const {
  std::string wanted;
  for (const std::string& word : words) wanted += word + '\0';
  for (const pid_t pid : ProcessesWith(marker_))
    if (Content("/proc/" + std::to_string(pid) + "/cmdline") == wanted) return pid;
  std::abort();
}

std::size_t CountLines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace cuspan::test
