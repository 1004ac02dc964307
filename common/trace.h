// What a process does with the bytes of transfers, and when: for `cuspan run --trace`.
//
// Each process of a traced run has a buffer of its own, memory that its agent
// made and reads at the end; so what was recorded is there however the process
// ends. Without a trace Tracing() is null, and that is all that it costs.
//
// Times are nanoseconds of HostMonotonicNow(), which all processes of a node share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/shared_memory.h"

namespace cuspan {

enum class TraceKind : std::uint16_t {
  kNone,
  kIntoStaging,     // Client: the program's memory into a staging buffer,
  kOutOfStaging,    // and back.
  kNetworkSend,     // Agent: from the start of sending a chunk until its buffer is free again,
  kNetworkReceive,  // and from its announcement until it is there.
  kToDevice,        // Proxy, by the device's own clock: the copy engine to the device,
  kFromDevice,      // from it,
  kOnDevice,        // and from one place of devices to another;
  kKernel,
  kPeerSend,     // the same for copies between devices through staging buffers: from the one,
  kPeerReceive,  // and to the other.
  kCollective,   // What NCCL does; `transfer` is the number of ranks.
  kTimeSlice,    // The session may hand work to a GPU that others share; `name` says how.
  kCompile,      // The software GPU compiles a kernel; `bytes` is 1 where a launch waited for it.
};
inline constexpr std::uint16_t kTraceKinds = 14;

struct TraceRecord {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t transfer = 0;  // Its number on the link of its device; 0 for what has none.
  std::uint64_t offset = 0;    // Of the chunk, in the transfer.
  std::uint64_t bytes = 0;     // Of a kernel: its stream.
  std::uint32_t session = 0;   // Of an agent's record; of the others their process tells it.
  std::uint32_t device = 0;
  std::atomic<TraceKind> kind = TraceKind::kNone;  // Written last.
  char name[78] = {};  // Of a kernel, collective or turn, cut off there; ends with 0.

  TraceRecord() = default;
  TraceRecord(const TraceRecord& other) { *this = other; }
  TraceRecord& operator=(const TraceRecord& other);
  void SetName(std::string_view text);
};
static_assert(sizeof(TraceRecord) == 128);

class TraceBuffer {
 public:
  static constexpr std::uint64_t kRecords = 1 << 20;

  // The memory of a new one; pages of it exist when they are written.
  static Result<UniqueFd> Create();
  // Maps one. kInvalid when `fd` is none.
  static Result<std::unique_ptr<TraceBuffer>> Open(int fd);

  // Any thread. What does not fit any more is counted, not kept.
  void Add(const TraceRecord& record);

  // Copies of all that is complete; as many as may be read of a peer's memory.
  std::vector<TraceRecord> Records() const;
  std::uint64_t dropped() const;

 private:
  struct Header {
    std::atomic<std::uint64_t> count;
  };
  explicit TraceBuffer(Mapping mapping) : mapping_(std::move(mapping)) {}
  Header* header() const { return reinterpret_cast<Header*>(mapping_.data()); }
  TraceRecord* records() const {
    return reinterpret_cast<TraceRecord*>(mapping_.data() + sizeof(TraceRecord));
  }
  Mapping mapping_;
};

namespace trace_internal {
inline std::atomic<TraceBuffer*> own{nullptr};
}  // namespace trace_internal

// This process's buffer, or null.
inline TraceBuffer* Tracing() { return trace_internal::own.load(std::memory_order_acquire); }
// From now on this process records into `buffer`, for as long as it lives.
void StartTracing(std::unique_ptr<TraceBuffer> buffer);

std::uint64_t TraceNow();

// Records from its making to its Done, where this process traces.
class TraceSpan {
 public:
  TraceSpan() : buffer_(Tracing()), begin_(buffer_ != nullptr ? TraceNow() : 0) {}
  void Done(TraceKind kind, std::uint32_t device, std::uint64_t transfer, std::uint64_t offset,
            std::uint64_t bytes, std::uint32_t session = 0) const {
    if (buffer_ != nullptr) [[unlikely]]
      Add(kind, session, device, transfer, offset, bytes);
  }

 private:
  void Add(TraceKind kind, std::uint32_t session, std::uint32_t device, std::uint64_t transfer,
           std::uint64_t offset, std::uint64_t bytes) const;
  TraceBuffer* buffer_;
  std::uint64_t begin_;
};

}  // namespace cuspan
