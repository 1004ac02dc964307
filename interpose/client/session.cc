#include "interpose/client/session.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "common/log.h"
#include "common/settings.h"
#include "interpose/client/agent_connection.h"
#include "interpose/client/background_thread.h"
#include "interpose/client/handles.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/pools.h"
#include "interpose/client/thread_state.h"

namespace cuspan {
namespace {

// Other reasons than work to look again are rare, and this is soon enough for them.
constexpr std::chrono::milliseconds kWatchedNap{1};

// The one session of the process. Never destroyed: the program may call us while it exits.
std::atomic<Session*> the_session{nullptr};
std::atomic<int> start_failure{CUDA_SUCCESS};
std::mutex start_mutex;

// After a fork the child has the parent's memory but neither its threads nor
// its devices: CUDA defines that it can not use them.
void BeforeFork() { start_mutex.lock(); }
void AfterForkInParent() { start_mutex.unlock(); }
void AfterForkInChild() {
  if (the_session.exchange(nullptr) != nullptr) start_failure.store(CUDA_ERROR_NOT_INITIALIZED);
  start_mutex.unlock();
}

}  // namespace

Session* Session::IfStarted() { return the_session.load(std::memory_order_acquire); }

Session* Session::Get(CUresult* result) {
  if (Session* session = IfStarted()) return session;
  return Start(result);
}

Session* Session::Start(CUresult* result) {
  std::lock_guard lock(start_mutex);
  if (Session* session = IfStarted()) return session;
  *result = static_cast<CUresult>(start_failure.load());
  if (*result != CUDA_SUCCESS) return nullptr;
  Result<AgentConnection::Introduced> known = AgentConnection::Introduce();
  if (!known.ok()) {
    LogError("no devices: {}", known.status().message());
    *result = CUDA_ERROR_NO_DEVICE;
    start_failure.store(*result);
    return nullptr;
  }
  if (known->devices.empty()) {
    LogInfo("CUDA_VISIBLE_DEVICES {}",
            known->result == CUDA_ERROR_INVALID_DEVICE
                ? "names a device twice: this program sees no devices"
                : "selects no device of the run: this program sees none");
    *result = known->result != CUDA_SUCCESS ? known->result : CUDA_ERROR_NO_DEVICE;
    start_failure.store(*result);
    return nullptr;
  }
  return Begin(std::move(known->agent), std::move(known->bell), std::move(known->devices));
}

Session* Session::StartWith(std::unique_ptr<DeviceOpener> opener, Bell bell,
                            std::vector<DeviceDescription> devices) {
  std::lock_guard lock(start_mutex);
  if (IfStarted() != nullptr) return nullptr;
  return Begin(std::move(opener), std::move(bell), std::move(devices));
}

Session* Session::Begin(std::unique_ptr<DeviceOpener> opener, Bell bell,
                        std::vector<DeviceDescription> devices) {
  static const int fork_handlers =
      ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(fork_handlers);
  auto* session = new Session(std::move(opener), std::move(bell), std::move(devices));
  the_session.store(session, std::memory_order_release);
  return session;
}

Session::Session(std::unique_ptr<DeviceOpener> opener, Bell bell,
                 std::vector<DeviceDescription> devices)
    : opener_(std::move(opener)), bell_(std::move(bell)) {
  for (DeviceDescription& description : devices) {
    devices_.push_back(std::make_unique<DeviceSlot>());
    devices_.back()->description = std::move(description);
  }
}

std::shared_ptr<Link> Session::OpenedLink(int device) {
  auto& lately = ThisThread().links;
  const auto key = static_cast<std::uint64_t>(device) + 1;
  const std::uint64_t version = links_version_.load();
  if (auto known = lately.Find(key, version); known != nullptr) return known;
  std::shared_lock lock(links_mutex_);
  const std::shared_ptr<Link>& link = devices_[static_cast<std::size_t>(device)]->link;
  return link == nullptr ? nullptr : lately.Keep(key, link, version);
}

std::vector<std::shared_ptr<Link>> Session::Links() const {
  std::vector<std::shared_ptr<Link>> links;
  std::shared_lock lock(links_mutex_);
  for (const auto& slot : devices_)
    for (const auto& link : {slot->link, slot->starting})
      if (link != nullptr) links.push_back(link);
  return links;
}

std::vector<std::shared_ptr<Connection>> Session::Connections() const {
  const auto links = Links();
  return {links.begin(), links.end()};
}

CUresult Session::OpenLink(int device, std::shared_ptr<Link>* link) {
  if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *link = OpenedLink(device);
  if (*link == nullptr) {
    std::lock_guard opening(devices_[static_cast<std::size_t>(device)]->opening);
    *link = OpenedLink(device);
    if (*link == nullptr)
      if (const CUresult result = OpenNew(device, link); result != CUDA_SUCCESS) return result;
  }
  return (*link)->fault();
}

bool Session::MirrorsManagedHere() const {
  // Of several devices one at a time could work on it.
  if (device_count() != 1) return false;
  return std::strcmp(SettingText(settings::kManaged), "host") != 0;
}

CUresult Session::OpenNew(int device, std::shared_ptr<Link>* link) {
  OpenDevice request;
  request.device = static_cast<std::uint32_t>(device);
  request.shared = shared_.window();
  request.file_bytes = shared_.FileBytes(MirrorsManagedHere());
  Result<DeviceOpener::Opened> asked = opener_->Open(request, shared_.file());
  if (!asked.ok() || asked->answer.result != CUDA_SUCCESS) {
    LogError("device {} cannot be opened: {}", device,
             asked.ok() ? asked->answer.message : asked.status().message());
    return asked.ok() ? static_cast<CUresult>(asked->answer.result) : CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  const DeviceOpened& opened = asked->answer;
  Result<Bell> peer = Bell::Open(std::move(asked->bell));
  Result<std::unique_ptr<Channel>> channel =
      peer.ok() ? Channel::Attach(std::move(asked->channel), ChannelSide::kClient, &bell_,
                                  std::move(*peer))
                : peer.status();
  if (!channel.ok()) {
    LogError("device {} cannot be opened: {}", device, channel.status().message());
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  const DeviceDescription& description = devices_[static_cast<std::size_t>(device)]->description;
  LinkParts parts;
  parts.place = {device, description.agent, description.ordinal, opened.relayed, opened.exchange};
  if (opened.shared) {
    parts.place.sharing = opened.relayed ? Sharing::kMirrored : Sharing::kMemory;
    parts.place.mirrors_managed = opened.relayed || MirrorsManagedHere();
  }
  parts.number = next_link_.fetch_add(1);
  parts.window = opened.window;
  parts.channel = std::move(*channel);
  parts.common = &common_;
  parts.region = &shared_;
  parts.variables = &managed_variables_;
  parts.pieces = &peers_;
  auto made = std::make_shared<Link>(std::move(parts));
  made->SetOnEvent([this](const EventReached& reached) { OnEventReached(reached); });
  DeviceSlot& slot = *devices_[static_cast<std::size_t>(device)];
  {
    std::lock_guard lock(links_mutex_);
    slot.starting = made;
    links_version_.fetch_add(1);
  }
  std::call_once(receiver_started_, [this] {
    receiver_ = StartBackgroundThread("cuspan-receive", [this] { ReceiveLoop(); });
  });
  bell_.Ring();
  const CUresult attached = shared_.Attach(*made);
  if (attached != CUDA_SUCCESS) {
    LogError("device {} cannot use the program's managed and mapped memory: CUDA error {}", device,
             static_cast<int>(attached));
    made->Fail(attached);
  }
  {
    std::lock_guard lock(links_mutex_);
    slot.link = made;
    slot.starting = nullptr;
    links_version_.fetch_add(1);
  }
  bell_.Ring();
  *link = std::move(made);
  return CUDA_SUCCESS;
}

CUresult Session::Join(std::uint32_t join, int first, int second) {
  const Status sent =
      opener_->Join({join, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)});
  if (sent.ok()) return CUDA_SUCCESS;
  LogError("devices {} and {} cannot be connected: {}", first, second, sent.message());
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Session::CurrentLink(std::shared_ptr<Link>* link) {
  return OpenLink(ThisThread().current_device, link);
}

void Session::Unload(const FatbinRecord& fatbin) {
  managed_variables_.Unload(fatbin);
  for (const auto& link : Links()) link->modules().Unload(fatbin);
}

CUresult Session::Reset(int device) {
  if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  DeviceSlot& slot = *devices_[static_cast<std::size_t>(device)];
  std::lock_guard opening(slot.opening);
  const std::shared_ptr<Link> link = OpenedLink(device);
  if (link == nullptr) return CUDA_SUCCESS;
  // A healthy device finishes what it has, as cudaDeviceReset does.
  if (link->fault() == CUDA_SUCCESS) static_cast<void>(link->Synchronize(DeviceSynchronize{}));
  link->Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  shared_.Forget(*link);
  managed_variables_.Forget(*link);
  {
    std::lock_guard lock(links_mutex_);
    slot.link = nullptr;
    links_version_.fetch_add(1);
  }
  {
    std::lock_guard lock(streams_mutex_);
    std::erase_if(streams_, [&](const auto& entry) {
      const bool gone = entry.second->link == link->number();
      if (gone) entry.second->destroyed.store(true, std::memory_order_release);
      return gone;
    });
  }
  peers_.Forget(*link);
  peer_copies_.ForgetLink(*link);
  arrays_.Forget(*link);
  Pools::Get().ForgetLink(*link);
  IpcMemory::Get().ForgetLink(*link);
  FailEvents(*link);
  {
    std::lock_guard lock(events_mutex_);
    std::erase_if(events_, [&](const auto& entry) {
      const bool gone = entry.second->link == link;
      if (gone) entry.second->destroyed.store(true);
      return gone;
    });
  }
  // The agent closes the channel: a proxy that found it closed before the agent knows why would
  // count as lost.
  const Status closed = opener_->Close(static_cast<std::uint32_t>(device));
  link->channel().Close(false);
  if (closed.ok()) return CUDA_SUCCESS;
  LogError("device {} cannot be reset: {}", device, closed.message());
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Session::Synchronize(int device) {
  const std::shared_ptr<Link> link = OpenedLink(device);
  if (link == nullptr) return CUDA_SUCCESS;
  const CUresult result = link->Synchronize(DeviceSynchronize{});
  return result != CUDA_SUCCESS ? result : link->TakePostedFailure();
}

void Session::ReceiveLoop() {
  const WaitStages stages = WaitStages::ForThisMachine();
  std::vector<std::shared_ptr<Link>> links;
  std::vector<std::shared_ptr<Link>> failed;
  std::uint64_t version = 0;
  const auto lately_failed = [&](const std::shared_ptr<Link>& link) {
    return link->fault() != CUDA_SUCCESS &&
           std::find(failed.begin(), failed.end(), link) == failed.end();
  };
  const auto all_watched = [&] {
    return !links.empty() && std::all_of(links.begin(), links.end(),
                                         [](const auto& link) { return link->watched(); });
  };
  for (;;) {
    if (const std::uint64_t now = links_version_.load(); now != version) {
      version = now;
      links = Links();
      failed.clear();
    }
    // Else the agent would wake this thread again and again for what others take. With an idle
    // device beside theirs it still does: somebody has to hear of that one.
    if (all_watched()) bell_.Nap(all_watched, kWatchedNap);
    // The time-out is for the agent's death alone: whatever else happens rings.
    const bool woken = bell_.Wait(
        [&] {
          if (links_version_.load(std::memory_order_relaxed) != version) return true;
          for (const auto& link : links)
            if (link->HasWork() || lately_failed(link)) return true;
          return all_watched();
        },
        std::chrono::milliseconds(250), stages);
    for (const auto& link : links) {
      while (link->Receive() && link->fault() == CUDA_SUCCESS && links_version_.load() == version) {
      }
      if (lately_failed(link)) {
        failed.push_back(link);
        FailEvents(*link);
      }
    }
    if (!woken && opener_->Gone()) {
      LogError("the agent of this node has exited; all devices are lost");
      for (const auto& link : Links()) {
        link->Fail(CUDA_ERROR_DEVICE_UNAVAILABLE);
        FailEvents(*link);
      }
      return;
    }
  }
}

}  // namespace cuspan
