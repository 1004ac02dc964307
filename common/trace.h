// Records of a process's transfers and their times, for `cuspan run --trace`.
//
// Each process of a traced run has its own buffer. Its agent creates this memory and reads it at
// the end, so records survive any end of the process. Without a trace the only cost is a null
// pointer from Tracing().
//
// Times are nanoseconds of HostMonotonicNow(), shared by all processes of a node.
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
  kIntoStaging,     // Client: the program's memory to a staging buffer.
  kOutOfStaging,    // Client: a staging buffer to the program's memory.
  kNetworkSend,     // Agent: from the start of sending a chunk until its buffer is free.
  kNetworkReceive,  // Agent: from a chunk's announcement until its arrival.
  kToDevice,        // Proxy, by the device's clock: the copy engine to the device.
  kFromDevice,      // Proxy, by the device's clock: from the device.
  kOnDevice,        // Proxy, by the device's clock: within or between devices.
  kKernel,
  kPeerSend,     // Copies between devices: the device to a staging buffer.
  kPeerReceive,  // Copies between devices: a staging buffer to the device.
  kCollective,   // An NCCL operation; `transfer` is the number of ranks.
  kTimeSlice,    // The session may submit work to a shared GPU; `name` gives the mode.
  kCompile,      // The software GPU compiles a kernel; `bytes` is 1 if a launch waited for it.
  kFileRead,     // Proxy: a piece of a file into a buffer. `transfer` is that of the outcome.
  kFileWrite,    // Proxy: a buffer to a piece of a file.
};
inline constexpr std::uint16_t kTraceKinds = 16;

struct TraceRecord {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t transfer = 0;  // Number on the device's channel; 0 if it has none.
  std::uint64_t offset = 0;    // The chunk's offset in the transfer.
  std::uint64_t bytes = 0;     // Size; for a kernel its stream.
  std::uint32_t session = 0;   // Set in agents' records; other processes have only one.
  std::uint32_t device = 0;
  std::atomic<TraceKind> kind = TraceKind::kNone;  // Stored last.
  char name[78] = {};  // Kernel, collective or time slice; truncated, zero-terminated.

  TraceRecord() = default;
  TraceRecord(const TraceRecord& other) { *this = other; }
  TraceRecord& operator=(const TraceRecord& other);
  void SetName(std::string_view text);
};
static_assert(sizeof(TraceRecord) == 128);

class TraceBuffer {
 public:
  static constexpr std::uint64_t kRecords = 1 << 20;

  // Memory for a new buffer; pages are allocated on the first write.
  static Result<UniqueFd> Create();
  // Maps the memory. kInvalid if `fd` is too short.
  static Result<std::unique_ptr<TraceBuffer>> Open(int fd);

  // Threads: any. If the buffer is full, counts the record as dropped.
  void Add(const TraceRecord& record);

  // Copies of all complete records. The count is checked: it is in a peer's memory.
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
// From now on this process records into `buffer`, until the process ends.
void StartTracing(std::unique_ptr<TraceBuffer> buffer);

std::uint64_t TraceNow();

// Records the time from its construction to Done, if this process traces.
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
