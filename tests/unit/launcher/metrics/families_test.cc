// Contents of the metric families, and their text format.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/agent/node/device_use.h"
#include "launcher/metrics/exposition.h"
#include "launcher/metrics/families.h"
#include "launcher/metrics/node_families.h"
#include "launcher/metrics/run_families.h"

namespace cuspan {
namespace {

using Families = std::vector<prometheus::MetricFamily>;

Families OneOfEach() {
  Families families;
  Family counter = Family::Counter("cuspan_copied_bytes_total", "What\nwas \"copied\" \\.");
  counter.Add({{"a", "x\"y\\z\n"}}, 12);
  std::move(counter).MoveTo(families);
  Family gauge = Family::Gauge("cuspan_up", "Whether it is up.");
  gauge.Add({}, 0.5);
  std::move(gauge).MoveTo(families);
  Family::Gauge("cuspan_nothing", "Never.").MoveTo(families);
  return families;
}

TEST(Exposition, OpenMetricsHasUnitsAndAnEnd) {
  EXPECT_EQ(Expose(OneOfEach(), MetricsFormat::kOpenMetrics),
            "# TYPE cuspan_copied_bytes counter\n"
            "# UNIT cuspan_copied_bytes bytes\n"
            "# HELP cuspan_copied_bytes What\\nwas \\\"copied\\\" \\\\.\n"
            "cuspan_copied_bytes_total{a=\"x\\\"y\\\\z\\n\"} 12\n"
            "# TYPE cuspan_up gauge\n"
            "# HELP cuspan_up Whether it is up.\n"
            "cuspan_up 0.5\n"
            "# EOF\n");
}

TEST(Exposition, TextHasTheNameOfTheSamples) {
  const std::string text = Expose(OneOfEach(), MetricsFormat::kText);
  EXPECT_NE(text.find("# TYPE cuspan_copied_bytes_total counter\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cuspan_copied_bytes_total{a=\"x\\\"y\\\\z\\n\"} 12\n"), std::string::npos);
  EXPECT_EQ(text.find("cuspan_nothing"), std::string::npos);
}

TEST(Exposition, WhoNamesOpenMetricsGetsIt) {
  EXPECT_EQ(ChooseFormat("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            MetricsFormat::kOpenMetrics);
  EXPECT_EQ(ChooseFormat("text/plain"), MetricsFormat::kText);
  EXPECT_EQ(ChooseFormat(""), MetricsFormat::kText);
}

// Returns the only sample with this name and label. Fails for 0 or several samples.
double Value(const Families& families, const std::string& name, const std::string& label = {},
             const std::string& value = {}) {
  std::vector<double> found;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool has = std::any_of(metric.label.begin(), metric.label.end(), [&](const auto& one) {
        return one.name == label && one.value == value;
      });
      if (label.empty() || has)
        found.push_back(family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                                       : metric.gauge.value);
    }
  }
  EXPECT_EQ(found.size(), 1U) << name;
  return found.empty() ? -1 : found.front();
}

TEST(RunFamilies, SayWhatEachAgentToldAndWhoIsGone) {
  DeviceDescription device;
  device.host = "n1";
  device.agent = 1;
  AgentState home;
  home.up = true;
  home.metrics.host = "n0";
  home.metrics.cpu_nanoseconds = 1'500'000'000;
  home.metrics.sessions = 2;
  home.metrics.errors.devices_lost = 3;
  DeviceUse use;
  use.ops = {{static_cast<std::uint16_t>(Op::kLaunch), 5},
             {static_cast<std::uint16_t>(Op::kGraphLaunch), 2},
             {static_cast<std::uint16_t>(Op::kMemoryInfo), 4},
             {65'000, 9}};  // Unknown op.
  use.bytes_to_device = 4096;
  use.collectives = {{0, 7, 8}, {1'000'000, 1, 1}};
  home.metrics.devices = {{0, true, 1, 64, use}, {77, false, 0, 0, {}}};
  AgentState away;
  away.metrics.rank = 1;
  away.metrics.host = "n1";
  away.metrics.response_nanoseconds = 5;
  const Families families =
      RunFamilies({"12", "1.0", "app", "ucx", 2'000'000'000, {device}}, {home, away});

  EXPECT_EQ(Value(families, "cuspan_agent_up", "host", "n0"), 1);
  EXPECT_EQ(Value(families, "cuspan_agent_up", "host", "n1"), 0);
  EXPECT_EQ(Value(families, "cuspan_agent_cpu_seconds_total", "host", "n0"), 1.5);
  EXPECT_EQ(Value(families, "cuspan_launches_total", "device", "0"), 7);
  EXPECT_EQ(Value(families, "cuspan_ops_total", "class", "waited_for"), 4);
  EXPECT_EQ(Value(families, "cuspan_run_start_time_seconds"), 2);
  EXPECT_EQ(Value(families, "cuspan_collectives_total"), 7);
  // A device missing in the run has no host.
  EXPECT_EQ(Value(families, "cuspan_device_sessions", "host", ""), 0);
  EXPECT_EQ(Value(families, "cuspan_device_sessions", "path", "ucx"), 1);
  // An agent gone has no response time.
  for (const prometheus::MetricFamily& family : families)
    EXPECT_NE(family.name, "cuspan_agent_response_seconds");
}

TEST(NodeFamilies, CountGpusAndRunsOfEachHost) {
  RunReady found;
  for (const char* host : {"n0", "n0", "n1"}) {
    DeviceDescription device;
    device.host = host;
    device.ordinal = static_cast<std::uint32_t>(found.devices.size());
    device.uuid[0] = static_cast<std::uint8_t>(found.devices.size());
    found.devices.push_back(device);
  }
  found.held = {1, 0, 0};
  LeaseTicket waiting;
  waiting.host = "n0";
  waiting.run = "7";
  waiting.waiting = true;
  found.tickets = {waiting};
  SharingRun sharing;
  sharing.run = "9";
  sharing.used = 2'500'000'000;
  found.shared = {{"n1", "no such key", {sharing}}};
  const Families families = NodeFamilies(found);
  Families of_n0 = families;
  for (prometheus::MetricFamily& family : of_n0)
    std::erase_if(family.metric, [](const prometheus::ClientMetric& metric) {
      return metric.label.front().value != "n0";
    });
  EXPECT_EQ(Value(of_n0, "cuspan_gpus", "state", "free"), 1);
  EXPECT_EQ(Value(of_n0, "cuspan_gpus", "state", "leased"), 1);
  EXPECT_EQ(Value(of_n0, "cuspan_runs", "state", "waiting"), 1);
  EXPECT_EQ(Value(of_n0, "cuspan_runs", "state", "running"), 0);
  EXPECT_EQ(Value(families, "cuspan_gpu_leased", "gpu", "0"), 1);
  EXPECT_EQ(Value(families, "cuspan_shared_used_seconds_total", "gpu", "no such key"), 2.5);
}

TEST(DeviceUse, IsAddedKindByKind) {
  DeviceUse sum;
  sum.ops = {{1, 2}};
  sum.collectives = {{3, 1, 10}};
  sum.bytes_from_device = 5;
  DeviceUse more;
  more.ops = {{2, 7}, {1, 1}};
  more.collectives = {{3, 1, 5}, {4, 2, 2}};
  more.bytes_from_device = 6;
  more.compile_nanoseconds = 9;
  sum.file_bytes_read = 3;
  more.file_bytes_read = 4;
  more.file_bytes_written = 8;
  AddUse(sum, more);
  ASSERT_EQ(sum.ops.size(), 2U);
  EXPECT_EQ(sum.ops[0].count, 3U);
  EXPECT_EQ(sum.ops[1].count, 7U);
  ASSERT_EQ(sum.collectives.size(), 2U);
  EXPECT_EQ(sum.collectives[0].bytes, 15U);
  EXPECT_EQ(sum.bytes_from_device, 11U);
  EXPECT_EQ(sum.compile_nanoseconds, 9U);
  EXPECT_EQ(sum.file_bytes_read, 7U);
  EXPECT_EQ(sum.file_bytes_written, 8U);
}

}  // namespace
}  // namespace cuspan
