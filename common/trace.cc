#include "common/trace.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "common/host_clock.h"

namespace cuspan {

TraceRecord& TraceRecord::operator=(const TraceRecord& other) {
  if (this == &other) return *this;
  begin = other.begin;
  end = other.end;
  transfer = other.transfer;
  offset = other.offset;
  bytes = other.bytes;
  session = other.session;
  device = other.device;
  std::memcpy(name, other.name, sizeof name);
  kind.store(other.kind.load(std::memory_order_relaxed), std::memory_order_release);
  return *this;
}

void TraceRecord::SetName(std::string_view text) {
  const std::size_t length = std::min(text.size(), sizeof name - 1);
  std::memcpy(name, text.data(), length);
  name[length] = 0;
}

Result<UniqueFd> TraceBuffer::Create() {
  // The header takes the first record's slot.
  return CreateSharedMemory("cuspan-trace", (kRecords + 1) * sizeof(TraceRecord));
}

Result<std::unique_ptr<TraceBuffer>> TraceBuffer::Open(int fd) {
  CUSPAN_ASSIGN_OR_RETURN(Mapping mapping,
                          Mapping::Map(fd, 0, (kRecords + 1) * sizeof(TraceRecord)));
  return std::unique_ptr<TraceBuffer>(new TraceBuffer(std::move(mapping)));
}

void TraceBuffer::Add(const TraceRecord& record) {
  const std::uint64_t place = header()->count.fetch_add(1, std::memory_order_relaxed);
  if (place < kRecords) records()[place] = record;
}

std::vector<TraceRecord> TraceBuffer::Records() const {
  std::vector<TraceRecord> complete;
  const std::uint64_t count = std::min(header()->count.load(std::memory_order_acquire), kRecords);
  for (std::uint64_t i = 0; i < count; ++i) {
    const TraceRecord& record = records()[i];
    if (record.kind.load(std::memory_order_acquire) == TraceKind::kNone) continue;
    complete.push_back(record);
    complete.back().name[sizeof record.name - 1] = 0;
  }
  return complete;
}

std::uint64_t TraceBuffer::dropped() const {
  const std::uint64_t count = header()->count.load(std::memory_order_acquire);
  return count > kRecords ? count - kRecords : 0;
}

void StartTracing(std::unique_ptr<TraceBuffer> buffer) {
  // Never destroyed: threads may use it until the process ends.
  trace_internal::own.store(buffer.release(), std::memory_order_release);
}

std::uint64_t TraceNow() { return HostMonotonicNow(); }

void TraceSpan::Add(TraceKind kind, std::uint32_t session, std::uint32_t device,
                    std::uint64_t transfer, std::uint64_t offset, std::uint64_t bytes) const {
  TraceRecord record;
  record.begin = begin_;
  record.end = TraceNow();
  record.transfer = transfer;
  record.offset = offset;
  record.bytes = bytes;
  record.session = session;
  record.device = device;
  record.kind = kind;
  buffer_->Add(record);
}

}  // namespace cuspan
