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

// Below it waking others takes longer than copying.
constexpr std::uint64_t kMinShared = 2 << 20;

// Who found no free slot so many times in a row is not needed: the slots are what the others wait
// for, too, and whoever returns them would have to wake all.
constexpr int kWaitsInARow = 4;
// So many stay: one fills a slot while the other waits for the next.
constexpr int kWhoStay = 2;

// What several threads send together.
struct Shared {
  Shared(Channel& channel, const OutgoingBytes& bytes, std::uint64_t begin, std::uint64_t end)
      : channel(channel), bytes(bytes), next(begin), end(end) {}

  // The next piece, which has no slot yet; nothing when all are taken.
  std::optional<Chunk> TakePiece() {
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
  // Takes pieces until there are none, or until others are enough for them.
  void Work() {
    working.fetch_add(1);
    int waits = 0;
    while (!failed.load(std::memory_order_relaxed)) {
      if (waits >= kWaitsInARow) {
        if (working.fetch_sub(1) > kWhoStay) return;
        working.fetch_add(1);
      }
      std::optional<Chunk> piece = TakePiece();
      if (!piece) return;
      std::optional<std::uint32_t> slot = channel.TryTakeSlot();
      waits = slot ? 0 : waits + 1;
      if (!slot) slot = channel.TakeSlot();
      if (!slot) {
        failed.store(true, std::memory_order_relaxed);
        return;
      }
      Chunk& chunk = *piece;
      chunk.slot = *slot;
      const TraceSpan span;
      PackRows(bytes.rows, bytes.source, chunk.offset, chunk.bytes, channel.OutgoingSlot(*slot));
      span.Done(TraceKind::kIntoStaging, bytes.device, bytes.transfer, chunk.offset, chunk.bytes);
      if (channel.Post(chunk) == 0) failed.store(true, std::memory_order_relaxed);
    }
  }
  // The same by a thread that may come when all is over.
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
  // Those who help are done, and nobody else will: the channel and the bytes may go.
  void End() {
    MutexLock lock(mutex);
    over = true;
    // Ends as they do: with the pieces, or with the channel.
    done.wait(lock, [this]() CUSPAN_REQUIRES(mutex) { return helpers == 0; });
  }

  Channel& channel;
  const OutgoingBytes bytes;
  std::atomic<std::uint64_t> next;
  const std::uint64_t end;
  std::atomic<bool> failed{false};
  std::atomic<int> working{0};  // Threads that take pieces; no longer right when all are taken.
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
    // Two slots at least for each: one is filled while the other is on its way.
    const unsigned most = std::max(channel.layout().staging_slots / 2, 1U);
    for (unsigned i = 1; i < std::min(threads.count(), most); ++i)
      threads.Run([shared] { shared->Help(); });
  }
  shared->Work();
  shared->End();
  if (shared->failed) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  channel.statistics().bytes_to_device.fetch_add(end - begin, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace cuspan
