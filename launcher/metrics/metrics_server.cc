#include "launcher/metrics/metrics_server.h"

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/start_thread.h"
#include "launcher/metrics/exposition.h"
#include "launcher/metrics/http_request.h"

namespace cuspan {
namespace {

// Limit of a connection: receiving the request, the agents' answer (one second at most), and
// sending.
constexpr std::chrono::seconds kConnectionLimit{5};
constexpr std::size_t kMaxConnections = 16;
constexpr int kBacklog = 16;
// Pause in accepting connections after the process ran out of descriptors.
constexpr std::chrono::milliseconds kRest{100};

// Blocks all signals of the calling thread; threads started meanwhile inherit this.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

Status CannotListen(const MetricsTarget& target, const char* why) {
  return Status::Invalid("--metrics: cannot listen at {}: {}: choose another one",
                         target.kind == MetricsTarget::Kind::kUnix
                             ? target.path
                             : Format("{}:{}", target.host, target.port),
                         why);
}

// Removes the socket of a killed process: it refuses connections.
void RemoveLeftSocket(const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED)
    ::unlink(address.sun_path);
}

Result<UniqueFd> ListenAtPath(const MetricsTarget& target) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (target.path.size() >= sizeof address.sun_path)
    return CannotListen(target, "the path is too long for a socket");
  std::copy(target.path.begin(), target.path.end(), address.sun_path);
  RemoveLeftSocket(address);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Only this user may connect.
  const mode_t mask = ::umask(0177);
  const bool bound = fd.valid() && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                                          sizeof address) == 0;
  const int error = errno;
  ::umask(mask);
  if (!bound || ::listen(fd.get(), kBacklog) != 0)
    return CannotListen(target, std::strerror(bound ? errno : error));
  return fd;
}

Result<UniqueFd> ListenAtPort(const MetricsTarget& target) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &wanted, &found);
      error != 0)
    return CannotListen(target, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    UniqueFd fd(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    // A run may use the port of a previous one.
    if (fd.valid() && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(fd.get(), one->ai_addr, one->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0)
      return fd;
    error = errno;
  }
  return CannotListen(target, std::strerror(error));
}

}  // namespace

MetricsServer::MetricsServer(UniqueFd request, UniqueFd listener, UniqueFd wake,
                             const MetricsTarget& target)
    : MetricsOutlet(std::move(request)),
      target_(target),
      listener_(std::move(listener)),
      wake_(std::move(wake)) {}

Result<std::unique_ptr<MetricsOutlet>> MetricsServer::Open(const MetricsTarget& target) {
  UniqueFd request(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!request.valid() || !wake.valid())
    return Status::Exhausted("--metrics: eventfd: {}", std::strerror(errno));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd listener, target.kind == MetricsTarget::Kind::kUnix
                                                 ? ListenAtPath(target)
                                                 : ListenAtPort(target));
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(std::move(request), std::move(listener), std::move(wake), target));
  const WithoutSignals blocked;
  CUSPAN_ASSIGN_OR_RETURN(server->thread_,
                          StartThread("cuspan-metrics", [at = server.get()] { at->Serve(); }));
  return std::unique_ptr<MetricsOutlet>(std::move(server));
}

MetricsServer::~MetricsServer() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  if (target_.kind == MetricsTarget::Kind::kUnix) ::unlink(target_.path.c_str());
}

void MetricsServer::Wake() const {
  const std::uint64_t once = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &once, sizeof once);
}

void MetricsServer::Publish(const std::vector<prometheus::MetricFamily>& families) {
  {
    const MutexLock lock(mutex_);
    families_ = std::make_shared<const std::vector<prometheus::MetricFamily>>(families);
    ++publications_;
  }
  Wake();
}

void MetricsServer::SetLive(bool live) {
  {
    const MutexLock lock(mutex_);
    live_ = live;
  }
  Wake();
}

std::pair<MetricsServer::Families, std::uint64_t> MetricsServer::Published() {
  const MutexLock lock(mutex_);
  // Without live metrics, the last publication is final.
  return {families_, live_ ? publications_ : ~std::uint64_t{0}};
}

void MetricsServer::Serve() {
  Clock::time_point rest_until{};
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (ends_) return;
    }
    const Clock::time_point now = Clock::now();
    std::erase_if(connections_, [now](const Connection& one) { return one.until <= now; });
    const bool listens = connections_.size() < kMaxConnections && rest_until <= now;
    std::vector<pollfd> waited = {{wake_.get(), POLLIN, 0},
                                  {listens ? listener_.get() : -1, POLLIN, 0}};
    Clock::time_point until = now + kConnectionLimit;
    for (const Connection& one : connections_) {
      until = std::min(until, one.until);
      // A connection waiting for a publication is polled for its end only.
      waited.push_back({one.fd.get(),
                        static_cast<short>(!one.answer.empty() ? POLLOUT
                                           : one.wants == 0    ? POLLIN
                                                               : 0),
                        0});
    }
    if (!listens && rest_until > now) until = std::min(until, rest_until);
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    ::poll(waited.data(), waited.size(), static_cast<int>(limit.count()));
    if (waited[0].revents != 0) {
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &times, sizeof times);
    }
    for (std::size_t i = connections_.size(); i-- > 0;) {
      Connection& one = connections_[i];
      const short ready = waited[i + 2].revents;
      bool keep = (ready & (POLLERR | POLLHUP | POLLNVAL)) == 0 || (ready & POLLIN) != 0;
      if (keep && one.answer.empty() && one.wants == 0 && ready != 0) keep = Read(one);
      if (keep && one.answer.empty() && one.wants != 0) keep = Answer(one);
      if (keep && !one.answer.empty()) keep = Write(one);
      if (!keep) connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (waited[1].revents != 0) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd.valid())
        connections_.push_back({std::move(fd), Clock::now() + kConnectionLimit, {}, 0, {}});
      else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        rest_until = Clock::now() + kRest;
    }
  }
}

bool MetricsServer::Read(Connection& connection) {
  char chunk[1024];
  const ssize_t got = ::recv(connection.fd.get(), chunk, sizeof chunk, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  connection.received.append(chunk, static_cast<std::size_t>(got));
  if (!IsWhole(connection.received)) {
    if (connection.received.size() <= kMaxOfRequest) return true;
    connection.answer =
        HttpAnswer("431 Request Header Fields Too Large", "text/plain", "too long\n", false);
    return true;
  }
  const HttpRequest request = ParseRequest(connection.received);
  const bool head = request.method == "HEAD";
  if (request.method != "GET" && !head) {
    connection.answer = HttpAnswer("405 Method Not Allowed", "text/plain", "only GET\n", false);
  } else if (request.path == "/") {
    connection.answer = HttpAnswer("200 OK", "text/plain",
                                   "cuspan: metrics for Prometheus are at /metrics\n", head);
  } else if (request.path != "/metrics") {
    connection.answer = HttpAnswer("404 Not Found", "text/plain", "see /metrics\n", head);
  } else {
    const MutexLock lock(mutex_);
    connection.wants = publications_ + 1;
  }
  const std::uint64_t once = 1;
  // Makes the launcher publish.
  if (connection.wants != 0 && ::write(fd(), &once, sizeof once) < 0 && errno != EAGAIN)
    return false;
  return true;
}

bool MetricsServer::Answer(Connection& connection) {
  const auto [families, publications] = Published();
  if (publications < connection.wants || families == nullptr) return true;
  const HttpRequest request = ParseRequest(connection.received);
  const MetricsFormat format = ChooseFormat(request.accept);
  connection.answer = HttpAnswer("200 OK", ContentType(format), Expose(*families, format),
                                 request.method == "HEAD");
  return true;
}

bool MetricsServer::Write(Connection& connection) {
  const ssize_t put =
      ::send(connection.fd.get(), connection.answer.data(), connection.answer.size(), MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  connection.answer.erase(0, static_cast<std::size_t>(put));
  return !connection.answer.empty();
}

}  // namespace cuspan
