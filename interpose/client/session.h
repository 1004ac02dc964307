// This process's use of the run's devices: the connection to the agent, the
// device list, streams, events and memory over all of them.
//
// The session starts at the program's first real use of CUDA and ends with the
// process. Results are the driver's; the runtime face turns them into
// cudaError_t. All functions may be called by any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "interpose/client/arrays.h"
#include "interpose/client/device_opener.h"
#include "interpose/client/event.h"
#include "interpose/client/host_calls.h"
#include "interpose/client/link.h"
#include "interpose/client/memory/host_memory.h"
#include "interpose/client/memory/memory_advice.h"
#include "interpose/client/peer_copies.h"
#include "interpose/client/peer_memory.h"

namespace cuspan {

class SharedEvent;

// A stream that the program made. `id` is its handle, in the program and at the proxy.
struct Stream {
  Stream(std::uint64_t id, int device, std::uint64_t link, unsigned flags, int priority)
      : id(id), device(device), link(link), flags(flags), priority(priority) {}
  const std::uint64_t id;
  const int device;
  const std::uint64_t link;  // Link::number() of the proxy that has it.
  const unsigned flags;
  const int priority;
  mutable std::atomic<bool> destroyed = false;
  // All that was posted to it up to this sequence is known to be complete, so that a program that
  // asks about an idle stream is answered here.
  mutable std::atomic<std::uint64_t> completed = 0;
};

// Where an op goes: a proxy, and the stream there (0: legacy default stream).
struct StreamTarget {
  std::shared_ptr<Link> link;
  std::uint64_t stream = 0;
};

// How a function takes stream 0: as the legacy default stream, or (its _ptds
// and _ptsz twin) as the calling thread's own.
enum class DefaultStream { kLegacy, kPerThread };

class Session {
 public:
  // The session of this process, started if it was not; null when it can not
  // be had, and then *result says why (and one line was logged).
  static Session* Get(CUresult* result);
  // The session if it was started and this process did not inherit it by fork.
  static Session* IfStarted();
  // Starts it with devices that `opener` opens, whose proxies ring `bell`; null if it was started.
  static Session* StartWith(std::unique_ptr<DeviceOpener> opener, Bell bell,
                            std::vector<DeviceDescription> devices);

  int device_count() const { return static_cast<int>(devices_.size()); }
  const DeviceDescription& description(int device) const { return devices_[device]->description; }

  // The proxy of a device, opened if it was not. Fails with the sticky error of a lost one.
  CUresult OpenLink(int device, std::shared_ptr<Link>* link);
  // The same if it is open already; null if not.
  std::shared_ptr<Link> OpenedLink(int device);
  // Of the calling thread's current device.
  CUresult CurrentLink(std::shared_ptr<Link>* link);
  // cudaDeviceReset: ends the device's proxy; its streams, events and memory are gone.
  CUresult Reset(int device);
  // cudaDeviceSynchronize for one device; fine when it was never opened.
  CUresult Synchronize(int device);
  // The program unloads the library that holds `fatbin`: no device has it any more.
  void Unload(const FatbinRecord& fatbin);

  // --- Streams
  CUresult CreateStream(unsigned flags, int priority, std::uint64_t* stream);
  CUresult DestroyStream(std::uint64_t stream);
  // Resolves a cudaStream_t / CUstream value. CUDA_ERROR_INVALID_HANDLE when it is none.
  CUresult ResolveStream(void* stream, DefaultStream meaning, StreamTarget* target);
  // What the program made; null for the default streams and unknown handles.
  std::shared_ptr<const Stream> FindStream(std::uint64_t stream) const;
  // A thread that ends gives back its own default stream of `device`.
  void DestroyThreadStream(int device, std::uint64_t link_number, std::uint64_t stream);
  CUresult SynchronizeStream(const StreamTarget& target);
  // The function that `call` returns runs on a thread of ours when the stream has come so far, and
  // the stream goes on after it (host_calls.cc). When the device is lost before, `call` is called
  // with the sticky error.
  using HostCall = std::function<HostFunction(CUresult)>;
  CUresult CallHost(const StreamTarget& target, HostCall call);
  // `call` runs when the stream has come so far. The stream does not wait for it, and the thread
  // that receives calls it: it must not wait for anything.
  CUresult WhenReached(const StreamTarget& target, std::function<void(CUresult)> call);
  // CUDA_ERROR_NOT_READY while work is pending.
  CUresult QueryStream(const StreamTarget& target);

  // --- Events, those of several processes among them (CU_EVENT_INTERPROCESS).
  CUresult CreateEvent(unsigned flags, std::uint64_t* event);
  // One of another process, as an event of the current device.
  CUresult AddSharedEvent(std::shared_ptr<SharedEvent> shared, unsigned flags,
                          std::uint64_t* event);
  // The same of a device that need not be the current one.
  CUresult CreateEventOn(const std::shared_ptr<Link>& link, unsigned flags, std::uint64_t* event);
  CUresult DestroyEvent(std::uint64_t event);
  CUresult RecordEvent(std::uint64_t event, const StreamTarget& target);
  CUresult QueryEvent(std::uint64_t event);
  CUresult SynchronizeEvent(std::uint64_t event);
  CUresult ElapsedTime(std::uint64_t start, std::uint64_t end, float* milliseconds);
  // The stream goes on when the event's latest record (as of now) is reached,
  // also when it belongs to another device.
  CUresult WaitEvent(const StreamTarget& target, std::uint64_t event);

  // --- Memory
  // On the current device. `bytes` > 0.
  CUresult Allocate(std::uint64_t bytes, std::uint64_t* address);
  // Waits for the device, as cudaFree does, where the program could see the difference: when work
  // under way may write memory that the host reads. CUDA_ERROR_INVALID_VALUE when nothing starts
  // there.
  CUresult Free(std::uint64_t address);
  // Device memory is shared with other processes from now on.
  void ShareWithOthers() { with_others_.store(true, std::memory_order_relaxed); }
  HostMemory& host_memory() { return host_memory_; }
  SharedRegion& shared() { return shared_; }
  ManagedVariables& managed_variables() { return managed_variables_; }
  // cudaMallocManaged, for the current device. `bytes` > 0.
  CUresult AllocateManaged(std::uint64_t bytes, std::uint64_t* address);
  MemoryAdvice& advice() { return advice_; }
  Arrays& arrays() { return arrays_; }
  PeerMemory& peers() { return peers_; }

  // What a pointer points into.
  struct PointerKind {
    enum { kUnknownHost, kPinnedHost, kDevice, kManaged } kind;
    int device = -1;               // All but kUnknownHost.
    std::uint64_t range_base = 0;  // The allocation or variable, where devices can use it.
    std::uint64_t range_bytes = 0;
  };
  PointerKind Classify(const void* pointer);
  // Whether `bytes` from there on go beyond the allocation or variable of a device that holds the
  // pointer. Other memory has no known end.
  bool RunsOver(const void* pointer, std::uint64_t bytes);

  // --- Copies (copy.cc). Extents are checked against what is allocated.
  struct CopyRequest {
    void* destination;
    const void* source;
    std::uint64_t bytes;
    int destination_device = -1;  // Both ≥ 0 for a peer copy; -1: what the pointers say.
    int source_device = -1;
    enum class Sides { kDefault, kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice } sides;
    bool asynchronous;
  };
  CUresult Copy(const CopyRequest& request, const StreamTarget& target);
  // --- Copies of boxes (copy_box.cc).
  // One side: a box in an array, or in memory, whose first row starts at `pointer`.
  struct BoxSide {
    std::shared_ptr<const Array> array;  // Null: memory.
    const void* pointer = nullptr;
    std::uint64_t pitch = 0;            // Of memory: bytes from one row to the next,
    std::uint64_t plane_rows = 0;       // and rows from one plane to the next.
    std::uint64_t x = 0, y = 0, z = 0;  // In an array: bytes, rows, planes.
  };
  struct BoxCopy {
    BoxSide destination;
    BoxSide source;
    BoxExtent extent;
    CopyRequest::Sides sides;
    bool asynchronous;
    int destination_device = -1;  // As in CopyRequest.
    int source_device = -1;
  };
  CUresult CopyBox(const BoxCopy& copy, const StreamTarget& target);
  // Whether both sides lie, as a whole, in the own memory or arrays of that device; and such a copy
  // as a node of a graph of the device.
  bool BothOn(const Link& link, const BoxCopy& copy) const;
  static GraphCopy AsNode(const BoxCopy& copy);
  // Sets rows of device memory to a byte.
  struct RowsSet {
    std::uint64_t address;
    std::uint64_t pitch;
    std::uint64_t width;
    std::uint64_t rows;
    std::uint32_t value;
  };
  CUresult SetRows(const RowsSet& set, const StreamTarget& target);
  // Sets elements of 1, 2 or 4 bytes. CUDA_ERROR_INVALID_VALUE for memory that is not there.
  CUresult SetElements(std::uint64_t address, std::uint32_t value, std::uint32_t element_bytes,
                       std::uint64_t elements, const StreamTarget& target);
  // Makes `waiting` wait for what is in `first` now, on whatever devices they are.
  CUresult Order(const StreamTarget& first, const StreamTarget& waiting);
  CUresult Set(std::uint64_t address, std::uint32_t value, std::uint64_t bytes, bool asynchronous,
               const StreamTarget& target);

 private:
  struct DeviceSlot {
    DeviceDescription description;
    std::mutex opening;  // One thread opens or closes; others wait.
    // Both guarded by links_mutex_.
    std::shared_ptr<Link> link;
    std::shared_ptr<Link> starting;  // Used by nobody but the one who opens it.
  };

  Session(std::unique_ptr<DeviceOpener> opener, Bell bell, std::vector<DeviceDescription> devices);
  static Session* Start(CUresult* result);
  // With the mutex of starting.
  static Session* Begin(std::unique_ptr<DeviceOpener> opener, Bell bell,
                        std::vector<DeviceDescription> devices);
  CUresult OpenNew(int device, std::shared_ptr<Link>* link);
  // Whether devices of this node have memory of their own for managed memory.
  bool MirrorsManagedHere() const;
  // For PeerCopies.
  CUresult Join(std::uint32_t join, int first, int second);
  void ReceiveLoop();
  std::vector<std::shared_ptr<Link>> Links() const;
  std::vector<std::shared_ptr<Connection>> Connections() const;
  CUresult ThreadStream(const std::shared_ptr<Link>& link, std::uint64_t* stream);
  // Asks the proxy whether, or waits until, all that is in the stream is complete, and remembers
  // it.
  template <typename Op>
  CUresult AskOfStream(const StreamTarget& target, const Op& op);
  // Null for unknown and destroyed events.
  std::shared_ptr<Event> FindEvent(std::uint64_t event) const;
  static bool IsComplete(const Event& event);
  void OnEventReached(const EventReached& reached);
  // Lets those go on who attend to the event: those who wait for this record of it, or, when its
  // device is lost, all.
  void Release(Event& event, std::optional<std::uint64_t> record, CUresult result);
  // Ends all waits for events of a lost device.
  void FailEvents(const Link& link);

  CUresult FreeManaged(std::uint64_t address);
  PointerKind ClassifyShared(const void* pointer);
  CUresult PostCopy(const CopyRequest& request, const StreamTarget& target, bool* waited);
  CUresult CopyHostToDevice(const CopyRequest& request, const StreamTarget& there);
  CUresult CopyDeviceToHost(const CopyRequest& request, const StreamTarget& there);
  // Posts `op`, a copy to a device, in the order of `there`, and sends it the bytes at `source`:
  // before it returns, or later.
  template <typename Op>
  CUresult SendBytes(const StreamTarget& there, Op& op, const std::byte* source,
                     std::uint64_t bytes, const HostRows& rows, bool later);
  // The same from a device; returns when the bytes are there, or at once.
  template <typename Op>
  CUresult ReceiveBytes(const StreamTarget& there, Op& op, std::byte* destination,
                        std::uint64_t bytes, const HostRows& rows, bool later);
  // The links of both sides of a copy, as LinkOf. Memory of the shared region counts as the other
  // side's device's where that reaches it: it needs no help to copy.
  struct Sides {
    std::shared_ptr<Link> to;
    std::shared_ptr<Link> from;
  };
  Sides SidesOf(const void* destination, const void* source);
  // The device that copies between two by itself, in the order of `target`: that one's, if it is
  // one of them. Null when neither has the other's memory.
  std::shared_ptr<Link> CopierOf(const Sides& sides, const void* destination, const void* source,
                                 const StreamTarget& target);
  // Posts `op`, a copy that `copier` does by itself, between the devices of `sides`. The
  // synchronous form starts after all earlier work of both, and waits.
  template <typename Op>
  CUresult CopyByItself(const std::shared_ptr<Link>& copier, const Sides& sides, bool asynchronous,
                        const StreamTarget& target, Op& op);
  // Between two devices that do not have each other's memory, in the order of `target`, which may
  // be a third one's.
  CUresult CopyPeer(const PeerCopies::Copy& copy, bool asynchronous, const StreamTarget& target);
  // Runs `op` in the order of `target` on `link`, which may be another device's.
  template <typename Use>
  CUresult OnDevice(const StreamTarget& target, const std::shared_ptr<Link>& link, Use&& op);
  // The link of the device that a pointer points into; null for host memory.
  std::shared_ptr<Link> LinkOf(const void* pointer);
  // The device may not have come to the copy yet, and the program may look at the memory of one of
  // its sides when the call returns, or another process may.
  bool MustWaitFor(const void* destination, const void* source, bool asynchronous) const {
    return !asynchronous && (shared_.Contains(reinterpret_cast<std::uintptr_t>(destination)) ||
                             shared_.Contains(reinterpret_cast<std::uintptr_t>(source)) ||
                             with_others_.load(std::memory_order_relaxed));
  }
  // Something that was begun earlier may still write to page-locked memory before a copy that is
  // posted now reads it.
  bool HostWritesPending() const {
    return common_.receiving.load(std::memory_order_acquire) != 0 ||
           pending_host_calls_.load(std::memory_order_acquire) != 0;
  }

  const std::unique_ptr<DeviceOpener> opener_;
  Bell bell_;
  std::vector<std::unique_ptr<DeviceSlot>> devices_;
  mutable std::shared_mutex links_mutex_;
  std::atomic<std::uint64_t> links_version_{1};
  std::atomic<std::uint64_t> next_link_{1};
  mutable std::shared_mutex streams_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Stream>> streams_;
  mutable std::shared_mutex events_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Event>> events_;
  ConnectionCommon common_;
  SharedRegion shared_{[this] { return Connections(); }};
  ManagedVariables managed_variables_{&shared_};
  MemoryAdvice advice_;
  PeerMemory peers_{[this] { return Links(); }};
  PeerCopies peer_copies_{
      [this](std::uint32_t join, int first, int second) { return Join(join, first, second); }};
  std::mutex managed_mutex_;
  std::unordered_map<std::uint64_t, int> managed_;  // Managed blocks, each with its device.
  HostMemory host_memory_{&shared_};
  HostCalls host_calls_;
  std::atomic<bool> with_others_{false};
  std::atomic<int> pending_host_calls_{0};  // CallHost's that have not run.
  Arrays arrays_;
  std::once_flag receiver_started_;
  std::thread receiver_;  // Runs until the process ends.
};

}  // namespace cuspan
