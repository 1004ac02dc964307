#include "launcher/agent/ucx/hosts_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/log.h"

namespace cuspan {
namespace {

// Maximum bytes of a host's lines kept until PassOn.
constexpr std::size_t kMaxKeptBytes = 64 * 1024;
// Wait for the last output of an ended process. Limited, since another process may hold its end of
// the pipe open.
constexpr std::chrono::milliseconds kWordsLimit{200};

std::string WithoutName(std::string_view line) {
  const std::size_t text = line.find(": ");
  return std::string(text == line.npos ? line : line.substr(text + 2));
}

}  // namespace

Result<std::unique_ptr<HostsOutput>> HostsOutput::Start(std::size_t hosts,
                                                        std::vector<UniqueFd>& writing) {
  std::unique_ptr<HostsOutput> output(new HostsOutput);
  output->stop_.Reset(::eventfd(0, EFD_CLOEXEC));
  if (!output->stop_.valid()) return Status::Exhausted("eventfd: {}", std::strerror(errno));
  {
    MutexLock lock(output->mutex_);
    for (std::size_t i = 0; i < hosts; ++i) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) return Status::Exhausted("pipe: {}", std::strerror(errno));
      output->hosts_.emplace_back().reading.Reset(ends[0]);
      ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
      writing.emplace_back(ends[1]);
    }
  }
  // The new thread blocks all signals: they are handled by the thread starting it.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started;
  try {
    output->thread_ = std::thread([reader = output.get()] { reader->Run(); });
  } catch (const std::system_error& error) {
    started = Status::Exhausted("the thread for the output of other hosts cannot be started: {}",
                                error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) return started;
  return output;
}

HostsOutput::~HostsOutput() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void HostsOutput::PassOn() {
  MutexLock lock(mutex_);
  passing_ = true;
  for (Host& host : hosts_) {
    std::string_view kept = host.kept;
    while (!kept.empty()) {
      const std::size_t end = kept.find('\n') + 1;
      LogPassedOn(kept.substr(0, end));
      kept.remove_prefix(end);
    }
    host.kept.clear();
  }
}

std::string HostsOutput::LastWords(std::size_t host) {
  MutexLock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + kWordsLimit;
  while (!hosts_[host].ended && ended_.wait_until(lock, end) != std::cv_status::timeout) {
  }
  const Host& said = hosts_[host];
  if (!said.last_own.empty()) return WithoutName(said.last_own);
  return said.last.empty() ? said.line : said.last;
}

void HostsOutput::Run() {
  std::vector<pollfd> waited;
  for (bool stopped = false; !stopped;) {
    {
      MutexLock lock(mutex_);
      waited.assign(1, {stop_.get(), POLLIN, 0});
      for (const Host& host : hosts_)
        waited.push_back({host.ended ? -1 : host.reading.get(), POLLIN, 0});
    }
    if (::poll(waited.data(), waited.size(), -1) < 0) continue;
    stopped = waited[0].revents != 0;
    MutexLock lock(mutex_);
    for (Host& host : hosts_)
      if (!host.ended) Read(host);
    ended_.notify_all();
  }
}

void HostsOutput::Read(Host& host) {
  char chunk[4096];
  for (;;) {
    const ssize_t got = ::read(host.reading.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      if (!host.line.empty()) AddLine(host, std::exchange(host.line, {}) + "\n");
      host.ended = true;
      return;
    }
    for (const char c : std::string_view(chunk, static_cast<std::size_t>(got))) {
      host.line += c;
      if (c == '\n' || host.line.size() >= kMaxKeptBytes)
        AddLine(host, std::exchange(host.line, {}));
    }
  }
}

void HostsOutput::AddLine(Host& host, const std::string& line) {
  const std::string text = LogText(line);
  const std::size_t end = text.find_last_not_of("\r\n \t");
  if (end != text.npos) {
    host.last = text.substr(0, end + 1);
    if (host.last.starts_with("cuspan ") || host.last.starts_with("cuspan:"))
      host.last_own = host.last;
  }
  if (passing_) return LogPassedOn(line);
  if (host.kept.size() + line.size() <= kMaxKeptBytes && line.ends_with('\n')) host.kept += line;
}

}  // namespace cuspan
