// Bulk bytes between the program's memory and one proxy, in chunks through the channel's staging
// slots. The proxy pushes chunks from the device. The receiver thread stores them, or copy threads
// on its behalf. OutgoingTransfers has the other direction.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/connection/common.h"
#include "interpose/client/connection/host_rows.h"
#include "interpose/client/connection/outgoing_transfers.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Takes the bytes of a transfer from the device, in place of memory.
class IncomingSink {
 public:
  virtual ~IncomingSink() = default;
  // Runs store(), a call of Store, on a thread that may block. Must not call the Transfers.
  virtual void Run(std::function<void()> store) = 0;
  virtual void Store(std::uint64_t offset, Bytes bytes) = 0;
};

// A transfer from the device. Complete when all bytes are in `destination`, or in the sink.
struct Incoming {
  HostSpan SpanAt(std::uint64_t offset, std::uint64_t count) const {
    return sink != nullptr ? HostSpan{} : SpanOf(rows, destination, offset, count);
  }

  std::byte* destination = nullptr;
  std::uint64_t bytes = 0;
  HostRows rows;                 // Layout at the destination.
  std::vector<std::byte> owned;  // The destination itself, if it has no other owner.
  std::unique_ptr<IncomingSink> sink;
  std::uint64_t sunk = 0;  // Bytes given to the sink.
  // Called when it is complete, or null. Must neither block nor call the Transfers.
  std::function<void(CUresult result)> at_end;
  // Guarded by the mutex of its Transfers; `complete` is set last.
  std::uint64_t stored = 0;
  int storing = 0;     // Chunks being copied there now.
  bool ended = false;  // No more chunks will come; complete when storing is 0.
  CUresult result = CUDA_SUCCESS;
  std::atomic<bool> complete{false};
};

// Numbers the chunks of a connection as the proxy does. Inline ones bring their numbers, and may
// overtake chunks in slots: these take the remaining numbers, in their order.
class ChunkArrivals {
 public:
  // Returns the number of a chunk in a slot.
  std::uint64_t Next();
  // Takes the number of an inline chunk. False if it is not possible.
  bool Take(std::uint64_t number);

 private:
  std::uint64_t without_gaps_ = 0;
  std::set<std::uint64_t> after_gap_;
};

class Transfers {
 public:
  // `common` outlives it. `device`: number in the program, for traces.
  Transfers(Channel* channel, ConnectionCommon* common, int device)
      : channel_(channel),
        common_(common),
        device_(static_cast<std::uint32_t>(device)),
        outgoing_(channel, common, device) {}
  ~Transfers();

  OutgoingTransfers& outgoing() { return outgoing_; }

  // Registers a transfer. Returns its number, an odd one.
  std::uint64_t BeginIncoming(std::shared_ptr<Incoming> incoming);
  // Removes it if its op could not be posted. False if it has failed with the device meanwhile: its
  // at_end was called, or is being called.
  bool Forget(std::uint64_t transfer);
  CUresult WaitComplete(const Incoming& incoming);
  // True if a transfer in flight, in either direction, may read or write these bytes.
  bool Uses(const HostSpan& span);
  // Blocks until `chunks` chunks are stored.
  void WaitStored(std::uint64_t chunks);
  bool Stored(std::uint64_t chunks) const {
    return stored_chunks_.load(std::memory_order_acquire) >= chunks;
  }

  // --- Receiver thread

  // False if the chunk belongs to no transfer or is out of bounds. Between nodes, a transfer's
  // failure may arrive before its chunks: a late chunk only returns its slot.
  bool OnChunk(const Chunk& chunk);
  // OnChunk for bytes inside the frame. Between nodes it may overtake chunks in slots; these may
  // write to the same location. It is kept until they are stored.
  bool OnChunkInline(const ChunkInline& chunk);
  void OnFailed(std::uint64_t transfer, CUresult result);
  void FailAll(CUresult result);

 private:
  // A received chunk.
  struct Piece {
    std::uint64_t number = 0;  // Position among all chunks.
    std::uint64_t transfer = 0;
    std::uint64_t offset = 0;
    Bytes bytes;
    std::optional<std::uint32_t> slot;  // Slot holding the bytes.
    // Holds them when the frame is gone.
    std::shared_ptr<const std::vector<std::byte>> kept;
    bool waited = false;  // True if it was in kept_.
  };
  // Target of a copy to the program's memory.
  struct Destination {
    std::uint64_t transfer;
    HostSpan span;
  };
  // True if its target overlaps the current target of another transfer's chunk.
  bool MeetsOthers(const Piece& piece) const CUSPAN_REQUIRES(mutex_);
  // False if it belongs to no transfer or is out of the transfer's bounds. Unless `later`, it is to
  // be stored now: *incoming becomes its transfer, or null if the transfer has failed.
  bool Begin(const Piece& piece, bool later, std::shared_ptr<Incoming>* incoming)
      CUSPAN_REQUIRES(mutex_);
  // Copies it to the program's memory, possibly waiting for a page there, and then the kept pieces
  // waiting for it.
  void Store(std::shared_ptr<Incoming> incoming, Piece piece);
  // Store without a copy, for a failed transfer.
  void Skip(const Piece& piece);
  // Counts the chunk as stored or dropped.
  void Done(const Piece& piece) CUSPAN_REQUIRES(mutex_);
  // Gives the piece to the transfer's sink. It counts as stored: completions do not wait for a slow
  // file. Its slot is in use until then.
  void Sink(const std::shared_ptr<Incoming>& incoming, Piece piece) CUSPAN_REQUIRES(mutex_);
  // Called on a thread of the sink; its connection exists until then.
  void FillSink(Incoming& incoming, const Piece& piece);
  void CountStored(Incoming& incoming, const Piece& piece) CUSPAN_REQUIRES(mutex_);
  // Takes the next kept piece, if it may be stored now and its transfer has not failed.
  bool PopKept(std::shared_ptr<Incoming>* incoming, Piece* piece) CUSPAN_REQUIRES(mutex_);
  // Ends a transfer: no more chunks of it will come.
  void EndIncoming(Incoming& incoming, CUresult result) CUSPAN_REQUIRES(mutex_);
  // Completes it if it has ended and no chunk is being copied.
  void Complete(Incoming& incoming) CUSPAN_REQUIRES(mutex_);

  Channel* const channel_;
  ConnectionCommon* const common_;
  const std::uint32_t device_;
  Mutex mutex_;
  // One of incoming_ is complete, or stored_awaited_ is reached.
  std::condition_variable received_;
  std::uint64_t next_ CUSPAN_GUARDED_BY(mutex_) = 1;
  CUresult failed_ CUSPAN_GUARDED_BY(mutex_) = CUDA_SUCCESS;
  bool stopping_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::uint64_t, std::shared_ptr<Incoming>> incoming_ CUSPAN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> failed_incoming_
      CUSPAN_GUARDED_BY(mutex_);  // The latest failed ones; chunks may still come.
  std::vector<Destination> storing_ CUSPAN_GUARDED_BY(mutex_);  // Targets being written now.
  ChunkArrivals arrived_;                                       // Owner: the receiving thread.
  // Number of chunks stored without gaps, and numbers of those stored after a gap. The set has no
  // limit: the thread copying an earlier chunk may not be scheduled.
  std::atomic<std::uint64_t> stored_chunks_{0};
  std::set<std::uint64_t> stored_later_ CUSPAN_GUARDED_BY(mutex_);
  bool storing_kept_ CUSPAN_GUARDED_BY(mutex_) = false;  // A piece of kept_ is being copied.
  // Chunks waiting until all before them are stored, by number: inline ones, those with a target
  // being written, and those arriving after them.
  std::map<std::uint64_t, Piece> kept_ CUSPAN_GUARDED_BY(mutex_);
  // Numbers of stored chunks awaited by WaitStored.
  std::multiset<std::uint64_t> stored_awaited_ CUSPAN_GUARDED_BY(mutex_);
  OutgoingTransfers outgoing_;
};

}  // namespace cuspan
