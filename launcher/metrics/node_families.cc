#include "launcher/metrics/node_families.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "launcher/metrics/families.h"
#include "launcher/run/lease_key.h"
#include "launcher/run/lease_tables.h"
#include "launcher/run/run_key.h"

namespace cuspan {
namespace {

// Ordinal of a shared GPU; its key if the device is not listed.
std::string GpuNumber(const RunReady& found, const SharedGpu& shared) {
  const auto device = std::find_if(
      found.devices.begin(), found.devices.end(), [&shared](const DeviceDescription& known) {
        return known.host == shared.host && LeaseKey(known) == shared.gpu;
      });
  return device == found.devices.end() ? shared.gpu : std::to_string(device->ordinal);
}

void AddGpus(const RunReady& found, std::vector<prometheus::MetricFamily>& families) {
  Family info = Family::Gauge("cuspan_gpu_info", "The GPUs of the host; the value is always 1.");
  Family memory = Family::Gauge("cuspan_gpu_memory_bytes", "Memory of the GPU.");
  Family leased = Family::Gauge("cuspan_gpu_leased", "1 if a run has the GPU, else 0.");
  Family runs =
      Family::Gauge("cuspan_gpu_runs", "Number of runs with the GPU; several runs share it.");
  Family states = Family::Gauge("cuspan_gpus", "Number of free or leased GPUs of the host.");
  std::map<std::string, std::pair<int, int>> counts;  // Free and leased, by host.
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const DeviceDescription& device = found.devices[i];
    const MetricLabels labels = {{"host", device.host}, {"gpu", std::to_string(device.ordinal)}};
    MetricLabels described = labels;
    described.insert(described.end(), {{"name", device.name},
                                       {"uuid", ToHex(device.uuid)},
                                       {"driver", device.driver_release},
                                       {"kind", device.software ? "software" : "cuda"}});
    info.Add(std::move(described), 1);
    memory.Add(labels, static_cast<double>(device.memory_bytes));
    const bool held = IsHeld(found, i);
    leased.Add(labels, held ? 1 : 0);
    runs.Add(labels, static_cast<double>(HoldersOf(found, i).size()));
    auto& [free, taken] = counts[device.host];
    ++(held ? taken : free);
  }
  for (const auto& [host, count] : counts) {
    states.Add({{"host", host}, {"state", "free"}}, count.first);
    states.Add({{"host", host}, {"state", "leased"}}, count.second);
  }
  for (Family* family : {&info, &memory, &leased, &runs, &states})
    std::move(*family).MoveTo(families);
}

void AddRuns(const RunReady& found, std::vector<prometheus::MetricFamily>& families) {
  Family runs =
      Family::Gauge("cuspan_runs", "Number of runs holding GPUs of the host, or waiting for some.");
  Family gpus = Family::Gauge("cuspan_run_gpus", "Number of GPUs of the host held by the run.");
  Family since = Family::Gauge("cuspan_run_queued_time_seconds",
                               "Time at which the run entered the queue, in seconds since 1970.");
  std::map<std::string, std::pair<int, int>> counts;  // Running and waiting, by host.
  for (const DeviceDescription& device : found.devices) counts[device.host];
  for (const LeaseTicket& ticket : found.tickets) {
    auto& [running, waiting] = counts[ticket.host];
    ++(ticket.waiting ? waiting : running);
    const MetricLabels labels = {{"host", ticket.host},
                                 {"run", ticket.run},
                                 {"user", ticket.user},
                                 {"program", ticket.program}};
    gpus.Add(labels, static_cast<double>(ticket.gpus.size()));
    since.Add(labels, SecondsOf(ticket.order));
  }
  for (const auto& [host, count] : counts) {
    runs.Add({{"host", host}, {"state", "running"}}, count.first);
    runs.Add({{"host", host}, {"state", "waiting"}}, count.second);
  }
  for (Family* family : {&runs, &gpus, &since}) std::move(*family).MoveTo(families);
}

void AddShared(const RunReady& found, std::vector<prometheus::MetricFamily>& families) {
  Family used =
      Family::Counter("cuspan_shared_used_seconds_total", "Time the run used a shared GPU.");
  Family waited = Family::Counter("cuspan_shared_waited_seconds_total",
                                  "Time the run waited for a shared GPU.");
  Family turns =
      Family::Counter("cuspan_shared_turns_total", "Number of times the run got a shared GPU.");
  Family preempted =
      Family::Counter("cuspan_shared_preempted_total",
                      "Number of times the run lost a shared GPU to a run of higher priority.");
  Family sessions =
      Family::Gauge("cuspan_shared_sessions", "Number of processes of the run using a shared GPU.");
  Family memory =
      Family::Gauge("cuspan_shared_memory_bytes", "Memory of a shared GPU held by the run.");
  Family swapped = Family::Gauge("cuspan_shared_swapped_bytes",
                                 "Memory of the run currently moved to the host.");
  for (const SharedGpu& gpu : found.shared) {
    const std::string number = GpuNumber(found, gpu);
    for (const SharingRun& run : gpu.runs) {
      const MetricLabels labels = {
          {"host", gpu.host}, {"gpu", number}, {"run", run.run}, {"user", run.user}};
      used.Add(labels, SecondsOf(run.used));
      waited.Add(labels, SecondsOf(run.waited));
      turns.Add(labels, static_cast<double>(run.turns));
      preempted.Add(labels, static_cast<double>(run.preempted));
      sessions.Add(labels, run.sessions);
      memory.Add(labels, static_cast<double>(run.memory));
      swapped.Add(labels, static_cast<double>(run.swapped));
    }
  }
  for (Family* family : {&used, &waited, &turns, &preempted, &sessions, &memory, &swapped})
    std::move(*family).MoveTo(families);
}

}  // namespace

std::vector<prometheus::MetricFamily> NodeFamilies(const RunReady& found) {
  std::vector<prometheus::MetricFamily> families;
  AddGpus(found, families);
  AddRuns(found, families);
  AddShared(found, families);
  return families;
}

}  // namespace cuspan
