#include "bench/soft/server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/settings.h"

namespace cuspan::bench::soft {
namespace {

struct Request {
  TaskId task;
  Side side;
};

struct Answer {
  bool ok;
  double value;
  char message[512];
};

bool Receive(int socket, void* data, std::size_t bytes) {
  return ::recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

bool Send(int socket, const void* data, std::size_t bytes) {
  return ::send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

Answer AnswerWith(const Result<double>& result) {
  Answer answer{};
  answer.ok = result.ok();
  if (result.ok()) {
    answer.value = *result;
  } else {
    const std::string message(result.status().message());
    std::memcpy(answer.message, message.data(),
                std::min(message.size(), sizeof answer.message - 1));
  }
  return answer;
}

// Main loop of the process: answers requests until the other end is closed.
class Service {
 public:
  Service(int socket, unsigned threads) : socket_(socket), threads_(threads) {}

  void Serve() {
    Result<Gpu> gpu = Gpu::Open();
    for (Request request{}; Receive(socket_, &request, sizeof request);) {
      const Answer answer =
          gpu.ok() ? AnswerWith(Run(*gpu, request)) : AnswerWith(Result<double>(gpu.status()));
      if (!Send(socket_, &answer, sizeof answer)) return;
    }
  }

 private:
  Result<double> Run(Gpu& gpu, const Request& request) {
    if (task_ == nullptr || task_id_ != request.task) {
      task_ = MakeTask(request.task, gpu, threads_);
      task_id_ = request.task;
      if (Status prepared = task_->Prepare(); !prepared.ok()) {
        task_ = nullptr;
        return prepared;
      }
    }
    return request.side == Side::kGpu ? task_->OnGpu() : task_->OnHost();
  }

  const int socket_;
  const unsigned threads_;
  TaskId task_id_{};
  std::unique_ptr<Task> task_;
};

void Set(const Setting& setting, const std::string& value) {
  ::setenv(setting.name, value.c_str(), 1);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::Internal("socketpair: {}", std::strerror(errno));
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::Internal("fork: {}", std::strerror(errno));
  if (pid == 0) {
    ours.Reset();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    Set(settings::kSoftThreads, std::to_string(options.threads));
    Set(settings::kSoftGpus, "1");
    if (!options.model.empty()) Set(settings::kSoftModel, options.model);
    if (!options.tier.empty()) Set(settings::kSoftTier, options.tier);
    if (!options.cache_folder.empty()) Set(settings::kSoftCache, options.cache_folder);
    Service(theirs.get(), options.threads).Serve();
    ::_exit(0);
  }
  return std::unique_ptr<Server>(new Server(pid, std::move(ours)));
}

Server::~Server() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<double> Server::Run(TaskId task, Side side) {
  const Request request{task, side};
  Answer answer{};
  if (!Send(socket_.get(), &request, sizeof request) ||
      !Receive(socket_.get(), &answer, sizeof answer)) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG | WNOWAIT) != 0 && WIFSIGNALED(status))
      return Status::Internal("the measuring process was killed by signal {}", WTERMSIG(status));
    return Status::Internal("the measuring process exited");
  }
  if (!answer.ok) return Status::Internal("{}", static_cast<const char*>(answer.message));
  return answer.value;
}

}  // namespace cuspan::bench::soft
