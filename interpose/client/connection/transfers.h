// Bulk bytes between the program's memory and one proxy, in chunks through the
// channel's staging slots.
//
// To the device: the copy op is posted in its stream; when it is next there the
// proxy asks for it (TransferClearToSend) and the chunks go, from the calling thread
// or, for copies that the caller does not wait for, from a thread of the connection, which gives
// all that are wanted their turns. From the device: the proxy pushes chunks; the receiver thread,
// or those that copy for it, store them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/connection/common.h"
#include "interpose/client/connection/host_rows.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Bytes on their way from the device. Complete when all lie in `destination`.
struct Incoming {
  std::byte* destination;
  std::uint64_t bytes;
  HostRows rows;                 // How they lie there.
  std::vector<std::byte> owned;  // The destination itself, when nobody else holds it.
  // Guarded by the mutex of the Transfers that it belongs to; `complete` is set last.
  std::uint64_t stored = 0;
  int storing = 0;     // Chunks that are being copied there now.
  bool ended = false;  // No more will come; complete when none is being copied.
  CUresult result = CUDA_SUCCESS;
  std::atomic<bool> complete{false};
};

class Transfers {
 public:
  // `common` outlives it. `device` is the program's number of it, for a trace.
  Transfers(Channel* channel, ConnectionCommon* common, int device)
      : channel_(channel), common_(common), device_(static_cast<std::uint32_t>(device)) {}
  ~Transfers();

  // --- To the device

  // Announces a transfer whose bytes the caller will send; its number goes into CopyToDevice.
  std::uint64_t BeginOutgoing();
  // Waits until the proxy wants it, then sends all; the source, which lies as `rows` say, is
  // free again afterwards. CUDA_SUCCESS, and nothing is sent, when the proxy refuses it: the
  // failure was posted.
  CUresult Send(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                const HostRows& rows = {});
  // To be called before SendLater. CUDA_ERROR_OPERATING_SYSTEM if no thread can be started.
  CUresult StartSender();
  // The same by the connection's own thread. The source stays in use until the stream has passed
  // the copy.
  void SendLater(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                 const HostRows& rows = {});
  // A number whose CopyToDevice could not be posted.
  void Forget(std::uint64_t transfer);

  // --- From the device

  std::uint64_t BeginIncoming(std::shared_ptr<Incoming> incoming);
  CUresult WaitComplete(const Incoming& incoming);
  // Whether no transfer is under way, in neither direction.
  bool Idle();
  // The bytes of a transfer to the device may be sent, or it is over.
  bool MaySend(std::uint64_t transfer);
  // Waits until as many chunks are stored.
  void WaitStored(std::uint64_t chunks);
  bool Stored(std::uint64_t chunks) const {
    return stored_chunks_.load(std::memory_order_acquire) >= chunks;
  }

  // --- Receiver thread

  // The bytes may be read when as many chunks are stored.
  void OnClearToSend(std::uint64_t transfer, std::uint64_t chunks);
  // False when the chunk is none of ours or out of bounds. One of a transfer that has failed, whose
  // failure may overtake it between nodes, gives its slot back and is otherwise of no use.
  bool OnChunk(const Chunk& chunk);
  // The same for one whose bytes are in the frame. Between nodes it may overtake chunks that lie in
  // slots: it is kept until those are stored, which may write to the same place.
  bool OnChunkInline(const ChunkInline& chunk);
  void OnFailed(std::uint64_t transfer, CUresult result);
  void FailAll(CUresult result);

 private:
  struct Outgoing {
    const std::byte* source = nullptr;
    std::uint64_t bytes = 0;
    HostRows rows;
    std::optional<std::uint64_t> wanted;  // When so many chunks are stored.
    bool by_sender = false;
    std::uint64_t sent = 0;
  };

  void SenderLoop();
  bool Wanted(const Outgoing& outgoing) const {
    return outgoing.wanted && Stored(*outgoing.wanted);
  }
  // Sends what comes next of it; true when that was all. Without the mutex.
  bool SendPart(std::uint64_t transfer, Outgoing& outgoing);
  // A chunk that has arrived.
  struct Piece {
    std::uint64_t number;  // Of the chunk, among all.
    std::uint64_t transfer;
    std::uint64_t offset;
    Bytes bytes;
    std::optional<std::uint32_t> slot;  // In which they lie.
    std::vector<std::byte> kept;        // Or where they do, when the frame is gone.
    bool waited = false;                // It was one of kept_.
  };
  // Where it is being copied to, in the program's memory.
  struct Destination {
    std::uint64_t transfer;
    HostSpan span;
  };
  // Whether it goes where a chunk of another transfer is being copied to now.
  bool MeetsOthers(const Piece& piece) const CUSPAN_REQUIRES(mutex_);
  // False when it belongs to no transfer, or to one that has no such bytes. To be stored now unless
  // `later`: then *incoming is its transfer, or null when that has failed.
  bool Begin(const Piece& piece, bool later, std::shared_ptr<Incoming>* incoming)
      CUSPAN_REQUIRES(mutex_);
  // Copies it to the program's memory, which may have to wait for a page there, and then those that
  // were kept until this one is stored.
  void Store(std::shared_ptr<Incoming> incoming, Piece piece);
  // The same for one of which nothing has to be copied.
  void Skip(const Piece& piece);
  // The chunk is stored, or of no use.
  void Done(const Piece& piece) CUSPAN_REQUIRES(mutex_);
  // Takes the next of those that were kept, if it may be stored now and there is something to copy.
  bool TakeKept(std::shared_ptr<Incoming>* incoming, Piece* piece) CUSPAN_REQUIRES(mutex_);
  // No more chunks of it will come.
  void EndIncoming(Incoming& incoming, CUresult result) CUSPAN_REQUIRES(mutex_);
  // Completes it if it may be.
  void Complete(Incoming& incoming) CUSPAN_REQUIRES(mutex_);

  Channel* const channel_;
  ConnectionCommon* const common_;
  const std::uint32_t device_;
  Mutex mutex_;
  std::condition_variable may_send_;  // A transfer of outgoing_ may be ready, or is no more.
  std::condition_variable received_;  // One of incoming_ is complete, or what stored_awaited_ says.
  std::uint64_t next_ CUSPAN_GUARDED_BY(mutex_) = 1;
  CUresult failed_ CUSPAN_GUARDED_BY(mutex_) = CUDA_SUCCESS;
  bool stopping_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, Outgoing> outgoing_
      CUSPAN_GUARDED_BY(mutex_);  // In the order in which they were begun.
  std::unordered_map<std::uint64_t, std::shared_ptr<Incoming>> incoming_ CUSPAN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> failed_incoming_
      CUSPAN_GUARDED_BY(mutex_);  // The last of those of which chunks may still come.
  std::vector<Destination> storing_ CUSPAN_GUARDED_BY(mutex_);  // What is being copied now.
  // Of the receiver thread: the chunks up to this number have arrived, and of those after them
  // these, which lay in frames.
  std::uint64_t arrived_chunks_ = 0;
  std::set<std::uint64_t> arrived_early_;
  // The first so many to arrive are stored, and of those after them these: however many, while a
  // thread that copies one of the first does not get its turn.
  std::atomic<std::uint64_t> stored_chunks_{0};
  std::set<std::uint64_t> stored_later_ CUSPAN_GUARDED_BY(mutex_);
  bool storing_kept_ CUSPAN_GUARDED_BY(mutex_) = false;  // One that was in kept_ is being copied.
  // By their number, chunks that wait until all before them are stored, and what came behind those:
  // inline ones, and those that go where others are being copied to.
  std::map<std::uint64_t, Piece> kept_ CUSPAN_GUARDED_BY(mutex_);
  // Until so many are stored, somebody waits to have it told, or to send.
  std::multiset<std::uint64_t> stored_awaited_ CUSPAN_GUARDED_BY(mutex_);
  std::multiset<std::uint64_t> send_awaits_stored_ CUSPAN_GUARDED_BY(mutex_);
  std::thread sender_;
};

}  // namespace cuspan
