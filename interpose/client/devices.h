// The devices of this process and their contexts: who is opened, reset and received from.
#pragma once

#include <cuda.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"
#include "interpose/client/device_opener.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// The calling thread's current device.
int CurrentDevice();

// What all connections are made with. All outlive the devices.
struct DeviceParts {
  ConnectionCommon* common;
  SharedRegion* region;
  ManagedVariables* variables;
  PieceListener* pieces;
  // Are told of completions, and of communicators, by the thread that receives.
  std::function<void(const EventReached&)> on_event;
  std::function<void(const ContextConnection&, const CommunicatorNotice&)> on_communicator;
};

// Any thread. Results are the driver's. Lives as long as the process.
class Devices {
 public:
  // Proxies of devices that `opener` opens ring `bell`.
  Devices(std::unique_ptr<DeviceOpener> opener, Bell bell,
          std::vector<DeviceDescription> descriptions, DeviceParts parts);
  Devices(const Devices&) = delete;

  int count() const { return static_cast<int>(primary_.size()); }
  const DeviceDescription& description(int device) const {
    return descriptions_[static_cast<std::size_t>(device)];
  }
  // The primary context of a device.
  Context& Primary(int device) { return *primary_[static_cast<std::size_t>(device)]; }
  // The calling thread's current context: the first device's primary one, if it has made none
  // current.
  Context& CurrentContext();
  // The context with that address, which may be destroyed; null when there is none, or was long
  // ago.
  Context* Find(const void* context) const;
  // A new context of a device, and its life.
  CUresult Create(int device, Context** context);
  // Ends a created context for good. CUDA_ERROR_CONTEXT_IS_DESTROYED where it has ended already.
  CUresult Destroy(Context& context);

  // The text of CUDA_ERROR_DEVICE_UNAVAILABLE where devices are lost, with which and why; null
  // where none is. Valid as long as the process lives.
  const char* lost_text() const { return parts_.common->lost_devices.text(); }

  // The life of a context, begun if it was not. Fails with the sticky error of a lost device.
  CUresult Open(Context& context, std::shared_ptr<ContextConnection>* connection);
  // The same if it has begun already; null if not.
  std::shared_ptr<ContextConnection> Opened(const Context& context) const;
  // Of the current context where it is one of that device, else of the primary one.
  // CUDA_ERROR_INVALID_DEVICE when there is no such device.
  CUresult Open(int device, std::shared_ptr<ContextConnection>* connection);
  // The same if it has begun already; null if not, or there is no such device.
  std::shared_ptr<ContextConnection> OpenedFor(int device);
  std::shared_ptr<ContextConnection> Opened(int device) { return Opened(Primary(device)); }
  // Of the current context, for a call of the runtime: it keeps the context, and the thread has it
  // as its current one from then on.
  CUresult OpenCurrent(std::shared_ptr<ContextConnection>* connection);
  // All that have begun.
  std::vector<std::shared_ptr<ContextConnection>> ContextConnections() const;
  std::vector<std::shared_ptr<Connection>> Connections() const;
  // use(const std::shared_ptr<ContextConnection>&) → any value, with the life that surely(const
  // ContextConnection&) holds for; else of those that perhaps(const ContextConnection&) holds for
  // the current context's, or the first. With null when there is none. All are called with a lock
  // held.
  template <typename Surely, typename Perhaps, typename Use>
  auto VisitConnection(Surely&& surely, Perhaps&& perhaps, Use&& use) {
    static const std::shared_ptr<ContextConnection> none;
    const std::shared_ptr<ContextConnection>* found = nullptr;
    const Context* const current = &CurrentContext();
    const ReaderLock lock(connections_mutex_);
    ForEach([&](const Context& context) {
      if (context.connection_ == nullptr || (found != nullptr && &context != current)) return;
      if (surely(*context.connection_)) found = &context.connection_;
    });
    if (found != nullptr) return use(*found);
    ForEach([&](const Context& context) {
      if (context.connection_ == nullptr || !perhaps(*context.connection_)) return;
      if (found == nullptr || &context == current) found = &context.connection_;
    });
    return use(found != nullptr ? *found : none);
  }
  template <typename Surely, typename Perhaps>
  std::shared_ptr<ContextConnection> FindLink(Surely&& surely, Perhaps&& perhaps) {
    return VisitConnection(
        surely, perhaps,
        [](const std::shared_ptr<ContextConnection>& connection) { return connection; });
  }

  // The life of that number; null where it has ended.
  std::shared_ptr<ContextConnection> ConnectionNumbered(std::uint64_t number) {
    return FindLink(
        [number](const ContextConnection& connection) { return connection.number() == number; },
        [](const ContextConnection&) { return false; });
  }

  // Ends the context's life; what belongs to it is gone from all tables.
  CUresult Reset(Context& context);
  // The table is told of contexts that end from now on, after those that were added before. It
  // outlives the devices.
  void AddTable(ContextTable* table);

  // Waits for all work of the context; fine where it has no life.
  CUresult Synchronize(const Context& context);
  // The program unloads the library that holds `fatbin`: no device has it any more.
  void Unload(const FatbinRecord& fatbin);
  // Asks for a channel between the proxies of two contexts.
  CUresult Join(std::uint32_t join, const Context& first, const Context& second);
  // Wakes the thread that receives.
  void Wake() { bell_.Ring(); }

 private:
  // use(const Context&) for all of them.
  template <typename Use>
  void ForEach(Use&& use) const CUSPAN_REQUIRES_SHARED(connections_mutex_) {
    for (const auto& context : primary_) use(*context);
    for (const auto& context : created_) use(*context);
  }
  Context* ContextFor(int device);
  CUresult OpenNew(Context& context, std::shared_ptr<ContextConnection>* connection);
  Result<std::unique_ptr<Channel>> Attach(DeviceOpener::Opened& opened);
  // The context has ended for good.
  void Retire(const Context& context);
  void SetConnections(Context& context, std::shared_ptr<ContextConnection> connection,
                      std::shared_ptr<ContextConnection> starting);
  // False if no thread can be started for it.
  bool StartReceiving();
  // Ends never: every wait of the program relies on it to end when the agent does.
  void ReceiveLoop();
  // The agent has ended, and with it what all connections lead to.
  void LoseAll();
  // All tables hear of it.
  void SayLost(const ContextConnection& connection);
  std::vector<ContextTable*> Tables() const;

  const std::unique_ptr<DeviceOpener> opener_;
  Bell bell_;
  // Whether devices of this node have memory of their own for managed memory.
  const bool mirrors_managed_here_;
  const std::vector<DeviceDescription> descriptions_;
  const DeviceParts parts_;
  std::vector<std::shared_ptr<Context>> primary_;  // By device.
  mutable SharedMutex connections_mutex_;          // Of the lives of all contexts.
  std::vector<std::shared_ptr<Context>> created_ CUSPAN_GUARDED_BY(connections_mutex_);
  // The last ones that were destroyed: their handles are not given out again at once.
  static constexpr std::size_t kDestroyedKept = 64;
  std::deque<std::shared_ptr<Context>> destroyed_ CUSPAN_GUARDED_BY(connections_mutex_);
  std::uint64_t last_context_ CUSPAN_GUARDED_BY(connections_mutex_) = 0;  // Context::number().
  std::atomic<std::uint64_t> connections_version_{1};
  std::atomic<std::uint64_t> next_connection_{1};
  mutable Mutex tables_mutex_;
  std::vector<ContextTable*> tables_ CUSPAN_GUARDED_BY(tables_mutex_);
  Mutex receiver_mutex_;
  std::thread receiver_ CUSPAN_GUARDED_BY(receiver_mutex_);  // Runs until the process ends.
};

}  // namespace cuspan
