#include "launcher/agent/node/device_use.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "common/log.h"

namespace cuspan {
namespace {

// Sorts by time, longest first, and keeps the number shown in a table.
void KeepLongest(std::vector<WaitTime>& waits) {
  constexpr std::size_t kMaxWaits = 5;
  std::stable_sort(waits.begin(), waits.end(), [](const WaitTime& a, const WaitTime& b) {
    return a.nanoseconds > b.nanoseconds;
  });
  if (waits.size() > kMaxWaits) waits.resize(kMaxWaits);
}

bool SameKind(const OpCount& a, const OpCount& b) { return a.op == b.op; }
bool SameKind(const CollectiveCount& a, const CollectiveCount& b) { return a.kind == b.kind; }
void AddTo(OpCount& sum, const OpCount& more) { sum.count += more.count; }
void AddTo(CollectiveCount& sum, const CollectiveCount& more) {
  sum.calls += more.calls;
  sum.bytes += more.bytes;
}

template <typename Entry>
void AddEntries(std::vector<Entry>& sum, const std::vector<Entry>& more) {
  for (const Entry& entry : more) {
    const auto same = std::find_if(sum.begin(), sum.end(),
                                   [&entry](const Entry& known) { return SameKind(known, entry); });
    if (same == sum.end())
      sum.push_back(entry);
    else
      AddTo(*same, entry);
  }
}

}  // namespace

DeviceUse ReadUse(const ChannelStatistics& statistics) {
  DeviceUse use;
  for (std::size_t i = 0; i < kOpCount; ++i) {
    if (const std::uint64_t count = statistics.ops[i]; count != 0)
      use.ops.push_back({static_cast<std::uint16_t>(kAllOps[i]), count});
  }
  use.bytes_to_device = statistics.bytes_to_device;
  use.bytes_from_device = statistics.bytes_from_device;
  use.wait_nanoseconds = statistics.wait_nanoseconds;
  use.compile_nanoseconds = statistics.compile_nanoseconds;
  use.file_bytes_read = statistics.file_bytes_read;
  use.file_bytes_written = statistics.file_bytes_written;
  for (std::uint32_t kind = 0; kind < nccl::kCallKinds; ++kind) {
    if (const std::uint64_t calls = statistics.collective_calls[kind]; calls != 0)
      use.collectives.push_back({kind, calls, statistics.collective_bytes[kind]});
  }
  return use;
}

std::vector<WaitTime> ReadWaits(const ChannelStatistics& statistics) {
  std::vector<WaitTime> waits;
  for (const WaitLocation& place : statistics.wait_places) {
    const std::size_t bytes =
        std::min<std::size_t>(place.text_bytes.load(std::memory_order_acquire), sizeof place.text);
    if (bytes == 0) continue;
    waits.push_back({Printable({place.text, bytes}, sizeof place.text), place.nanoseconds});
  }
  KeepLongest(waits);
  return waits;
}

void AddWaits(std::vector<WaitTime>& sum, const std::vector<WaitTime>& more) {
  for (const WaitTime& wait : more) {
    const auto same = std::find_if(sum.begin(), sum.end(), [&wait](const WaitTime& known) {
      return known.place == wait.place;
    });
    if (same == sum.end())
      sum.push_back(wait);
    else
      same->nanoseconds += wait.nanoseconds;
  }
  KeepLongest(sum);
}

void AddUse(DeviceUse& sum, const DeviceUse& more) {
  // Every number of the table is added. The lists are added below, by the kinds of their entries.
  std::vector<std::uint64_t> numbers;
  DeviceUse::VisitFields(more, [&](const auto& field) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(field)>>)
      numbers.push_back(field);
  });
  std::size_t next = 0;
  DeviceUse::VisitFields(sum, [&](auto& field) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(field)>>)
      field += numbers[next++];
  });
  AddEntries(sum.ops, more.ops);
  AddEntries(sum.collectives, more.collectives);
}

}  // namespace cuspan
