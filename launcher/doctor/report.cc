#include "launcher/doctor/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/run/tables.h"

namespace cuspan::doctor {
namespace {

using nlohmann::json;

std::string GbitText(double bytes_per_second) {
  return Format("{:.3g} Gbit/s", bytes_per_second * 8 / 1e9);
}

// "2 x NVIDIA H100, driver for CUDA 12.4"
std::string GpusText(const Visit& visit) {
  if (visit.devices == 0) return "no GPUs requested";
  const std::vector<GpuFacts>& gpus = visit.facts->gpus;
  if (gpus.empty()) return "no GPU";
  std::map<std::string, int> models;
  for (const GpuFacts& gpu : gpus) ++models[gpu.name];
  std::string text;
  for (const auto& [name, count] : models)
    text += Format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  const std::uint32_t version = gpus.front().driver_version;
  if (!gpus.front().software)
    text += Format(", driver for CUDA {}.{}", version / 1000, version % 1000 / 10);
  return text;
}

std::vector<std::string> Row(const Visit& visit) {
  if (!visit.facts) return {visit.host, "-", "-", "-"};
  if (visit.facts->host.empty()) return {visit.host, "cuspan " + visit.facts->version, "-", "-"};
  const bool linked = visit.measured && visit.measured->bytes_per_second > 0;
  return {visit.host, "cuspan " + visit.facts->version, GpusText(visit),
          linked      ? GbitText(visit.measured->bytes_per_second)
          : visit.own ? "this host"
                      : "-"};
}

const char* NameOfSeverity(Severity severity) {
  return severity == Severity::kError ? "error" : "warning";
}

std::string Counted(std::uint64_t count, const char* what) {
  return Format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

bool IsHealthy(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.severity == Severity::kError; });
}

std::string ReportText(const std::vector<Visit>& visits, const std::vector<Finding>& findings) {
  std::vector<std::vector<std::string>> rows;
  std::uint64_t devices = 0;
  std::uint64_t hosts = 0;
  for (const Visit& visit : visits) {
    rows.push_back(Row(visit));
    const std::uint64_t usable = UsableDevices(visit);
    devices += usable;
    hosts += usable != 0 ? 1 : 0;
  }
  std::string text = AlignColumns(rows);
  const auto add = [&text](const Finding& finding) {
    text += Format("{}  {}: {}; {} [{}]\n", NameOfSeverity(finding.severity), finding.host,
                   finding.message, finding.action, finding.id);
  };
  for (const Visit& visit : visits)
    for (const Finding& finding : findings)
      if (finding.host == visit.host) add(finding);
  // Findings about hosts not visited.
  for (const Finding& finding : findings)
    if (std::none_of(visits.begin(), visits.end(),
                     [&finding](const Visit& visit) { return visit.host == finding.host; }))
      add(finding);
  const std::string can =
      Format("cuspan run can use {} on {}", Counted(devices, "GPU"), Counted(hosts, "host"));
  if (findings.empty()) return text + Format("no problems found: {}\n", can);
  const auto errors = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
  const auto warnings = findings.size() - static_cast<std::size_t>(errors);
  if (errors == 0) return text + Format("{}: {}\n", Counted(warnings, "warning"), can);
  return text + Format("{}, {}: a run would not work\n",
                       Counted(static_cast<std::uint64_t>(errors), "error"),
                       Counted(warnings, "warning"));
}

std::string ReportJson(const std::vector<Visit>& visits, const std::vector<Finding>& findings) {
  json report = {{"hosts", json::array()}, {"findings", json::array()}};
  report["healthy"] = IsHealthy(findings);
  for (const Visit& visit : visits) {
    json host = {{"host", visit.host}, {"reached", visit.facts.has_value()}};
    if (visit.facts) {
      host["version"] = visit.facts->version;
      host["gpus"] = json::array();
      for (const GpuFacts& gpu : visit.facts->gpus)
        host["gpus"].push_back({{"name", gpu.name},
                                {"software", gpu.software},
                                {"driver_version", gpu.driver_version}});
    }
    if (visit.measured && visit.measured->bytes_per_second > 0) {
      host["bytes_per_second"] = visit.measured->bytes_per_second;
      host["mtu"] = visit.measured->mtu;
    }
    report["hosts"].push_back(std::move(host));
  }
  for (const Finding& finding : findings)
    report["findings"].push_back({{"id", finding.id},
                                  {"severity", NameOfSeverity(finding.severity)},
                                  {"host", finding.host},
                                  {"message", finding.message},
                                  {"action", finding.action}});
  return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace cuspan::doctor
