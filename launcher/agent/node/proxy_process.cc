#include "launcher/agent/node/proxy_process.h"

#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "common/log.h"
#include "launcher/host/wait_status.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;

// A driver with many GPUs takes seconds to start, and longer on a busy machine.
constexpr milliseconds kReadyLimit{60'000};
// Time for a proxy to release its device and end by itself.
constexpr milliseconds kEndOfProxyLimit{1'000};
// The same if GPUs are shared in pairs: the MPS server is notified first. Together with a forced
// end, it is shorter than the agent's own end (kEndSeconds).
constexpr milliseconds kEndOfPairLimit{2'000};
// Maximum number of messages unread by a proxy, besides those in its socket's buffer.
constexpr std::size_t kMaxKept = 64;

}  // namespace

ProxyPool::ProxyPool(Poller& poller, std::string executable, Environment environment,
                     const Key128& secret, const ShareTerms& share)
    : poller_(poller),
      executable_(std::move(executable)),
      environment_(std::move(environment)),
      secret_(secret),
      shares_(share.shared),
      pairs_(share.pair) {}

milliseconds ProxyPool::OwnEndLimit() const { return pairs_ ? kEndOfPairLimit : kEndOfProxyLimit; }

ProxyPool::~ProxyPool() { KillAll(milliseconds(2'000)); }

Result<std::shared_ptr<ProxyProcess>> ProxyPool::Start(const ProxyRequest& request,
                                                       Handlers handlers) {
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  CUSPAN_ASSIGN_OR_RETURN(ProxyChild child,
                          SpawnProxy(executable_, environment_, request.lease, request.niceness));
  ProxyStart start;
  start.secret = secret_;
  start.table_hash = kOpTableHash;
  start.driver = request.driver;
  start.ordinal = request.ordinal;
  start.name = request.name;
  start.run = request.run;
  start.session = request.session;
  start.window = request.window;
  start.shared = request.shared;
  start.shared_file = request.shared_file >= 0;
  start.file_bytes = request.file_bytes;
  start.observe = request.observe;
  start.uuid = request.uuid;
  std::vector<int> fds = {request.channel, bell.fd(), request.peer_bell};
  if (start.shared_file) fds.push_back(request.shared_file);
  start.trace = request.trace >= 0;
  if (start.trace) fds.push_back(request.trace);
  start.share = request.share >= 0;
  start.share_location = request.share_location;
  if (start.share) fds.push_back(request.share);
  // A proxy dying here is noticed by its pidfd.
  if (const Status sent = child.socket.Send(start, fds); !sent.ok()) LogInfo("{}", sent.message());
  std::shared_ptr<ProxyProcess> proxy(
      new ProxyProcess(*this, std::move(child), std::move(bell), std::move(handlers)));
  living_.insert(proxy);
  CUSPAN_RETURN_IF_ERROR(proxy->WatchProcess());
  return proxy;
}

void ProxyPool::WaitEnds(milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::set<std::shared_ptr<ProxyProcess>> ending = living_;
  for (const std::shared_ptr<ProxyProcess>& proxy : ending) {
    if (proxy->hung_up_) proxy->AwaitEnd(deadline);
  }
}

void ProxyPool::KillAll(milliseconds limit) {
  if (shares_) {
    for (const std::shared_ptr<ProxyProcess>& proxy : living_) {
      proxy->handlers_ = {};
      // A starting proxy would not notice the closed socket, and has nothing to save.
      if (proxy->ready_)
        proxy->HangUp();
      else
        proxy->Kill();
    }
    WaitEnds(OwnEndLimit());
  }
  for (const std::shared_ptr<ProxyProcess>& proxy : living_) {
    proxy->handlers_ = {};
    proxy->Kill();
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::set<std::shared_ptr<ProxyProcess>> ending = living_;
  for (const std::shared_ptr<ProxyProcess>& proxy : ending) proxy->AwaitEnd(deadline);
}

ProxyProcess::ProxyProcess(ProxyPool& pool, ProxyChild child, Bell bell,
                           ProxyPool::Handlers handlers)
    : pool_(pool),
      pid_(child.pid),
      process_(std::move(child.process)),
      socket_(std::move(child.socket)),
      bell_(std::move(bell)),
      handlers_(std::move(handlers)) {}

Status ProxyProcess::WatchProcess() {
  CUSPAN_RETURN_IF_ERROR(
      pool_.poller_.Watch(process_.get(), [this]() CUSPAN_REQUIRES(agent_thread) { Reap(); }));
  CUSPAN_RETURN_IF_ERROR(
      pool_.poller_.Watch(socket_.fd(), [this]() CUSPAN_REQUIRES(agent_thread) { ReadSocket(); }));
  timer_ = pool_.poller_.After(kReadyLimit, [this]() CUSPAN_REQUIRES(agent_thread) {
    end_reason_ = Format("its proxy was not ready within {} s", kReadyLimit.count() / 1000);
    Kill();
  });
  return Status::Ok();
}

void ProxyProcess::ReadSocket() {
  const std::shared_ptr<ProxyProcess> alive = shared_from_this();
  if (socket_.kept() != 0) {
    if (const Status sent = socket_.Flush(); !sent.ok()) return HandleSendFailure(sent);
    if (socket_.kept() == 0) pool_.poller_.SetInterest(socket_.fd(), Poller::Interest::kRead);
  }
  while (!hung_up_) {
    Result<std::optional<ControlSocket::Message>> message = socket_.TryReceive();
    if (message.ok() && !message->has_value()) return;
    // A closed socket means a proxy about to end: its exit status is a better reason.
    if (!message.ok() && message.status().code() == StatusCode::kUnavailable) return HangUp();
    Result<ProxyReady> ready =
        message.ok() ? ParseMessage<ProxyReady>((*message)->frame) : message.status();
    if (!ready.ok() || ready_) {
      end_reason_ =
          ready.ok() ? "its proxy reported twice that it is ready" : ready.status().message();
      return Kill();
    }
    ready_ = true;
    pool_.poller_.Cancel(timer_);
    // The handler may end this proxy and thereby clear the handlers.
    if (const auto handler = std::exchange(handlers_.ready, {})) handler(*ready);
  }
}

void ProxyProcess::HangUp() {
  if (hung_up_) return;
  hung_up_ = true;
  pool_.poller_.Forget(socket_.fd());
  socket_ = ControlSocket(UniqueFd());
  // A proxy must end after its socket is closed; otherwise it is killed.
  pool_.poller_.Cancel(timer_);
  timer_ =
      pool_.poller_.After(pool_.OwnEndLimit(), [this]() CUSPAN_REQUIRES(agent_thread) { Kill(); });
}

void ProxyProcess::HandleSendFailure(const Status& why) {
  // If the proxy has ended, its exit status is a better reason.
  if (why.code() != StatusCode::kUnavailable)
    end_reason_ = Format("its proxy cannot be reached: {}", why.message());
  Kill();
}

void ProxyProcess::Kill() { ::kill(pid_, SIGKILL); }

void ProxyProcess::AwaitEnd(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waited{process_.get(), POLLIN, 0};
    const int ended = ::poll(&waited, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    // A signal, such as that of an ending launcher, must not shorten the wait.
    if (ended < 0 && errno == EINTR) continue;
    if (ended > 0) Reap();
    return;
  }
}

void ProxyProcess::Join(const ProxyJoin& join, std::span<const int> fds) {
  if (hung_up_) return;
  if (const Status sent = socket_.Post(join, fds); !sent.ok()) return HandleSendFailure(sent);
  if (socket_.kept() > kMaxKept) {
    end_reason_ = "its proxy does not read its messages";
    return Kill();
  }
  if (socket_.kept() != 0) pool_.poller_.SetInterest(socket_.fd(), Poller::Interest::kWrite);
}

void ProxyProcess::End(std::function<void()> ended) {
  handlers_ = {};
  ended_ = std::move(ended);
  HangUp();
}

void ProxyProcess::Reap() {
  const std::shared_ptr<ProxyProcess> alive = shared_from_this();
  int wait_status = 0;
  if (::waitpid(pid_, &wait_status, WNOHANG) != pid_) return;
  // Its last messages may still be unread.
  ReadSocket();
  pool_.poller_.Cancel(timer_);
  pool_.poller_.Forget(process_.get());
  if (!hung_up_) pool_.poller_.Forget(socket_.fd());
  hung_up_ = true;
  pool_.poller_.Cancel(timer_);
  pool_.living_.erase(alive);
  const std::string reason =
      end_reason_.empty() ? "its proxy " + DescribeExit(wait_status) : end_reason_;
  if (handlers_.gone) std::exchange(handlers_, {}).gone(reason);
  if (ended_) std::exchange(ended_, {})();
}

}  // namespace cuspan
