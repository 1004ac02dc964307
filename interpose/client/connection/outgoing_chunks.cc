#include "interpose/client/connection/outgoing_chunks.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "common/trace.h"

namespace cuspan {
namespace {

// Minimum size for several threads: below it, waking them takes longer than copying.
constexpr std::uint64_t kMinShared = 2 << 20;

// After this number of consecutive waits for a slot a thread stops: slots are the bottleneck, and
// returning a slot would have to wake all waiting threads.
constexpr int kWaitsInARow = 4;
// Number of remaining threads: one fills a slot while the other waits for the next.
constexpr int kWhoStay = 2;

// State of the threads sending together.
struct Shared {
  Shared(Channel& channel, const OutgoingBytes& bytes, std::uint64_t begin, std::uint64_t end)
      : channel(channel), bytes(bytes), next(begin), end(end) {}

  // Returns the next piece, without a slot; nothing if all are taken.
  std::optional<Chunk> NextPiece() {
    Chunk chunk;
    chunk.transfer = bytes.transfer;
    chunk.offset = next.load(std::memory_order_relaxed);
    do {
      if (chunk.offset >= end) return std::nullopt;
      chunk.bytes = channel.ChunkBytes(chunk.offset, end);
    } while (!next.compare_exchange_weak(chunk.offset, chunk.offset + chunk.bytes,
                                         std::memory_order_relaxed));
    return chunk;
  }
  // Sends pieces until all are taken, or until other threads suffice.
  void Work() {
    working.fetch_add(1);
    int waits = 0;
    while (!failed.load(std::memory_order_relaxed)) {
      if (waits >= kWaitsInARow) {
        if (working.fetch_sub(1) > kWhoStay) return;
        working.fetch_add(1);
      }
      std::optional<Chunk> piece = NextPiece();
      if (!piece) return;
      std::optional<std::uint32_t> slot = channel.TryAcquireSlot();
      waits = slot ? 0 : waits + 1;
      if (!slot) slot = channel.AcquireSlot();
      if (!slot) {
        failed.store(true, std::memory_order_relaxed);
        return;
      }
      Chunk& chunk = *piece;
      chunk.slot = *slot;
      const TraceSpan span;
      if (bytes.fill)
        chunk.bytes = static_cast<std::uint32_t>(
            bytes.fill(chunk.offset, {channel.OutgoingSlot(*slot), chunk.bytes}));
      else if (bytes.source != nullptr)
        PackRows(bytes.rows, bytes.source, chunk.offset, chunk.bytes, channel.OutgoingSlot(*slot));
      if (chunk.bytes == 0) {
        channel.ReturnSlot(*slot);
        continue;
      }
      span.Done(TraceKind::kIntoStaging, bytes.device, bytes.transfer, chunk.offset, chunk.bytes);
      sent.fetch_add(chunk.bytes, std::memory_order_relaxed);
      if (channel.Post(chunk) == 0) failed.store(true, std::memory_order_relaxed);
    }
  }
  // Work on a helper thread; it may start after the end.
  void Help() {
    {
      const MutexLock lock(mutex);
      if (over) return;
      ++helpers;
    }
    Work();
    const MutexLock lock(mutex);
    if (--helpers == 0) done.notify_all();
  }
  // Waits for running helpers and turns away later ones: the channel and the bytes may be freed
  // afterwards.
  void End() {
    MutexLock lock(mutex);
    over = true;
    // Helpers end with the pieces or the channel.
    done.wait(lock, [this]() CUSPAN_REQUIRES(mutex) { return helpers == 0; });
  }

  Channel& channel;
  const OutgoingBytes bytes;
  std::atomic<std::uint64_t> next;
  std::atomic<std::uint64_t> sent{0};  // Bytes.
  const std::uint64_t end;
  std::atomic<bool> failed{false};
  std::atomic<int> working{0};  // Threads taking pieces; inexact once all are taken.
  Mutex mutex;
  std::condition_variable done;
  int helpers CUSPAN_GUARDED_BY(mutex) = 0;
  bool over CUSPAN_GUARDED_BY(mutex) = false;
};

}  // namespace

CUresult SendChunks(Channel& channel, CopyThreads& threads, const OutgoingBytes& bytes,
                    std::uint64_t begin, std::uint64_t end) {
  const auto shared = std::make_shared<Shared>(channel, bytes, begin, end);
  if (end - begin >= kMinShared) {
    // At least two slots per thread: one is filled while the other is in flight.
    const unsigned most = std::max(channel.layout().staging_slots / 2, 1U);
    for (unsigned i = 1; i < std::min(threads.count(), most); ++i)
      threads.Run([shared] { shared->Help(); });
  }
  shared->Work();
  shared->End();
  if (shared->failed) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  channel.statistics().bytes_to_device.fetch_add(shared->sent.load(), std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace cuspan
