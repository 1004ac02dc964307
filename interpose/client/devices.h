// The devices of this process and their contexts: opening, resetting, receiving.
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

// Returns the calling thread's current device.
int CurrentDevice();

// Arguments common to all ContextConnections. All outlive the devices.
struct DeviceParts {
  ConnectionCommon* common;
  SharedRegion* region;
  ManagedVariables* variables;
  PieceListener* pieces;
  // Called for completions and for communicators, on the receiving thread.
  std::function<void(const EventReached&)> on_event;
  std::function<void(const ContextConnection&, const CommunicatorNotice&)> on_communicator;
};

// Threads: any. Results are the driver's. Lives as long as the process.
class Devices {
 public:
  // Proxies of the devices opened by `opener` ring `bell`.
  Devices(std::unique_ptr<DeviceOpener> opener, Bell bell,
          std::vector<DeviceDescription> descriptions, DeviceParts parts);
  Devices(const Devices&) = delete;

  int count() const { return static_cast<int>(primary_.size()); }
  const DeviceDescription& description(int device) const {
    return descriptions_[static_cast<std::size_t>(device)];
  }
  // Returns the primary context of a device.
  Context& Primary(int device) { return *primary_[static_cast<std::size_t>(device)]; }
  // Returns the calling thread's current context; if none is current, the first device's primary
  // one.
  Context& CurrentContext();
  // Returns the context at this address, possibly a destroyed one. Null if it never existed or was
  // destroyed long ago.
  Context* Find(const void* context) const;
  // Creates a context of a device and begins its generation.
  CUresult Create(int device, Context** context);
  // Ends a created context for good. CUDA_ERROR_CONTEXT_IS_DESTROYED if it has ended already.
  CUresult Destroy(Context& context);

  // Text of CUDA_ERROR_DEVICE_UNAVAILABLE naming the lost devices and the reasons; null if no
  // device is lost. Valid as long as the process lives.
  const char* lost_text() const { return parts_.common->lost_devices.text(); }

  // Returns the context's generation, begun if necessary. Fails with the sticky error of a lost
  // device.
  CUresult Open(Context& context, std::shared_ptr<ContextConnection>* connection);
  // Returns the generation if it has begun; null otherwise.
  std::shared_ptr<ContextConnection> Opened(const Context& context) const;
  // Opens the current context if it is one of this device, else the primary context.
  // CUDA_ERROR_INVALID_DEVICE if the device does not exist.
  CUresult Open(int device, std::shared_ptr<ContextConnection>* connection);
  // Returns the generation of this context if it has begun; null otherwise, or if the device does
  // not exist.
  std::shared_ptr<ContextConnection> OpenedFor(int device);
  std::shared_ptr<ContextConnection> Opened(int device) { return Opened(Primary(device)); }
  // Opens the current context for a call of the runtime: the runtime keeps it, and it becomes the
  // thread's current one.
  CUresult OpenCurrent(std::shared_ptr<ContextConnection>* connection);
  // Returns all generations begun or beginning.
  std::vector<std::shared_ptr<ContextConnection>> ContextConnections() const;
  std::vector<std::shared_ptr<Connection>> Connections() const;
  // Returns use(const std::shared_ptr<ContextConnection>&) for the ContextConnection accepted by
  // surely(const ContextConnection&). Otherwise for one accepted by perhaps(const
  // ContextConnection&): the current context's or the first. Otherwise for null. All are called
  // with a lock held.
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

  // Returns the ContextConnection with this number; null after its end.
  std::shared_ptr<ContextConnection> ConnectionNumbered(std::uint64_t number) {
    return FindLink(
        [number](const ContextConnection& connection) { return connection.number() == number; },
        [](const ContextConnection&) { return false; });
  }

  // Ends the context's generation and removes its objects from all tables.
  CUresult Reset(Context& context);
  // Notifies the table of contexts ending from now on, after the tables added before. It outlives
  // the devices.
  void AddTable(ContextTable* table);

  // Waits for all work of the context; CUDA_SUCCESS if it has no generation.
  CUresult Synchronize(const Context& context);
  // Removes `fatbin` from all devices: the program unloads its library.
  void Unload(const FatbinRecord& fatbin);
  // Requests a channel between the proxies of two contexts.
  CUresult Join(std::uint32_t join, const Context& first, const Context& second);
  // Wakes the receiver thread.
  void Wake() { bell_.Ring(); }

 private:
  // Calls use(const Context&) for all contexts.
  template <typename Use>
  void ForEach(Use&& use) const CUSPAN_REQUIRES_SHARED(connections_mutex_) {
    for (const auto& context : primary_) use(*context);
    for (const auto& context : created_) use(*context);
  }
  Context* ContextFor(int device);
  CUresult OpenNew(Context& context, std::shared_ptr<ContextConnection>* connection);
  Result<std::unique_ptr<Channel>> Attach(DeviceOpener::Opened& opened);
  // Moves an ended context to destroyed_.
  void Retire(const Context& context);
  void SetConnections(Context& context, std::shared_ptr<ContextConnection> connection,
                      std::shared_ptr<ContextConnection> starting);
  // False if its thread cannot be started.
  bool StartReceiving();
  // Never returns: every wait of the program relies on it to detect the agent's end.
  void ReceiveLoop();
  // Fails all ContextConnections after the end of the agent.
  void LoseAll();
  // Notifies all tables.
  void ReportLost(const ContextConnection& connection);
  std::vector<ContextTable*> Tables() const;

  const std::unique_ptr<DeviceOpener> opener_;
  Bell bell_;
  // True if devices of this node keep managed memory in device memory.
  const bool mirrors_managed_here_;
  const std::vector<DeviceDescription> descriptions_;
  const DeviceParts parts_;
  std::vector<std::shared_ptr<Context>> primary_;  // Indexed by device.
  mutable SharedMutex connections_mutex_;          // Guards the generations of all contexts.
  std::vector<std::shared_ptr<Context>> created_ CUSPAN_GUARDED_BY(connections_mutex_);
  // Number of destroyed contexts kept: their handles are not reused at once.
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
