#include "launcher/metrics/run_families.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/log.h"
#include "launcher/metrics/families.h"
#include "launcher/run/run_key.h"
#include "ops.gen.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {
namespace {

// Limit of a program's file name, which may be any bytes. Metrics are UTF-8.
constexpr std::size_t kMaxOfName = 255;
constexpr Op kLaunches[] = {Op::kLaunch, Op::kLaunchShaped, Op::kGraphLaunch};

void AddRun(const RunFacts& facts, std::vector<prometheus::MetricFamily>& families) {
  const MetricLabels run = {{"run", facts.run}};
  Family info = Family::Gauge("cuspan_run_info", "Description of the run; the value is always 1.");
  info.Add({{"run", facts.run},
            {"version", facts.version},
            {"program", Printable(facts.program, kMaxOfName)},
            {"relay", facts.relay}},
           1);
  std::move(info).MoveTo(families);
  Family start = Family::Gauge("cuspan_run_start_time_seconds",
                               "Start time of the run, in seconds since 1970.");
  start.Add(run, SecondsOf(facts.started_ns));
  std::move(start).MoveTo(families);
  Family device =
      Family::Gauge("cuspan_device_info",
                    "Devices of the run, with the program's numbers; the value is always 1.");
  for (std::size_t i = 0; i < facts.devices.size(); ++i) {
    const DeviceDescription& known = facts.devices[i];
    device.Add({{"run", facts.run},
                {"device", std::to_string(i)},
                {"host", known.host},
                {"gpu", std::to_string(known.ordinal)},
                {"name", known.name},
                {"uuid", ToHex(known.uuid)},
                {"kind", known.software ? "software" : "cuda"}},
               1);
  }
  std::move(device).MoveTo(families);
}

void AddAgents(const std::string& run, const std::vector<AgentState>& agents,
               std::vector<prometheus::MetricFamily>& families) {
  Family up = Family::Gauge("cuspan_agent_up",
                            "1 if the agent of that host has answered this scrape, else 0.");
  Family response = Family::Gauge("cuspan_agent_response_seconds",
                                  "Time the agent took to answer, over the relay.");
  Family cpu = Family::Counter("cuspan_agent_cpu_seconds_total",
                               "Processor time of the agent's process, user and system.");
  Family memory =
      Family::Gauge("cuspan_agent_resident_memory_bytes", "Memory of the agent's process.");
  Family sessions = Family::Gauge("cuspan_sessions",
                                  "Number of processes of the program on that host connected now.");
  Family started =
      Family::Counter("cuspan_sessions_started_total",
                      "Number of processes of the program on that host connected so far.");
  Family errors =
      Family::Counter("cuspan_errors_total",
                      "Errors at the agent of that host: session_terminated, device_lost, "
                      "device_refused (it could not be opened), connection_refused, agent_lost.");
  for (const AgentState& agent : agents) {
    const AgentMetrics& metrics = agent.metrics;
    // A host may have two agents: if --same-node is never, or if two names denote one host.
    const MetricLabels labels = {
        {"run", run}, {"agent", std::to_string(metrics.rank)}, {"host", metrics.host}};
    up.Add(labels, agent.up ? 1 : 0);
    cpu.Add(labels, SecondsOf(metrics.cpu_nanoseconds));
    memory.Add(labels, static_cast<double>(metrics.memory_bytes));
    if (agent.up && metrics.rank != 0)
      response.Add(labels, SecondsOf(metrics.response_nanoseconds));
    sessions.Add(labels, metrics.sessions);
    started.Add(labels, static_cast<double>(metrics.sessions_started));
    const std::pair<const char*, std::uint64_t> kinds[] = {
        {"session_terminated", metrics.errors.sessions_terminated},
        {"device_lost", metrics.errors.devices_lost},
        {"device_refused", metrics.errors.devices_refused},
        {"connection_refused", metrics.errors.connections_refused},
        {"agent_lost", metrics.errors.agents_lost}};
    for (const auto& [kind, count] : kinds) {
      MetricLabels of_kind = labels;
      of_kind.push_back({"kind", kind});
      errors.Add(std::move(of_kind), static_cast<double>(count));
    }
  }
  for (Family* family : {&up, &response, &cpu, &memory, &sessions, &started, &errors})
    std::move(*family).MoveTo(families);
}

// Families of the use of devices, and the labels of the current device.
class DeviceFamilies {
 public:
  explicit DeviceFamilies(const RunFacts& facts) : facts_(facts) {}

  void Add(const AgentMetrics& agent, const DeviceMetrics& metrics) {
    const bool known = metrics.device < facts_.devices.size();
    labels_ = {{"run", facts_.run},
               {"device", std::to_string(metrics.device)},
               {"host", known ? facts_.devices[metrics.device].host : ""},
               {"path", metrics.relayed ? facts_.relay : "same-node"},
               {"agent", std::to_string(agent.rank)},
               {"program_host", agent.host}};
    sessions_.Add(labels_, metrics.sessions);
    queued_.Add(labels_, static_cast<double>(metrics.queued_bytes));
    AddUse(metrics.use);
    if (known && facts_.devices[metrics.device].software)
      compiled_.Add(labels_, SecondsOf(metrics.use.compile_nanoseconds));
  }

  void MoveTo(std::vector<prometheus::MetricFamily>& families) {
    for (Family& family : all_) std::move(family).MoveTo(families);
  }

 private:
  MetricLabels With(std::initializer_list<prometheus::ClientMetric::Label> more) const {
    MetricLabels labels = labels_;
    labels.insert(labels.end(), more);
    return labels;
  }

  void AddUse(const DeviceUse& use) {
    double launches = 0;
    for (const OpCount& count : use.ops) {
      const Op op = static_cast<Op>(count.op);
      const double times = static_cast<double>(count.count);
      if (std::find(std::begin(kLaunches), std::end(kLaunches), op) != std::end(kLaunches))
        launches += times;
      WithOp(op, [&]<typename T>() {
        ops_.Add(With({{"op", OpName(op)},
                       {"class", T::kClass == OpClass::kCall ? "waited_for" : "posted"}}),
                 times);
      });
    }
    launches_.Add(labels_, launches);
    copied_.Add(With({{"direction", "to_device"}}), static_cast<double>(use.bytes_to_device));
    copied_.Add(With({{"direction", "from_device"}}), static_cast<double>(use.bytes_from_device));
    files_.Add(With({{"direction", "read"}}), static_cast<double>(use.file_bytes_read));
    files_.Add(With({{"direction", "written"}}), static_cast<double>(use.file_bytes_written));
    waited_.Add(labels_, SecondsOf(use.wait_nanoseconds));
    for (const CollectiveCount& count : use.collectives) {
      if (count.kind >= nccl::kCallKinds) continue;
      const std::string name(nccl::NameOf(static_cast<nccl::CallKind>(count.kind)));
      collectives_.Add(With({{"call", name}}), static_cast<double>(count.calls));
      collective_bytes_.Add(With({{"call", name}}), static_cast<double>(count.bytes));
    }
  }

  Family& Keep(Family family) { return all_.emplace_back(std::move(family)); }

  const RunFacts& facts_;
  MetricLabels labels_;
  std::deque<Family> all_;  // Keeps its elements in place.
  Family& sessions_ =
      Keep(Family::Gauge("cuspan_device_sessions", "Number of processes using the device now."));
  Family& queued_ = Keep(Family::Gauge(
      "cuspan_device_queued_bytes",
      "Bytes of requests made by the program and not yet known to be read by the device's side."));
  Family& launches_ =
      Keep(Family::Counter("cuspan_launches_total", "Number of kernels and graphs launched."));
  Family& ops_ = Keep(Family::Counter(
      "cuspan_ops_total", "Requests by kind; class waited_for: the program waited for an answer."));
  Family& copied_ = Keep(Family::Counter("cuspan_copied_bytes_total",
                                         "Bytes copied between the program and the device."));
  Family& files_ =
      Keep(Family::Counter("cuspan_file_bytes_total",
                           "Bytes of files read into the device's memory, and written from it."));
  Family& waited_ = Keep(Family::Counter("cuspan_waited_seconds_total",
                                         "Time threads of the program waited for the device."));
  Family& compiled_ = Keep(Family::Counter("cuspan_compiled_seconds_total",
                                           "Time spent compiling kernels of the software GPU."));
  Family& collectives_ =
      Keep(Family::Counter("cuspan_collectives_total", "Calls of NCCL by kind."));
  Family& collective_bytes_ = Keep(Family::Counter("cuspan_collective_bytes_total",
                                                   "Bytes of calls of NCCL, as NCCL counts them."));
};

}  // namespace

std::vector<prometheus::MetricFamily> RunFamilies(const RunFacts& facts,
                                                  const std::vector<AgentState>& agents) {
  std::vector<prometheus::MetricFamily> families;
  AddRun(facts, families);
  AddAgents(facts.run, agents, families);
  DeviceFamilies devices(facts);
  for (const AgentState& agent : agents)
    for (const DeviceMetrics& metrics : agent.metrics.devices) devices.Add(agent.metrics, metrics);
  devices.MoveTo(families);
  return families;
}

}  // namespace cuspan
