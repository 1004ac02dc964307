// cuspan-proxy: executes one session's calls to one GPU.
//
// Started by the node's agent with one end of a socket pair. The first message requests either an
// inventory of the node's devices, or a device for a client. In the second case it brings the
// client's channel. The process ends with the channel, the socket or its parent.
//
// With --keep-pair-server it is instead the keeper of an MPS server (proxy/sharing/pair_keeper.h),
// started by another cuspan-proxy.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/log.h"
#include "common/start_thread.h"
#include "common/trace.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/socket.h"
#include "proxy/gpu/inventory.h"
#include "proxy/gpu/known_devices.h"
#include "proxy/gpu/nvml.h"
#include "proxy/observer.h"
#include "proxy/server.h"
#include "proxy/sharing/pair_keeper.h"
#include "proxy/sharing/pair_server.h"
#include "proxy/streams/kernel_output.h"

namespace cuspan::proxy {
namespace {

constexpr std::chrono::milliseconds kStartLimit{10'000};
constexpr unsigned kSubmittersOfSoftwareGpu = 2;
// Time limit for an MPS server temporarily refusing clients.
constexpr std::chrono::milliseconds kMpsLimit{10'000};
constexpr std::chrono::milliseconds kMpsPause{100};
// After the agent gave up a session, time for it to end by itself. Ending it by force would also
// end other runs. Shorter than the agent's own limit.
constexpr std::chrono::milliseconds kOwnEndLimit{400};
constexpr std::chrono::milliseconds kLastWordsLimit{2'000};

// State of a started proxy. Exists until the process ends.
struct ProxyResources {
  std::unique_ptr<Bell> bell;
  std::unique_ptr<Channel> channel;
  LoadedDriver driver;
  std::unique_ptr<Device> device;
  UniqueFd shared_file;
  UniqueFd share_table;
  std::unique_ptr<PairServer> pairs;  // Null unless other runs use the GPU at the same time.
  std::once_flag left;                // Guards pairs->Leave(): called by the first ending thread.
  JoinInbox joins;
};

Status CheckStart(const ProxyStart& start) {
  if (start.table_hash != kOpTableHash)
    return Status::Refused(
        "the agent and the proxy of this node run different versions of cuspan: install one "
        "version");
  if (std::all_of(start.secret.begin(), start.secret.end(),
                  [](std::uint8_t byte) { return byte == 0; }))
    return Status::Refused("the agent sent no run secret");
  return Status::Ok();
}

// Receives the file descriptors of the message, in this order: the channel, both bells, the shared
// region's file, the trace's memory, the table of runs sharing the GPU.
Status ReceiveDescriptors(ControlSocket& socket, const ProxyStart& start, ProxyResources& place) {
  UniqueFd channel_fd = socket.ExtractFd();
  UniqueFd own_fd = socket.ExtractFd();
  UniqueFd peer_fd = socket.ExtractFd();
  if (!peer_fd.valid()) return Status::Invalid("the agent sent no channel");
  if (start.shared_file) {
    place.shared_file = socket.ExtractFd();
    if (!place.shared_file.valid()) return Status::Invalid("the agent sent no shared region");
  }
  if (start.trace) {
    const UniqueFd memory = socket.ExtractFd();
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<TraceBuffer> trace, TraceBuffer::Open(memory.get()));
    StartTracing(std::move(trace));
  }
  if (start.share) {
    place.share_table = socket.ExtractFd();
    if (!place.share_table.valid())
      return Status::Invalid("the agent sent no table of the runs sharing the GPU");
  }
  CUSPAN_ASSIGN_OR_RETURN(Bell own, Bell::Open(std::move(own_fd)));
  CUSPAN_ASSIGN_OR_RETURN(Bell peer, Bell::Open(std::move(peer_fd)));
  place.bell = std::make_unique<Bell>(std::move(own));
  CUSPAN_ASSIGN_OR_RETURN(place.channel, Channel::Attach(std::move(channel_fd), ChannelSide::kProxy,
                                                         place.bell.get(), std::move(peer)));
  return Status::Ok();
}

// Name of a GPU, or of a MIG instance, for CUDA_VISIBLE_DEVICES.
std::string VisibleName(const std::array<std::uint8_t, 16>& uuid) {
  bool mig = false;
  if (const std::unique_ptr<Nvml> nvml = Nvml::Load()) nvml->Find(uuid, &mig);
  return nvml::UuidText(mig, uuid);
}

// Takes the session's slot in the table of runs sharing the GPU. If they use it at the same time,
// joins their MPS server and sets the environment for the driver.
Status AcquireShareSlot(const ProxyStart& start, ProxyResources& place,
                        std::unique_ptr<ShareSlot>& slot) {
  CUSPAN_ASSIGN_OR_RETURN(slot,
                          ShareSlot::Take(std::move(place.share_table), start.share_location));
  const ShareTerms terms = slot->terms();
  // Kernels of several processes always run concurrently on a software GPU.
  if (!terms.pair || start.driver == "soft") return Status::Ok();
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  CUSPAN_ASSIGN_OR_RETURN(place.pairs,
                          PairServer::Join({slot->path(), VisibleName(start.uuid), self.string()}));
  place.pairs->SetEnvironment(terms);
  return Status::Ok();
}

// The inventory may come from the cache: the driver's list of devices could have changed since.
// A missing device, and one without a known UUID (zeros), are left to Device::Open.
Status CheckUuid(const Driver& driver, std::uint32_t ordinal,
                 const std::array<std::uint8_t, 16>& wanted) {
  CUdevice device = 0;
  CUuuid uuid{};
  if (wanted == std::array<std::uint8_t, 16>{} ||
      driver.cuDeviceGet(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS)
    return Status::Ok();
  if (driver.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS &&
      std::memcmp(uuid.bytes, wanted.data(), wanted.size()) == 0)
    return Status::Ok();
  return Status::Unavailable(
      "GPU {} of this host is not the one found at the start of the run: start it again", ordinal);
}

Status LoadAndOpen(const ProxyStart& start, ProxyResources& place) {
  CUSPAN_ASSIGN_OR_RETURN(place.driver, LoadDriver(start.driver));
  // Clients of MPS see only the server's GPU.
  const std::uint32_t ordinal = place.pairs ? 0 : start.ordinal;
  CUSPAN_RETURN_IF_ERROR(CheckUuid(place.driver.functions, ordinal, start.uuid));
  CUSPAN_ASSIGN_OR_RETURN(Device device,
                          Device::Open(place.driver.functions, ordinal, start.window));
  place.device = std::make_unique<Device>(std::move(device));
  return Status::Ok();
}

// The same as a client of MPS.
Status OpenInPairs(const ProxyStart& start, ProxyResources& place) {
  const auto deadline = std::chrono::steady_clock::now() + kMpsLimit;
  Status opened = LoadAndOpen(start, place);
  while (opened.code() == StatusCode::kExhausted && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kMpsPause);
    opened = LoadAndOpen(start, place);
  }
  if (opened.code() == StatusCode::kExhausted)
    return Status::Exhausted(
        "{}: the MPS server of the GPU accepts no new processes now. After the failure of a "
        "kernel, all processes using the GPU must end first",
        opened.message());
  CUSPAN_RETURN_IF_ERROR(opened);
  // If the driver does not reach the MPS daemon, it continues without.
  int used = 0;
  if (place.driver.functions.cuDeviceGetAttribute(&used, CU_DEVICE_ATTRIBUTE_MPS_ENABLED,
                                                  place.device->handle()) == CUDA_SUCCESS &&
      used == 0)
    return Status::Unavailable(
        "the driver does not use the MPS server of the GPU: use --share to share the GPU by time");
  return Status::Ok();
}

Status OpenDriver(const ProxyStart& start, ProxyResources& place) {
  if (Status opened = place.pairs ? OpenInPairs(start, place) : LoadAndOpen(start, place);
      !opened.ok()) {
    // The next run asks the driver at its start, and its user is told then.
    if (start.driver == "cuda")
      if (const std::optional<KnownDevices> known = KnownDevices::Open()) known->Forget();
    return opened;
  }
  if (start.shared.bytes != 0) {
    // After a failure, managed and mapped memory are refused; the rest works.
    const Status shared =
        place.device->ReserveShared(start.shared, std::move(place.shared_file), start.file_bytes);
    if (!shared.ok()) LogWarn("managed and mapped memory are not available: {}", shared.message());
  }
  for (const int direction : {0, 1}) place.device->Pin(place.channel->StagingArea(direction));
  return Status::Ok();
}

// Opens the channel to another proxy, received with the agent's message.
JoinInbox::Joined ReceiveJoined(ControlSocket& socket, const ProxyJoin& join, Bell& own) {
  if (!join.problem.empty()) return {nullptr, join.problem};
  UniqueFd channel_fd = socket.ExtractFd();
  UniqueFd bell_fd = socket.ExtractFd();
  if (!bell_fd.valid()) return {nullptr, "the agent sent no channel to another device"};
  Result<Bell> peer = Bell::Open(std::move(bell_fd));
  if (!peer.ok()) return {nullptr, peer.status().message()};
  Result<std::unique_ptr<Channel>> channel = Channel::Attach(
      std::move(channel_fd), join.second ? ChannelSide::kProxy : ChannelSide::kClient, &own,
      std::move(*peer));
  if (!channel.ok()) return {nullptr, channel.status().message()};
  return {std::move(*channel), ""};
}

// Always called: only the driver knows if kernels of the session still run. Asking it may block
// until they end.
void LeavePairs(ProxyResources& place) {
  if (place.pairs == nullptr) return;
  std::call_once(place.left, [&place] { place.pairs->Leave(); });
}

// Receives channels to other proxies from the agent, while the proxy serves its client. The agent's
// end of the socket closes after the session, or when the agent ends.
void ServeSocket(ControlSocket& socket, ProxyResources& place) {
  for (;;) {
    pollfd waited{socket.fd(), POLLIN, 0};
    if (::poll(&waited, 1, -1) < 0) continue;
    // Several messages may have arrived together.
    Result<std::optional<ControlSocket::Message>> message = socket.TryReceive();
    for (; message.ok() && message->has_value(); message = socket.TryReceive()) {
      const Result<ProxyJoin> join = ParseMessage<ProxyJoin>((*message)->frame);
      if (join.ok())
        place.joins.Put(join->join, ReceiveJoined(socket, *join, *place.bell));
      else
        LogWarn("invalid message from the agent to a running proxy: {}", join.status().message());
    }
    if (!message.ok()) break;
  }
  place.channel->Lose("the agent of its node has exited");
  place.joins.End();
  if (place.pairs == nullptr) return;
  // The session may be waiting for its kernels in the driver. If the agent still runs, it will soon
  // kill this process.
  std::this_thread::sleep_for(kOwnEndLimit);
  LeavePairs(place);
  // From here on, the end of this process does not affect other runs. The session's work on the
  // host gets some more time.
  std::this_thread::sleep_for(kLastWordsLimit);
  ::_exit(1);
}

// Reports the software GPU's compilations to the client and the trace, on the compiling threads.
void ReportCompilations(ProxyResources& place) {
  if (place.driver.watch_compilations == nullptr) return;
  place.driver.watch_compilations(
      [](void* argument, const softgpu::Compilation& compilation) {
        static_cast<Channel*>(argument)->Post(KernelCompiled{compilation.end - compilation.begin});
        TraceBuffer* const buffer = Tracing();
        if (buffer == nullptr) return;
        TraceRecord record;
        record.begin = compilation.begin;
        record.end = compilation.end;
        record.bytes = compilation.waited ? 1 : 0;
        record.SetName(compilation.kernel);
        record.kind = TraceKind::kCompile;
        buffer->Add(record);
      },
      place.channel.get());
}

// The software GPU has its own log.
void NameSoftwareDriver(const ProxyStart& start, const LoadedDriver& driver) {
  const softgpu::LogIdentity identity{start.run.c_str(), start.session, start.ordinal};
  if (driver.set_log_identity != nullptr) driver.set_log_identity(&identity);
}

Status StartServingSocket(ControlSocket& socket, ProxyResources& place) {
  Result<std::thread> thread =
      StartThread("cuspan-agent", [&socket, &place] { ServeSocket(socket, place); });
  if (thread.ok()) thread->detach();
  return thread.status();
}

// Creates the session with all its threads. It is never destroyed: kernels of a killed program may
// still run, and need their memory until this process ends. kExhausted if the system refuses
// another thread.
Result<DeviceSession*> StartSession(ControlSocket& socket, ProxyResources& place,
                                    std::optional<ExchangeSocket> exchange,
                                    std::unique_ptr<ShareSlot> slot, SubmitterThreads submitters)
    CUSPAN_REQUIRES(receiving_thread) {
  std::unique_ptr<DeviceSession> session;
  try {
    session = std::make_unique<DeviceSession>(place.driver.functions, *place.device, *place.channel,
                                              std::move(exchange), &place.joins, submitters);
    if (slot != nullptr) session->sharing().Begin(std::move(slot));
  } catch (const std::system_error& error) {
    return NoThread("of the session", error.code().value());
  }
  CUSPAN_RETURN_IF_ERROR(StartServingSocket(socket, place));
  return session.release();
}

int ServeDevice(ControlSocket& socket, const ProxyStart& start) {
  SetLogName(Format("cuspan proxy[{}]", start.name), "proxy", start.ordinal);
  SetLogRun(start.run, start.session);
  auto* place = new ProxyResources;  // Threads use it until the process ends.
  Status ready = CheckStart(start);
  if (ready.ok()) ready = ReceiveDescriptors(socket, start, *place);
  std::unique_ptr<ShareSlot> slot;
  if (ready.ok() && start.share) ready = AcquireShareSlot(start, *place, slot);
  if (ready.ok()) ready = OpenDriver(start, *place);
  if (ready.ok()) {
    NameSoftwareDriver(start, place->driver);
    ReportCompilations(*place);
  }
  if (ready.ok()) ready = KernelOutput::Install(*place->channel);
  if (ready.ok() && slot != nullptr) {
    Result<std::unique_ptr<ShareMemory>> memory = slot->OpenMemory();
    ready = memory.status();
    if (memory.ok()) place->device->memory().Count(std::move(*memory));
  }
  ProxyReady answer;
  answer.process = static_cast<std::uint32_t>(::getpid());
  answer.result = ready.ok() ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
  answer.message = ready.message();
  if (ready.ok()) {
    answer.window = place->device->window();
    answer.shared = place->device->shared().bytes != 0;
  }
  std::optional<ExchangeSocket> exchange;
  if (ready.ok()) {
    Result<ExchangeSocket> opened = ExchangeSocket::Open(start.secret);
    if (opened.ok())
      exchange.emplace(std::move(*opened));
    else
      LogWarn("no peer access from other GPUs of this node: {}", opened.status().message());
    if (exchange) answer.exchange = exchange->address;
  }
  // A software GPU serves to test everything, on any machine.
  SubmitterThreads submitters = SubmitterThreads::ForThisMachine();
  if (start.driver == "soft") submitters.most = std::max(submitters.most, kSubmittersOfSoftwareGpu);
  const ReceivingThread::Scope role(receiving_thread);
  DeviceSession* session = nullptr;
  if (ready.ok()) {
    Result<DeviceSession*> made =
        StartSession(socket, *place, std::move(exchange), std::move(slot), submitters);
    if (made.ok())
      session = *made;
    else
      answer.result = CUDA_ERROR_OPERATING_SYSTEM;
    ready = made.status();
    answer.message = ready.message();
  }
  if (!socket.Send(answer).ok() || !ready.ok()) return 1;

  // If this process was killed with its agent, MPS would end other runs, too. Instead, the thread
  // above notices the end of the socket. SIGCONT resumes the process if it was stopped.
  if (place->pairs != nullptr) ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const Status served = Serve(*session);
  session->sharing().End();
  LeavePairs(*place);
  if (served.ok()) return 0;
  LogError("the session was terminated: {}", served.message());
  return 1;
}

int ServeObserver(ControlSocket& socket, const ProxyStart& start) {
  SetLogName(Format("cuspan proxy[{}]", start.name), "proxy", start.ordinal);
  SetLogRun(start.run, start.session);
  auto* place = new ProxyResources;  // Threads use it until the process ends.
  Status ready = CheckStart(start);
  if (ready.ok()) ready = ReceiveDescriptors(socket, start, *place);
  std::unique_ptr<ShareMemory> memory;
  if (ready.ok() && start.share) {
    Result<std::unique_ptr<ShareMemory>> opened =
        ShareMemory::Open(std::move(place->share_table), start.share_location, std::nullopt);
    ready = opened.status();
    if (opened.ok()) memory = std::move(*opened);
  }
  ProxyReady answer;
  answer.process = static_cast<std::uint32_t>(::getpid());
  answer.result = ready.ok() ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
  answer.message = ready.message();
  answer.window = start.window;
  if (ready.ok()) {
    ready = StartServingSocket(socket, *place);
    if (!ready.ok()) answer.result = CUDA_ERROR_OPERATING_SYSTEM;
    answer.message = ready.message();
  }
  if (!socket.Send(answer).ok() || !ready.ok()) return 1;
  NvmlDevice device(start.uuid, std::move(memory));
  const Status served = Observe(*place->channel, device);
  if (served.ok()) return 0;
  LogError("the session was terminated: {}", served.message());
  return 1;
}

int ServeInventory(ControlSocket& socket, const InventoryRequest& request) {
  Result<std::vector<DeviceDescription>> devices = ReadInventory(request.driver, request.fresh);
  InventoryAnswer answer;
  answer.problem = devices.status().message();
  if (devices.ok()) answer.devices = std::move(*devices);
  return socket.Send(answer).ok() ? 0 : 1;
}

int Run(int socket_fd) {
  // If the parent has already ended, the first read reports it: the agent's end of the socket is
  // closed with the agent.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto* socket = new ControlSocket{UniqueFd(socket_fd)};
  Result<ControlSocket::Message> message =
      socket->Receive(kStartLimit, "start message from the agent");
  if (!message.ok()) {
    LogError("{}", message.status().message());
    return 1;
  }
  if (message->frame.op() == Op::kInventoryRequest) {
    Result<InventoryRequest> request = ParseMessage<InventoryRequest>(message->frame);
    if (request.ok()) return ServeInventory(*socket, *request);
    LogError("{}", request.status().message());
    return 1;
  }
  Result<ProxyStart> start = ParseMessage<ProxyStart>(message->frame);
  if (start.ok())
    return start->observe ? ServeObserver(*socket, *start) : ServeDevice(*socket, *start);
  LogError("{}", start.status().message());
  return 1;
}

}  // namespace
}  // namespace cuspan::proxy

int main(int argc, char** argv) {
  CLI::App app("executes one session's CUDA calls on one GPU; started by cuspan-agent");
  int socket = -1;
  std::vector<std::string> keeping;
  CLI::Option* const from_agent =
      app.add_option("--socket", socket, "the inherited socket to the agent")
          ->check(CLI::Range(3, 1 << 20));
  app.add_option(cuspan::proxy::kKeepPairServer, keeping, "started by another cuspan-proxy")
      ->expected(4)
      ->type_name("FOLDER TABLE GPU PROGRAM")
      ->excludes(from_agent);
  app.require_option(1);
  CLI11_PARSE(app, argc, argv);
  cuspan::SetLogName("cuspan proxy", "proxy");
  cuspan::KeepLogFromWaiting();
  // Exceeding RLIMIT_FSIZE is handled like other write errors.
  ::signal(SIGXFSZ, SIG_IGN);
  // The reader of the log may be gone; the session should still end normally.
  ::signal(SIGPIPE, SIG_IGN);
  // The client implements this variable. A blocking launch in this process would delay all streams.
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  if (!keeping.empty()) ::_exit(cuspan::proxy::KeepPairServer(keeping));
  // Ends without destructors: the session's threads may be inside the driver. It releases
  // everything when the process ends.
  ::_exit(cuspan::proxy::Run(socket));
}
