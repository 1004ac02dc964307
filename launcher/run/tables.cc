#include "launcher/run/tables.h"

#include "common/format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/run/device_attributes.h"
#include "launcher/run/lease_tables.h"
#include "launcher/run/run_key.h"
#include "ops.gen.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {
namespace {

std::string Capability(const DeviceDescription& device) {
  return Format("{}.{}", Attribute(device, kAttributeCapabilityMajor),
                Attribute(device, kAttributeCapabilityMinor));
}

// 12040 is 12.4 (cuDriverGetVersion).
std::string DriverVersion(std::uint32_t version) {
  return Format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string FreeText(const DeviceDescription& device) {
  return device.free_bytes == kUnknownBytes ? "unknown" : ByteText(device.free_bytes);
}

// Name of a CUcomputemode, from cuda.h.
const char* ComputeMode(const DeviceDescription& device) {
  switch (Attribute(device, kAttributeComputeMode)) {
    case 0:
      return "default";
    case 2:
      return "prohibited";
    case 3:
      return "exclusive-process";
    default:
      return "unknown";
  }
}

std::string Mode(const DeviceDescription& device) {
  return Format("{}{}", ComputeMode(device), device.mig ? ", MIG" : "");
}

// Path between the program and a device: shared memory, or the relay between agents.
std::string PathText(bool relayed, const std::string& relay) {
  return relayed ? relay : "same-node";
}

std::string Kind(const DeviceDescription& device) {
  if (device.software) return "software";
  return device.virtual_memory ? "GPU" : "GPU, no address mapping";
}

}  // namespace

std::string ByteText(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? Format("{} B", bytes) : Format("{:.1f} {}", value, kUnits[unit]);
}

std::string AlignColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += Format("{:{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string DeviceTable(const RunReady& found) {
  const std::vector<DeviceDescription>& devices = found.devices;
  std::vector<std::vector<std::string>> rows = {{"device", "host", "gpu", "name", "memory", "free",
                                                 "capability", "driver", "kind", "mode", "path",
                                                 "lease"}};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceDescription& device = devices[i];
    rows.push_back({std::to_string(i), device.host, std::to_string(device.ordinal), device.name,
                    ByteText(device.memory_bytes), FreeText(device), Capability(device),
                    DriverVersion(device.driver_version), Kind(device), Mode(device),
                    PathText(device.agent != 0, found.relay), LeaseText(found, i)});
  }
  return AlignColumns(rows);
}

std::string DeviceJson(const RunReady& found) {
  const std::vector<DeviceDescription>& devices = found.devices;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceDescription& device = devices[i];
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const LeaseTicket* holder : HoldersOf(found, i)) runs.push_back(holder->run);
    list.push_back({{"device", i},
                    {"host", device.host},
                    {"agent", device.agent},
                    {"ordinal", device.ordinal},
                    {"name", device.name},
                    {"uuid", ToHex(device.uuid)},
                    {"pci_bus_id", device.pci_bus_id},
                    {"memory_bytes", device.memory_bytes},
                    {"free_bytes", device.free_bytes == kUnknownBytes
                                       ? nlohmann::ordered_json()
                                       : nlohmann::ordered_json(device.free_bytes)},
                    {"compute_capability", Capability(device)},
                    {"multiprocessors", Attribute(device, kAttributeMultiprocessors)},
                    {"driver_version", DriverVersion(device.driver_version)},
                    {"software", device.software},
                    {"virtual_memory", device.virtual_memory},
                    {"compute_mode", ComputeMode(device)},
                    {"mig", device.mig},
                    {"path", PathText(device.agent != 0, found.relay)},
                    {"held", IsHeld(found, i)},
                    {"lease", runs.empty() ? nlohmann::ordered_json("") : runs.front()},
                    {"runs", runs}});
  }
  // Names come from drivers: bytes other than UTF-8 must not throw.
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

namespace {

// Counts of a report's ops of one class, most frequent first: "Launch 200, Memset 3".
struct OpsOfClass {
  std::uint64_t total = 0;
  std::string text;
};
OpsOfClass CountOps(const DeviceReport& report, OpClass wanted) {
  std::vector<OpCount> counts;
  for (const OpCount& count : report.use.ops) {
    WithOp(static_cast<Op>(count.op), [&]<typename T>() {
      if (T::kClass == wanted) counts.push_back(count);
    });
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const OpCount& a, const OpCount& b) { return a.count > b.count; });
  OpsOfClass ops;
  for (const OpCount& count : counts) {
    ops.total += count.count;
    AppendFormat(ops.text, "{}{} {}", ops.text.empty() ? "" : ", ",
                 OpName(static_cast<Op>(count.op)), count.count);
  }
  return ops;
}

std::string SecondsText(std::uint64_t nanoseconds) {
  return Format("{:.3f} s", static_cast<double>(nanoseconds) * 1e-9);
}

// "ncclAllReduce 400 (1.2 GiB), …"
std::string CollectivesText(const DeviceReport& report) {
  std::string text;
  for (const CollectiveCount& count : report.use.collectives) {
    if (count.kind >= nccl::kCallKinds) continue;
    AppendFormat(text, "{}{} {} ({})", text.empty() ? "" : ", ",
                 nccl::NameOf(static_cast<nccl::CallKind>(count.kind)), count.calls,
                 ByteText(count.bytes));
  }
  return text;
}

}  // namespace

std::string StatisticsTable(const std::vector<DeviceReport>& reports, const std::string& relay) {
  std::vector<std::vector<std::string>> rows = {{"session", "device", "host", "name", "path",
                                                 "posted", "calls", "to device", "from device",
                                                 "waited"}};
  // Only software GPUs compile.
  const bool compiled = std::any_of(reports.begin(), reports.end(), [](const DeviceReport& report) {
    return report.use.compile_nanoseconds != 0;
  });
  if (compiled) rows[0].emplace_back("compiled");
  std::string ops;
  for (const DeviceReport& report : reports) {
    const OpsOfClass posted = CountOps(report, OpClass::kPosted);
    const OpsOfClass calls = CountOps(report, OpClass::kCall);
    const std::string session =
        report.session != 0 ? std::to_string(report.session) : std::string("others");
    const std::string place = Format("session {} device {}", session, report.device);
    if (posted.total != 0) AppendFormat(ops, "{}, posted: {}\n", place, posted.text);
    if (calls.total != 0) AppendFormat(ops, "{}, waited for: {}\n", place, calls.text);
    std::string waits;
    for (const WaitTime& wait : report.waits)
      AppendFormat(waits, "{}{} {}", waits.empty() ? "" : ", ", wait.place,
                   SecondsText(wait.nanoseconds));
    if (!waits.empty()) AppendFormat(ops, "{}, waited on: {}\n", place, waits);
    if (const std::string collectives = CollectivesText(report); !collectives.empty())
      AppendFormat(ops, "{}, collectives of up to {} ranks: {}\n", place, report.ranks,
                   collectives);
    if (report.use.file_bytes_read != 0 || report.use.file_bytes_written != 0)
      AppendFormat(ops, "{}, files: {} read, {} written\n", place,
                   ByteText(report.use.file_bytes_read), ByteText(report.use.file_bytes_written));
    rows.push_back({session, std::to_string(report.device), report.host, report.name,
                    PathText(report.relayed, relay), std::to_string(posted.total),
                    std::to_string(calls.total), ByteText(report.use.bytes_to_device),
                    ByteText(report.use.bytes_from_device),
                    SecondsText(report.use.wait_nanoseconds)});
    if (compiled) rows.back().push_back(SecondsText(report.use.compile_nanoseconds));
  }
  return AlignColumns(rows) + ops;
}

}  // namespace cuspan
