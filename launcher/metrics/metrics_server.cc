#include "launcher/metrics/metrics_server.h"

#include <fcntl.h>
#include <httplib.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "launcher/metrics/exposition.h"

namespace cuspan {
namespace {

// For one request to come whole, and its answer to be taken. What holds a thread longer holds up
// the end of a run.
constexpr std::chrono::seconds kClientLimit{1};
// For the agents to answer, which have a second, and the launcher to be woken.
constexpr std::chrono::seconds kFreshLimit{5};
constexpr std::size_t kThreads = 2;

using Families = std::shared_ptr<const std::vector<prometheus::MetricFamily>>;

// Blocks all signals of the calling thread, for threads that it starts meanwhile.
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

// A socket that a process has left which was killed: nobody listens there.
void RemoveLeftSocket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED)
    ::unlink(path.c_str());
}

}  // namespace

MetricsServer::MetricsServer(UniqueFd wish, const MetricsTarget& target)
    : MetricsOutlet(std::move(wish)),
      target_(target),
      server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // A connection that stays open would hold a thread.
  server_->set_keep_alive_max_count(1);
  server_->set_keep_alive_timeout(kClientLimit.count());
  server_->set_read_timeout(kClientLimit);
  server_->set_write_timeout(kClientLimit);
  server_->set_payload_max_length(0);
  // The library would let several processes have one port.
  server_->set_socket_options([](int fd) {
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  });
  server_->Get("/metrics", [this](const httplib::Request& request, httplib::Response& response) {
    const Families families = Fresh();
    if (families == nullptr) {
      response.status = 503;
      response.set_content("the run did not answer\n", "text/plain");
      return;
    }
    const MetricsFormat format = ChooseFormat(request.get_header_value("Accept"));
    response.set_content(Expose(*families, format), ContentType(format));
  });
  server_->Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("cuspan: metrics for Prometheus are at /metrics\n", "text/plain");
  });
}

Result<std::unique_ptr<MetricsOutlet>> MetricsServer::Open(const MetricsTarget& target) {
  UniqueFd wish(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wish.valid()) return Status::Exhausted("--metrics: eventfd: {}", std::strerror(errno));
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(wish), target));
  CUSPAN_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<MetricsOutlet>(std::move(server));
}

Status MetricsServer::Listen() {
  const bool local = target_.kind == MetricsTarget::Kind::kUnix;
  bool bound = false;
  errno = 0;
  if (local) {
    RemoveLeftSocket(target_.path);
    server_->set_address_family(AF_UNIX);
    // For this user alone.
    const mode_t mask = ::umask(0177);
    // The library wants a port here, too.
    bound = server_->bind_to_port(target_.path, 80);
    ::umask(mask);
  } else {
    bound = server_->bind_to_port(target_.host, target_.port);
  }
  if (!bound) {
    const int error = errno;
    return Status::Invalid("--metrics: cannot listen at {}{}{}: choose another one",
                           local ? target_.path : Format("{}:{}", target_.host, target_.port),
                           error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
  }
  const WithoutSignals blocked;
  listener_ = std::thread([this] { server_->listen_after_bind(); });
  // Only then it can be stopped.
  while (!server_->is_running()) std::this_thread::yield();
  return Status::Ok();
}

MetricsServer::~MetricsServer() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  published_.notify_all();
  if (!listener_.joinable()) return;
  server_->stop();
  listener_.join();
  if (target_.kind == MetricsTarget::Kind::kUnix) ::unlink(target_.path.c_str());
}

void MetricsServer::Publish(const std::vector<prometheus::MetricFamily>& families) {
  {
    const MutexLock lock(mutex_);
    families_ = std::make_shared<const std::vector<prometheus::MetricFamily>>(families);
    ++publications_;
  }
  published_.notify_all();
}

Families MetricsServer::Fresh() {
  MutexLock lock(mutex_);
  const std::uint64_t before = publications_;
  const std::uint64_t once = 1;
  if (::write(fd(), &once, sizeof once) < 0) return nullptr;
  const auto deadline = std::chrono::steady_clock::now() + kFreshLimit;
  while (publications_ == before && !ends_)
    if (published_.wait_until(lock, deadline) == std::cv_status::timeout) return nullptr;
  return families_;
}

}  // namespace cuspan
