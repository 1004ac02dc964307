#include "launcher/agent/node/trace_collector.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/log.h"
#include "launcher/agent/base/descriptors.h"

namespace cuspan {
namespace {

// Records per message between agents, well below the maximum (see protocol/wire/frame.h).
constexpr std::size_t kRecordsOfAPart = 256;

// Clocks of machines drift apart by less than one part in this number.
constexpr std::uint64_t kMaxDrift = 10'000;

std::span<const std::byte> BytesOf(const TraceRecord* records, std::size_t count) {
  return {reinterpret_cast<const std::byte*>(records), count * sizeof(TraceRecord)};
}

}  // namespace

void ClockOffset::Collect(std::uint64_t sent, std::uint64_t answered, std::uint64_t received) {
  const std::size_t part = second_started_ ? 1 : 0;
  ++answers_[part];
  if (received - sent >= best_[part].round_trip) return;
  const std::uint64_t middle = sent + (received - sent) / 2;
  best_[part] = {received - sent, answered, static_cast<std::int64_t>(answered - middle)};
}

std::pair<const ClockOffset::Best*, const ClockOffset::Best*> ClockOffset::Used() const {
  const Best* const first = answers_[0] != 0 ? &best_[0] : &best_[1];
  const Best* const second = answers_[1] != 0 ? &best_[1] : &best_[0];
  const std::uint64_t passed = second->theirs - first->theirs;
  const Best* const better = first->round_trip <= second->round_trip ? first : second;
  const Best* const worse = better == first ? second : first;
  // A measurement with an error above the possible drift is ignored.
  if (worse->round_trip / 2 > passed / kMaxDrift) return {better, better};
  return {first, second};
}

std::uint64_t ClockOffset::ToOurs(std::uint64_t theirs) const {
  const auto [one, other] = Used();
  const Best& first = *one;
  const Best& second = *other;
  double offset = static_cast<double>(first.offset);
  if (second.theirs > first.theirs) {
    const double passed = static_cast<double>(static_cast<std::int64_t>(theirs - first.theirs)) /
                          static_cast<double>(second.theirs - first.theirs);
    offset += std::clamp(passed, 0.0, 1.0) * static_cast<double>(second.offset - first.offset);
  }
  return theirs - static_cast<std::uint64_t>(static_cast<std::int64_t>(offset));
}

ClockReport ClockOffset::Report() const {
  if (answers_[0] + answers_[1] == 0) return {};
  const auto [first, second] = Used();
  return {"", first->offset, std::max(first->round_trip, second->round_trip)};
}

TraceCollector::TraceCollector(const std::string& host) : host_(host) {
  const UniqueFd own = AddProcess("agent", 0, 0, false);
  if (!own.valid()) return;
  local_.back().process.agent = true;
  local_.back().process.pid = static_cast<std::uint32_t>(::getpid());
  if (Result<std::unique_ptr<TraceBuffer>> buffer = TraceBuffer::Open(own.get()); buffer.ok())
    StartTracing(std::move(*buffer));
}

UniqueFd TraceCollector::AddProcess(std::string role, std::uint32_t session, std::uint32_t device,
                                    bool client) {
  Result<UniqueFd> fd = TraceBuffer::Create();
  Result<std::unique_ptr<TraceBuffer>> buffer =
      fd.ok() ? TraceBuffer::Open(fd->get()) : Result<std::unique_ptr<TraceBuffer>>(fd.status());
  if (!buffer.ok()) {
    LogWarn("{} is not traced: {}", role, buffer.status().message());
    return {};
  }
  Local local;
  local.process.host = host_;
  local.process.role = std::move(role);
  local.process.session = session;
  local.process.device = device;
  local.process.client = client;
  local.buffer = std::move(*buffer);
  local_.push_back(std::move(local));
  return std::move(*fd);
}

void TraceCollector::ForEachPart(std::uint32_t rank,
                                 const std::function<void(const TracePart&)>& use) const {
  for (std::uint32_t number = 0; number < local_.size(); ++number) {
    const Local& local = local_[number];
    const std::vector<TraceRecord> records = local.buffer->Records();
    std::size_t next = 0;
    do {
      const std::size_t count = std::min(kRecordsOfAPart, records.size() - next);
      TracePart part;
      part.rank = rank;
      part.number = number;
      part.host = host_;
      part.role = local.process.role;
      part.pid = local.process.pid;
      part.session = local.process.session;
      part.device = local.process.device;
      part.agent = local.process.agent;
      part.dropped = local.buffer->dropped();
      part.records = BytesOf(records.data() + next, count);
      use(part);
      next += count;
    } while (next < records.size());
  }
}

void TraceCollector::Collect(const TracePart& part) {
  TracedProcess& process = others_[{part.rank, part.number}];
  process.host = part.host;
  process.role = part.role;
  process.pid = part.pid;
  process.session = part.session;
  process.device = part.device;
  process.agent = part.agent;
  process.dropped = part.dropped;
  clocks_[part.rank].host = part.host;
  const std::size_t count = part.records.size() / sizeof(TraceRecord);
  for (std::size_t i = 0; i < count; ++i) {
    TraceRecord record;
    std::memcpy(static_cast<void*>(&record), part.records.data() + i * sizeof record,
                sizeof record);
    record.name[sizeof record.name - 1] = 0;
    process.records.push_back(record);
  }
}

Status TraceCollector::Write(const std::string& path) const {
  std::vector<TracedProcess> processes;
  for (const Local& local : local_) {
    processes.push_back(local.process);
    processes.back().records = local.buffer->Records();
    processes.back().dropped = local.buffer->dropped();
  }
  for (const auto& [key, other] : others_) {
    processes.push_back(other);
    const auto clock = clocks_.find(key.first);
    if (clock == clocks_.end()) continue;
    for (TraceRecord& record : processes.back().records) {
      record.begin = clock->second.offset.ToOurs(record.begin);
      record.end = clock->second.offset.ToOurs(record.end);
    }
  }
  std::vector<ClockReport> clocks;
  for (const auto& [rank, clock] : clocks_) {
    clocks.push_back(clock.offset.Report());
    clocks.back().host = clock.host;
  }
  return WriteTraceFile(path, processes, clocks);
}

}  // namespace cuspan
