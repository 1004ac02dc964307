#include "interpose/client/devices.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {
namespace {

// Back-off sleep while waiting threads receive: other reasons to wake are rare.
constexpr std::chrono::milliseconds kWatchedSleep{1};
// Interval of the checks for the agent's end and for proxies not answering: neither rings the bell.
constexpr std::chrono::milliseconds kAgentCheck{1000 / AnswerWatch::kPollsPerSecond};
// The same while no thread waits for a device. After a pause, a wake-up and two system calls take
// some 0.25 ms.
constexpr std::chrono::milliseconds kIdleCheck{1000};

// True if devices of the program's node keep managed memory in device memory. A single GPU does:
// its kernels are faster there. A software GPU uses the program's memory.
bool MirrorsManaged(const std::vector<DeviceDescription>& devices) {
  const char* const wanted = SettingText(settings::kManaged);
  if (std::strcmp(wanted, "auto") != 0 && std::strcmp(wanted, "device") != 0 &&
      std::strcmp(wanted, "host") != 0)
    LogWarn("{} must be auto, device or host, not '{}': auto is used", settings::kManaged.name,
            wanted);
  // Only one of several devices could work on it at a time.
  if (devices.size() != 1 || std::strcmp(wanted, "host") == 0) return false;
  return !devices.front().in_host_memory || std::strcmp(wanted, "device") == 0;
}

std::vector<DeviceDescription> Described(std::vector<DeviceDescription> devices,
                                         bool mirrors_managed) {
  if (mirrors_managed)
    for (DeviceDescription& device : devices) device.in_host_memory = false;
  return devices;
}

}  // namespace

int CurrentDevice() {
  const Context* const current = ThisThread().contexts.top();
  return current != nullptr ? current->device() : 0;
}

Devices::Devices(std::unique_ptr<DeviceOpener> opener, Bell bell,
                 std::vector<DeviceDescription> descriptions, DeviceParts parts)
    : opener_(std::move(opener)),
      bell_(std::move(bell)),
      mirrors_managed_here_(MirrorsManaged(descriptions)),
      descriptions_(Described(std::move(descriptions), mirrors_managed_here_)),
      parts_(std::move(parts)) {
  for (std::size_t device = 0; device < descriptions_.size(); ++device)
    primary_.push_back(std::make_shared<Context>(Context::Kind::kPrimary, ++last_context_,
                                                 static_cast<int>(device)));
}

Context& Devices::CurrentContext() {
  Context* const current = ThisThread().contexts.top();
  return current != nullptr ? *current : Primary(0);
}

Context* Devices::Find(const void* context) const {
  for (const auto& primary : primary_)
    if (primary.get() == context) return primary.get();
  const ReaderLock lock(connections_mutex_);
  for (const auto& created : created_)
    if (created.get() == context) return created.get();
  for (const auto& destroyed : destroyed_)
    if (destroyed.get() == context) return destroyed.get();
  return nullptr;
}

CUresult Devices::OpenCurrent(std::shared_ptr<ContextConnection>* connection) {
  ThreadState& thread = ThisThread();
  Context& context = CurrentContext();
  if (!thread.in_driver_call && !context.used_by_runtime.load(std::memory_order_relaxed)) {
    context.used_by_runtime.store(true, std::memory_order_relaxed);
  }
  if (thread.contexts.top() == nullptr) thread.contexts.Set(&context);
  return Open(context, connection);
}

std::shared_ptr<ContextConnection> Devices::Opened(const Context& context) const {
  auto& lately = ThisThread().connections;
  const std::uint64_t version = connections_version_.load();
  if (auto known = lately.Find(context.number(), version); known != nullptr) return known;
  const ReaderLock lock(connections_mutex_);
  if (context.connection_ == nullptr) return nullptr;
  return lately.Keep(context.number(), context.connection_, version);
}

std::vector<std::shared_ptr<ContextConnection>> Devices::ContextConnections() const {
  std::vector<std::shared_ptr<ContextConnection>> connections;
  const ReaderLock lock(connections_mutex_);
  ForEach([&](const Context& context) {
    for (const auto& connection : {context.connection_, context.starting_})
      if (connection != nullptr) connections.push_back(connection);
  });
  return connections;
}

std::vector<std::shared_ptr<Connection>> Devices::Connections() const {
  const auto connections = ContextConnections();
  return {connections.begin(), connections.end()};
}

// --- Generations of contexts

CUresult Devices::Open(int device, std::shared_ptr<ContextConnection>* connection) {
  Context* const context = ContextFor(device);
  return context != nullptr ? Open(*context, connection) : CUDA_ERROR_INVALID_DEVICE;
}

std::shared_ptr<ContextConnection> Devices::OpenedFor(int device) {
  const Context* const context = ContextFor(device);
  return context != nullptr ? Opened(*context) : nullptr;
}

Context* Devices::ContextFor(int device) {
  if (device < 0 || device >= count()) return nullptr;
  Context& current = CurrentContext();
  return current.device() == device ? &current : &Primary(device);
}

CUresult Devices::Open(Context& context, std::shared_ptr<ContextConnection>* connection) {
  *connection = Opened(context);
  if (*connection == nullptr) {
    const MutexLock opening(context.opening_);
    *connection = Opened(context);
    if (*connection == nullptr) {
      if (context.destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
      if (const CUresult result = OpenNew(context, connection); result != CUDA_SUCCESS)
        return result;
    }
  }
  return (*connection)->fault();
}

CUresult Devices::Create(int device, Context** context) {
  Context* made = nullptr;
  {
    const WriterLock lock(connections_mutex_);
    made = created_
               .emplace_back(
                   std::make_shared<Context>(Context::Kind::kCreated, ++last_context_, device))
               .get();
  }
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = Open(*made, &connection); result != CUDA_SUCCESS) {
    made->destroyed_.store(true, std::memory_order_release);
    Retire(*made);
    return result;
  }
  *context = made;
  return CUDA_SUCCESS;
}

CUresult Devices::Destroy(Context& context) {
  if (context.destroyed_.exchange(true)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CUresult result = Reset(context);
  Retire(context);
  return result;
}

void Devices::Retire(const Context& context) {
  std::shared_ptr<Context> oldest;  // Destroyed after the lock is released.
  const WriterLock lock(connections_mutex_);
  const auto known = std::find_if(created_.begin(), created_.end(),
                                  [&](const auto& created) { return created.get() == &context; });
  destroyed_.push_back(std::move(*known));
  created_.erase(known);
  if (destroyed_.size() <= kDestroyedKept) return;
  oldest = std::move(destroyed_.front());
  destroyed_.pop_front();
}

Result<std::unique_ptr<Channel>> Devices::Attach(DeviceOpener::Opened& opened) {
  Result<Bell> peer = Bell::Open(std::move(opened.bell));
  if (!peer.ok()) return peer.status();
  return Channel::Attach(std::move(opened.channel), ChannelSide::kClient, &bell_, std::move(*peer));
}

void Devices::SetConnections(Context& context, std::shared_ptr<ContextConnection> connection,
                             std::shared_ptr<ContextConnection> starting) {
  const WriterLock lock(connections_mutex_);
  context.generation_.store(connection == nullptr
                                ? Context::GenerationOf(0, CUDA_ERROR_CONTEXT_IS_DESTROYED)
                                : Context::GenerationOf(connection->number(), CUDA_SUCCESS),
                            std::memory_order_release);
  // A failure while starting is found here, or Connection::Fail finds the generation.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (connection != nullptr && connection->fault() != CUDA_SUCCESS)
    context.Fail(connection->number(), connection->fault());
  context.connection_ = std::move(connection);
  context.starting_ = std::move(starting);
  connections_version_.fetch_add(1);
}

CUresult Devices::OpenNew(Context& context, std::shared_ptr<ContextConnection>* connection) {
  const int device = context.device();
  if (!StartReceiving()) return CUDA_ERROR_OPERATING_SYSTEM;
  OpenDevice request;
  request.context = context.agent_number();
  request.device = static_cast<std::uint32_t>(device);
  request.shared = parts_.region->window();
  request.file_bytes = parts_.region->FileBytes(mirrors_managed_here_);
  Result<DeviceOpener::Opened> asked = opener_->Open(request, parts_.region->file());
  if (!asked.ok() || asked->answer.result != CUDA_SUCCESS) {
    LogError("device {} cannot be opened: {}", device,
             asked.ok() ? asked->answer.message : asked.status().message());
    return asked.ok() ? static_cast<CUresult>(asked->answer.result) : CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  Result<std::unique_ptr<Channel>> channel = Attach(*asked);
  if (!channel.ok()) {
    LogError("device {} cannot be opened: {}", device, channel.status().message());
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  const DeviceOpened& opened = asked->answer;
  ContextConnectionParts parts;
  parts.context = &context;
  const DeviceDescription& known = description(device);
  parts.place.device = device;
  parts.place.name = Format("{} {} on host {}", known.name, known.ordinal, known.host);
  parts.place.agent = known.agent;
  parts.place.ordinal = known.ordinal;
  parts.place.process = static_cast<pid_t>(opened.process);
  parts.place.relayed = opened.relayed;
  parts.place.exchange = opened.exchange;
  if (opened.shared) {
    parts.place.sharing = opened.relayed ? Sharing::kMirrored : Sharing::kMemory;
    parts.place.mirrors_managed = opened.relayed || mirrors_managed_here_;
    parts.place.places_variables = known.in_host_memory && !parts.place.mirrors_managed;
  }
  parts.number = next_connection_.fetch_add(1);
  parts.window = opened.window;
  parts.channel = std::move(*channel);
  parts.common = parts_.common;
  parts.region = parts_.region;
  parts.variables = parts_.variables;
  parts.pieces = parts_.pieces;
  parts.on_event = &parts_.on_event;
  parts.on_communicator = &parts_.on_communicator;
  auto made = std::make_shared<ContextConnection>(std::move(parts));
  SetConnections(context, nullptr, made);
  bell_.Ring();
  if (const CUresult attached = parts_.region->Attach(*made); attached != CUDA_SUCCESS) {
    LogError("device {} cannot use the program's managed and mapped memory: CUDA error {}", device,
             static_cast<int>(attached));
    made->Fail(attached);
  }
  if (made->fault() == CUDA_SUCCESS)
    for (ContextTable* const table : Tables()) table->Began(*made);
  SetConnections(context, made, nullptr);
  bell_.Ring();
  *connection = std::move(made);
  return CUDA_SUCCESS;
}

CUresult Devices::Reset(Context& context) {
  const MutexLock opening(context.opening_);
  context.used_by_runtime.store(false, std::memory_order_relaxed);
  const std::shared_ptr<ContextConnection> connection = Opened(context);
  if (connection == nullptr) return CUDA_SUCCESS;
  // A healthy device finishes its work, like in cudaDeviceReset.
  if (connection->fault() == CUDA_SUCCESS)
    static_cast<void>(connection->Synchronize(DeviceSynchronize{}));
  connection->Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  parts_.common->lost_devices.Remove(connection->number());
  parts_.region->Forget(*connection);
  parts_.variables->Forget(*connection);
  SetConnections(context, nullptr, nullptr);
  parts_.common->blocks_version.fetch_add(1, std::memory_order_release);
  for (ContextTable* const table : Tables()) table->Forget(*connection);
  // The agent closes the channel: if a proxy found it closed before the agent knows the reason, it
  // would count as lost.
  const Status closed = opener_->Close(context.agent_number());
  connection->channel().Close(false);
  if (closed.ok()) return CUDA_SUCCESS;
  LogError("device {} cannot be reset: {}", context.device(), closed.message());
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void Devices::AddTable(ContextTable* table) {
  const MutexLock lock(tables_mutex_);
  tables_.push_back(table);
}

std::vector<ContextTable*> Devices::Tables() const {
  const MutexLock lock(tables_mutex_);
  return tables_;
}

void Devices::ReportLost(const ContextConnection& connection) {
  for (ContextTable* const table : Tables()) table->Lost(connection);
}

// --- All devices

CUresult Devices::Synchronize(const Context& context) {
  const std::shared_ptr<ContextConnection> connection = Opened(context);
  if (connection == nullptr) return CUDA_SUCCESS;
  if (const CUresult lost = connection->fault(); lost != CUDA_SUCCESS) return lost;
  const bool idle =
      !connection->channel().closed() && connection->last_posts().Stored(connection->LastPosted());
  const CUresult result =
      idle ? connection->Synchronized(true) : connection->Synchronize(DeviceSynchronize{});
  return result != CUDA_SUCCESS ? result : connection->ConsumePostedFailure();
}

void Devices::Unload(const FatbinRecord& fatbin) {
  parts_.variables->Unload(fatbin);
  for (const auto& connection : ContextConnections()) connection->modules().Unload(fatbin);
}

CUresult Devices::Join(std::uint32_t join, const Context& first, const Context& second) {
  const Status sent = opener_->Join({join, first.agent_number(), second.agent_number()});
  if (sent.ok()) return CUDA_SUCCESS;
  LogError("devices {} and {} cannot be connected: {}", first.device(), second.device(),
           sent.message());
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

// --- Receiving

bool Devices::StartReceiving() {
  {
    const MutexLock lock(receiver_mutex_);
    if (!receiver_.joinable())
      receiver_ = StartBackgroundThread("cuspan-receive", [this] { ReceiveLoop(); });
    if (!receiver_.joinable()) return false;
  }
  bell_.Ring();
  return true;
}

void Devices::ReceiveLoop() {
  const WaitStages stages = WaitStages::ForThisMachine();
  constexpr WaitStages kSleepAtOnce{std::chrono::nanoseconds(0), std::chrono::nanoseconds(0)};
  std::vector<std::shared_ptr<ContextConnection>> connections;
  std::vector<std::shared_ptr<ContextConnection>> failed;
  std::uint64_t version = 0;
  bool agent_gone = false;
  bool quiet = false;  // The last wait ended without work: another one will not end soon.
  auto checked = std::chrono::steady_clock::now();
  const auto lately_failed = [&](const std::shared_ptr<ContextConnection>& connection) {
    return connection->fault() != CUDA_SUCCESS &&
           std::find(failed.begin(), failed.end(), connection) == failed.end();
  };
  const auto all_watched = [&] {
    return !connections.empty() &&
           std::all_of(connections.begin(), connections.end(),
                       [](const auto& connection) { return connection->receiver().watched(); });
  };
  for (;;) {
    if (const std::uint64_t now = connections_version_.load(); now != version) {
      version = now;
      connections = ContextConnections();
      failed.clear();
    }
    // Otherwise the agent would wake this thread constantly for messages received by other threads.
    // It still does beside an idle device: its messages need this thread.
    if (all_watched()) bell_.ShortSleep(all_watched, kWatchedSleep);
    const bool idle =
        quiet && std::none_of(connections.begin(), connections.end(), [](const auto& connection) {
          return connection->channel().waited_for();
        });
    // The time-out is for the checks below: everything else rings the bell.
    quiet = !bell_.Wait(
        [&] {
          if (connections_version_.load(std::memory_order_relaxed) != version) return true;
          for (const auto& connection : connections)
            if (connection->receiver().HasWork() || lately_failed(connection)) return true;
          return all_watched();
        },
        idle ? kIdleCheck : kAgentCheck, quiet ? kSleepAtOnce : stages);
    for (const auto& connection : connections) {
      while (connection->receiver().Receive() && connection->fault() == CUDA_SUCCESS &&
             connections_version_.load() == version) {
      }
      if (lately_failed(connection)) {
        failed.push_back(connection);
        ReportLost(*connection);
      }
    }
    // Checked under constant traffic, too: it may concern other devices than the awaited one.
    if (const auto now = std::chrono::steady_clock::now(); now - checked >= kAgentCheck) {
      checked = now;
      if (!agent_gone && opener_->Gone()) {
        agent_gone = true;
        LogError("the agent of this node has exited; all devices are lost");
      }
      if (agent_gone) LoseAll();
      for (const auto& connection : connections) connection->PollAnswers(opener_->process());
    }
  }
}

// Called repeatedly: a device may have been opened while the agent ended.
void Devices::LoseAll() {
  for (const auto& connection : ContextConnections())
    if (connection->fault() == CUDA_SUCCESS)
      connection->Lose(connection->LossSentence("the agent of this node has exited"));
}

}  // namespace cuspan
