// One client's use of one device: everything that the handlers work on.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "common/mutex.h"
#include "proxy/bulk/exchange.h"
#include "proxy/bulk/join_inbox.h"
#include "proxy/bulk/peer_copies.h"
#include "proxy/bulk/peer_memory.h"
#include "proxy/bulk/transfers.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/events.h"
#include "proxy/gpu/mappings.h"
#include "proxy/gpu/patch_kernel.h"
#include "proxy/gpu/reservations.h"
#include "proxy/nccl/collectives.h"
#include "proxy/objects/array.h"
#include "proxy/objects/code.h"
#include "proxy/objects/graph.h"
#include "proxy/objects/handle_table.h"
#include "proxy/objects/kernel_table.h"
#include "proxy/session/shared_session.h"
#include "proxy/sharing/share_gate.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/signals.h"
#include "proxy/streams/stream.h"
#include "proxy/streams/timeline.h"
#include "proxy/streams/worker.h"

namespace cuspan::proxy {

// Device addresses outside the window that the client may copy to and from:
// the variables of modules. Threads: any.
class VariableRanges {
 public:
  void Add(std::uint64_t module, std::uint64_t address, std::uint64_t bytes);
  void RemoveModule(std::uint64_t module);
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Range {
    std::uint64_t bytes;
    std::uint64_t module;
  };
  mutable Mutex mutex_;
  std::map<std::uint64_t, Range> ranges_ CUSPAN_GUARDED_BY(mutex_);
};

struct DeviceSession {
  // All outlive the session. The device's context is current to the
  // calling thread, which becomes the receiving thread. Without `exchange` no other proxy of the
  // node can have this device's memory, nor this one others'; without `joins` none can send it any.
  DeviceSession(const Driver& driver, const Device& device, Channel& channel,
                std::optional<ExchangeSocket> exchange = std::nullopt, JoinInbox* joins = nullptr);

  const Driver& driver;
  const Device& device;
  Channel& channel;
  JoinInbox* const joins;

  Faults faults;
  EventPool
      plain_events;  // Without times: cheaper; for our own marks and for events that want none.
  EventPool timing_events;                // For cudaEventElapsedTime.
  HandleTable<Stream> streams{"stream"};  // The receiving thread's, as are the events and signals.
  HandleTable<Event> events{"event"};
  Signals signals;
  HandleTable<Module> modules{"module"};
  HandleTable<Linker> linkers{"linker"};
  HandleTable<Kernel> kernels{"kernel"};  // Filled by the worker, read by the receiving thread.
  HandleTable<Array> arrays{"array"};     // The same, as the textures and surfaces.
  HandleTable<Texture> textures{"texture"};
  HandleTable<Surface> surfaces{"surface"};
  HandleTable<Graph> graphs{"graph"};  // The receiving thread's.
  HandleTable<GraphExec> executors{
      "executable graph"};  // Filled by the worker, read by the receiving thread.
  VariableRanges variables;
  Mappings mappings;  // Of the worker, as the reservations and the peers.
  Reservations reservations;
  PeerMemory peers;
  std::optional<Exchange> exchange;
  // Lanes of destroyed streams that may have work on the device, each with the
  // number of ops after which it has none.
  std::vector<std::pair<std::shared_ptr<Completer::Lane>, std::uint64_t>> old_lanes;
  std::shared_ptr<Stream> legacy;
  PatchKernel patch_kernel;              // The receiving thread's.
  std::vector<void*> argument_pointers;  // Of the launch that is being submitted.
  StreamQueues queues;
  std::atomic<std::uint64_t> holds_done = 0;  // Of HoldStreamsDuring, by the worker.
  Transfers transfers;
  PeerCopies peer_copies;
  Collectives collectives;
  std::unique_ptr<SharedSession> shared;  // With the gate.
  std::unique_ptr<ShareGate> gate;        // None where no other run may use the GPU.
  std::unique_ptr<KernelTable>
      kernel_table;  // The worker's; none without a gate, or where none is kept.
  // The worker's tasks use what is above, and the completer's answers that and the worker: the last
  // to be made ends first, and with its thread what may come from there.
  Worker worker;
  Completer completer;
  Timeline timeline;

  // The stream of a handle in an op; 0 and 1 are the legacy stream. kInvalid when there is none.
  Result<std::shared_ptr<Stream>> FindStream(std::uint64_t handle);
  // Whether the client may copy to or from this memory.
  bool MayTouch(std::uint64_t address, std::uint64_t bytes) const {
    return device.InWindow(address, bytes) || device.InShared(address, bytes) ||
           variables.Contains(address, bytes) || peers.Contains(address, bytes) ||
           reservations.Contains(address, bytes);
  }
  // Notes what the driver said to an op that was handed to it. `units` is how
  // much of the driver's room for pending work the op takes; see kMostPending.
  void Submitted(const std::shared_ptr<Stream>& stream, const Origin& origin, CUresult result,
                 std::uint64_t units = 1) {
    if (result != CUDA_SUCCESS) [[unlikely]]
      return faults.Posted(origin, result);
    stream->submitted += units;
    stream->turn = ++turns_;
    if (stream->submitted - stream->marked >= kMarkEvery) [[unlikely]]
      Mark(stream);
  }
  // No stream goes on until the worker has done work(), nor after it before the receiving thread
  // comes to GoOn.
  void HoldStreamsDuring(std::function<void()> work);
  // Whether something that had to wait, for the device, another thread or another process, may go
  // on. Cheap; for Bell::Wait.
  bool MayGoOn();
  void GoOn();

  // Calls `answer` (on the completer's or this thread, or at once) when all that was
  // handed to the driver in `stream` so far is complete.
  void WhenStreamDone(Stream& stream, Answer answer);
  // A wait for what nothing follows asks the stream itself, which spares this thread and the device
  // an event. To be called before anything more is handed to the driver.
  void StopAsking() {
    if (!asked_.empty()) [[unlikely]]
      RecordAsked();
  }
  // The stream is about to be destroyed in the driver.
  void Forsake(Stream& stream);
  // The same for everything that arrived on any stream before now, what waits
  // in the queues included.
  void WhenDeviceDone(Answer answer);
  // The same for what was handed to the driver so far. Any op may follow after StopAsking.
  void WhenHandedOverDone(Answer answer);
  // Whether no stream but this one has anything to do, in the queues or on the device.
  bool OthersIdle(const Stream& stream);
  // Whether no stream but this one has anything on the device. Asks the driver about those that
  // were not asked since they were given something.
  bool OthersDone(const Stream& stream);
  // Whether all that was handed over in `stream` is known to be complete. The legacy stream also
  // stands for the work of those that keep order with it.
  bool Done(const Stream& stream);
  // Takes the batches away from all streams that have any made of kernels of `module`; without it
  // from all. They end with the last who holds them, or when they are told to.
  std::vector<std::shared_ptr<LaunchBatches>> TakeBatches(std::optional<std::uint64_t> module);
  // Prunes old_lanes.
  void ForgetOldLanes();

  // The run may share the GPU with others from now on. To be called before the first op.
  void Share(std::unique_ptr<ShareSeat> seat);
  // Kernels have been measured: keeps what was learnt, from time to time.
  void KeepKernelTimes();
  // The session is over: tells the others so, and keeps what was learnt.
  void EndSharing();
  // Whether others share it.
  bool SharesNow() const { return gate != nullptr && gate->sharing(); }

  // Drops what waits, once the device is lost.
  void DropAll();

 private:
  // The vendor's driver makes the calling thread wait when about 1,020 ops of a
  // stream are pending, or when its room for the bytes of small copies (some
  // MiB; both measured) is used up, and with it every other stream that the thread
  // serves. So a stream is paused long before, and resumed when half of it is done.
  static constexpr std::uint64_t kMostPending = 256;
  static constexpr std::uint64_t kMarkEvery = 64;
  void WriteKernelTimes();
  void Mark(const std::shared_ptr<Stream>& stream);
  // Of streams that were paused because too much of them was pending.
  bool SomeMayResume() const;
  void ResumeStreams();
  // Of HoldStreamsDuring.
  bool AllMayResume() const { return holds_done.load(std::memory_order_acquire) != holds_resumed_; }
  void ResumeAll();
  void RecordAsked();

  // Streams that are asked as long as nothing follows, by those who still wait.
  std::vector<std::weak_ptr<AskedStream>> asked_;
  std::vector<std::shared_ptr<Stream>> paused_;
  std::uint64_t holds_resumed_ = 0;  // Of holds_done.
  std::uint64_t turns_ = 0;
  // Of kernel_table: it is being written.
  const std::shared_ptr<std::atomic<bool>> keeping_times_ =
      std::make_shared<std::atomic<bool>>(false);
};

// What the bytes of a small copy weigh beside the op itself, for DeviceSession::Submitted.
inline constexpr std::uint64_t kInlineBytesPerUnit = 1024;

// A reply that says only that the call failed.
template <typename T>
typename T::Reply FailedReply(CUresult result) {
  typename T::Reply reply;
  reply.result = result;
  return reply;
}

}  // namespace cuspan::proxy
