#include "launcher/command/top_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/format.h"
#include "common/scheduling/time_slices.h"
#include "launcher/run/gpu_request.h"
#include "launcher/run/lease_key.h"
#include "launcher/run/lease_tables.h"
#include "launcher/run/tables.h"

namespace cuspan {
namespace {

using Json = nlohmann::ordered_json;

// Maximum length of a text in tickets and in tables of shared GPUs.
constexpr std::size_t kMaxShown = 64;

// Null if no run shares it.
const SharedGpu* SharedOf(const RunReady& found, const DeviceDescription& device) {
  const std::string key = LeaseKey(device);
  const auto shared =
      std::find_if(found.shared.begin(), found.shared.end(),
                   [&](const SharedGpu& gpu) { return gpu.host == device.host && gpu.gpu == key; });
  return shared == found.shared.end() || shared->runs.empty() ? nullptr : &*shared;
}

// Removes characters that control a terminal.
std::string Shown(std::string_view text) { return Printable(text, kMaxShown); }

std::int64_t NicenessOf(const ShareTerms& terms) {
  return std::int64_t{terms.niceness} + terms.process_niceness;
}

// True if the run's share is not measured: no other run shares the GPU, and it has no limit.
bool IsAlone(const SharedGpu& shared) {
  return shared.runs.size() == 1 && shared.runs.front().terms.limit >= scheduling::kWhole;
}

double Percent(std::uint32_t thousandths) { return thousandths / 10.0; }
double Seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

std::string PercentText(std::uint32_t thousandths) {
  return Format("{:.1f}%", Percent(thousandths));
}

// Total time a run waited for the GPU, and its percentage of the time the run needed the GPU.
std::string WaitText(const SharingRun& run) {
  const double wanted = Seconds(run.used) + Seconds(run.waited);
  return Format("{:.1f} s ({:.0f}%)", Seconds(run.waited),
                wanted > 0 ? 100 * Seconds(run.waited) / wanted : 0);
}

// Throughput of two runs together on the GPU, relative to one run alone.
std::string PairText(const SharingRun& run) {
  if (!run.paired) return "-";
  return run.pair_sum == 0 ? "yes" : Format("{:.2f}", run.pair_sum / 1000.0);
}

std::string MemoryText(const SharingRun& run) {
  const std::string used = ByteText(run.memory);
  if (run.swapped != 0) return Format("{}, {} on the host", used, ByteText(run.swapped));
  return run.terms.memory == 0 ? used : Format("{} / {}", used, ByteText(run.terms.memory));
}

const char* StateOf(const SharingRun& run, bool alone) {
  if (alone) return "alone";
  // The next run may have the time slice already while the previous one finishes.
  if (run.waiting) return "waits";
  return run.has_turn ? "on the GPU" : "idle";
}

// State of a run without sharing, or with sharing not visible to this user.
constexpr const char* kHolds = "holds it";

Json SharingJson(const SharingRun& run, bool alone) {
  const auto measured = [alone](const auto& value) { return alone ? Json() : Json(value); };
  const std::string_view kind = KindText(scheduling::BottleneckOf(run.bottleneck));
  return {{"run", run.run},
          {"user", run.user},
          {"program", run.program},
          {"state", StateOf(run, alone)},
          {"niceness", NicenessOf(run.terms)},
          {"quota_percent", Percent(run.terms.quota)},
          {"limit_percent", Percent(run.terms.limit)},
          {"now_percent", measured(Percent(run.part_now))},
          {"lately_percent", measured(Percent(run.part_lately))},
          {"used_seconds", Seconds(run.used)},
          {"waited_seconds", Seconds(run.waited)},
          {"turns", run.turns},
          {"preempted", run.preempted},
          {"paired", run.paired},
          {"pair_sum", run.pair_sum == 0 ? Json() : Json(run.pair_sum / 1000.0)},
          {"memory_bytes", run.memory},
          {"memory_on_host_bytes", run.swapped},
          {"memory_limit_bytes", run.terms.memory == 0 ? Json() : Json(run.terms.memory)},
          {"processes", run.sessions},
          {"kind", kind.empty() ? Json() : Json(kind)}};
}

}  // namespace

std::string TopTable(const RunReady& found) {
  std::vector<std::vector<std::string>> rows = {
      {"gpu", "name", "run", "user", "program", "priority", "quota", "limit", "now", "10 s",
       "waited", "turns", "preempted", "pair", "memory", "processes", "state"}};
  const auto add = [&](const DeviceDescription& device, std::vector<std::string> cells) {
    cells.insert(cells.begin(),
                 {Shown(Format("{}:{}", device.host, device.ordinal)), Shown(device.name)});
    cells.insert(cells.end() - 1, rows.front().size() - cells.size(), "-");
    rows.push_back(std::move(cells));
  };
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const DeviceDescription& device = found.devices[i];
    if (const SharedGpu* const shared = SharedOf(found, device)) {
      const bool alone = IsAlone(*shared);
      for (const SharingRun& run : shared->runs)
        add(device, {Shown(run.run), Shown(run.user), Shown(run.program),
                     PriorityText(NicenessOf(run.terms)),
                     run.terms.quota == 0 ? "-" : PercentText(run.terms.quota),
                     PercentText(run.terms.limit), alone ? "-" : PercentText(run.part_now),
                     alone ? "-" : PercentText(run.part_lately), WaitText(run),
                     std::to_string(run.turns), std::to_string(run.preempted), PairText(run),
                     MemoryText(run), std::to_string(run.sessions), StateOf(run, alone)});
      continue;
    }
    const std::vector<const LeaseTicket*> holders = HoldersOf(found, i);
    for (const LeaseTicket* holder : holders)
      add(device, {Shown(holder->run), Shown(holder->user), Shown(holder->program), kHolds});
    if (holders.empty()) add(device, {IsHeld(found, i) ? "held" : "free"});
  }
  return AlignColumns(rows);
}

std::string TopJson(const RunReady& found) {
  Json list = Json::array();
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const DeviceDescription& device = found.devices[i];
    const SharedGpu* const shared = SharedOf(found, device);
    Json runs = Json::array();
    if (shared != nullptr)
      for (const SharingRun& run : shared->runs) runs.push_back(SharingJson(run, IsAlone(*shared)));
    else
      for (const LeaseTicket* holder : HoldersOf(found, i))
        runs.push_back({{"run", holder->run},
                        {"user", holder->user},
                        {"program", holder->program},
                        {"state", kHolds}});
    list.push_back({{"host", device.host},
                    {"ordinal", device.ordinal},
                    {"name", device.name},
                    {"uuid", ToHex(device.uuid)},
                    {"held", IsHeld(found, i)},
                    {"shared", shared != nullptr},
                    {"runs", std::move(runs)}});
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TopScreen(const RunReady& found, std::size_t lines, std::size_t columns) {
  std::string text = TopTable(found);
  for (const std::string& note : found.notes) text += Printable(note, note.size()) + "\n";
  std::string screen = "\x1b[H";  // To the first line. "[K" clears a line, "[J" all lines after it.
  std::size_t shown = 0;
  for (std::size_t at = 0; at < text.size() && (lines == 0 || ++shown < lines);) {
    const std::size_t end = text.find('\n', at);
    const std::string_view line = std::string_view(text).substr(at, end - at);
    // Before the line: after a line of full width it would erase the last character.
    screen += "\x1b[K";
    screen += columns == 0 ? line : line.substr(0, columns);
    screen += '\n';
    at = end + 1;
  }
  return screen + "\x1b[J";
}

}  // namespace cuspan
