#include "interpose/client/agent_connection.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "common/batch_system.h"
#include "common/format.h"
#include "common/log.h"
#include "common/process_state.h"
#include "common/settings.h"
#include "common/trace.h"
#include "interpose/client/base/run_environment.h"

namespace cuspan {
namespace {

// Time without an answer before a warning. A driver may take seconds to start.
constexpr std::chrono::seconds kLate{10};

// All connections of the process. Never destroyed: the program may fork while it exits.
Mutex connections_mutex;
std::set<AgentConnection*>& Connections() CUSPAN_REQUIRES(connections_mutex) {
  static auto* const connections = new std::set<AgentConnection*>;
  return *connections;
}

std::optional<Key128> ParseSecret(const char* text) {
  Key128 secret{};
  if (text == nullptr || std::strlen(text) != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* digits = text + 2 * i;
    if (std::from_chars(digits, digits + 2, secret[i], 16).ptr != digits + 2) return std::nullopt;
  }
  return secret;
}

// Returns the MPI rank of this process, from variables of Open MPI, its process manager, MPICH and
// its derivatives, or Slurm.
std::uint32_t RankOfThisProcess() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", kSlurmRankVariable}) {
    const char* text = std::getenv(name);
    std::uint32_t rank = 0;
    if (text == nullptr) continue;
    const char* end = text + std::strlen(text);
    if (std::from_chars(text, end, rank).ptr == end && end != text) return rank;
  }
  return 0;
}

// True if Slurm set the choice for a step, by both variables: it is about the GPUs of the step's
// node, not the run's.
bool IsSetBySlurm(const char* choice) {
  const char* const ordinals = std::getenv("GPU_DEVICE_ORDINAL");
  return std::getenv(kSlurmStepVariable) != nullptr && ordinals != nullptr &&
         std::strcmp(ordinals, choice) == 0;
}

VisibleDevices Visible(bool all) {
  VisibleDevices visible;
  if (const char* choice = std::getenv("CUDA_VISIBLE_DEVICES");
      choice != nullptr && !all && !IsSetBySlurm(choice)) {
    visible.chosen = true;
    visible.choice = choice;
  }
  // Checked by the launcher.
  if (const Result<std::uint64_t> each = SettingNumber(settings::kGpusPerRank, 0, 4096); each.ok())
    visible.devices_a_rank = static_cast<std::uint32_t>(*each);
  visible.rank = RankOfThisProcess();
  return visible;
}

pid_t ProcessBehind(const ControlSocket& socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

// Receives the agent's answer. After kLate it warns, naming `awaited`. Ends with the agent, or
// after `limit`, longer than kLate.
template <typename T>
Result<T> Await(ControlSocket& socket, std::chrono::seconds limit, const char* awaited) {
  pollfd answer{socket.fd(), POLLIN, 0};
  if (::poll(&answer, 1, std::chrono::milliseconds(kLate).count()) == 0) {
    const pid_t agent = ProcessBehind(socket);
    LogWarn("waiting for {} for {} s: the agent of this node (process {}) {}", awaited,
            kLate.count(), agent,
            IsStopped(agent) ? Format("is stopped; `kill -CONT {}` resumes it", agent)
                             : "or another host is slow");
  }
  return socket.Expect<T>(limit - kLate);
}

}  // namespace

std::optional<Key128> SecretOfRun() { return ParseSecret(RunSecret()); }

Result<AgentConnection::Introduced> AgentConnection::Introduce() { return Introduce(false); }

Result<AgentConnection::Introduced> AgentConnection::IntroduceObserver() { return Introduce(true); }

Result<AgentConnection::Introduced> AgentConnection::Introduce(bool observer) {
  const char* const address = RunSocket();
  const std::optional<Key128> secret = SecretOfRun();
  if (*address == 0 || !secret)
    return Status::Unavailable(
        "CUSPAN_SOCKET and CUSPAN_SECRET are not set: start the program with `cuspan run -- "
        "PROGRAM`");
  Result<ControlSocket> socket = ControlSocket::Connect(address);
  if (!socket.ok()) return socket.status();
  Result<Bell> bell = Bell::Create();
  if (!bell.ok()) return bell.status();
  ClientHello hello;
  hello.secret = *secret;
  hello.table_hash = kOpTableHash;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.program = program_invocation_short_name;
  hello.visible = Visible(observer);
  hello.observer = observer;
  const int fds[] = {bell->fd()};
  CUSPAN_RETURN_IF_ERROR(socket->Send(hello, fds));
  bell->CloseFd();
  Result<Welcome> welcome =
      Await<Welcome>(*socket, std::chrono::seconds(30), "the answer of this node's agent");
  if (!welcome.ok()) return welcome.status();
  SetLogRun(welcome->run, observer ? std::nullopt : std::optional(welcome->session));
  if (welcome->trace) {
    const UniqueFd memory = socket->ExtractFd();
    Result<std::unique_ptr<TraceBuffer>> trace = TraceBuffer::Open(memory.get());
    if (trace.ok())
      StartTracing(std::move(*trace));
    else
      LogWarn("this program is missing from the timeline: {}", trace.status().message());
  }
  return Introduced{std::unique_ptr<AgentConnection>(new AgentConnection(std::move(*socket))),
                    std::move(*bell), static_cast<CUresult>(welcome->result),
                    std::move(welcome->devices)};
}

void AgentConnection::HandleForks() {
  static const int fork_handlers =
      ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(fork_handlers);
}

AgentConnection::AgentConnection(ControlSocket socket) : socket_(std::move(socket)) {
  HandleForks();
  const MutexLock lock(connections_mutex);
  Connections().insert(this);
}

AgentConnection::~AgentConnection() {
  const MutexLock lock(connections_mutex);
  Connections().erase(this);
}

void AgentConnection::BeforeFork() CUSPAN_NO_THREAD_SAFETY_ANALYSIS { connections_mutex.lock(); }
void AgentConnection::AfterForkInParent() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  connections_mutex.unlock();
}
// A thread of the parent may have been in a request; the child has no part in it.
void AgentConnection::AfterForkInChild() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  for (AgentConnection* const connection : Connections())
    connection->socket_ = ControlSocket(UniqueFd());
  Connections().clear();
  connections_mutex.unlock();
}

Result<DeviceOpener::Opened> AgentConnection::Open(const OpenDevice& request, int region) {
  const MutexLock lock(mutex_);
  CUSPAN_RETURN_IF_ERROR(socket_.Send(request, std::span(&region, region >= 0 ? 1 : 0)));
  Result<DeviceOpened> opened =
      Await<DeviceOpened>(socket_, std::chrono::seconds(120), "a device to be opened");
  if (!opened.ok()) return opened.status();
  Opened device{std::move(*opened), UniqueFd(), UniqueFd()};
  if (device.answer.result == CUDA_SUCCESS) {
    device.channel = socket_.ExtractFd();
    device.bell = socket_.ExtractFd();
  }
  return device;
}

Status AgentConnection::Close(std::uint32_t context) {
  const MutexLock lock(mutex_);
  CUSPAN_RETURN_IF_ERROR(socket_.Send(CloseDevice{context}));
  return Await<DeviceClosed>(socket_, std::chrono::seconds(30), "a device to be closed").status();
}

Status AgentConnection::Join(const JoinDevices& request) {
  const MutexLock lock(mutex_);
  return socket_.Send(request);
}

bool AgentConnection::Gone() const {
  pollfd watched{socket_.fd(), POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) > 0;
}

pid_t AgentConnection::process() const { return ProcessBehind(socket_); }

}  // namespace cuspan
