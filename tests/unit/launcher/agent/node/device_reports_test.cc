// Reports of any number of sessions, in bounded memory and messages.
#include "launcher/agent/node/device_reports.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>

#include "launcher/run/tables.h"
#include "protocol/channel/channel.h"
#include "protocol/wire/frame.h"

namespace cuspan {
namespace {

constexpr std::uint32_t kSessions = 20'000;

DeviceReport Report(std::uint32_t session, std::uint32_t device = 0) {
  DeviceReport report;
  report.session = session;
  report.device = device;
  report.host = "host";
  report.name = "GPU";
  report.use.ops.push_back({static_cast<std::uint16_t>(Op::kLaunch), 3});
  report.use.bytes_to_device = 5;
  report.waits.push_back({session % 2 == 0 ? "even.py:1" : "odd.py:1", session});
  report.ranks = session;
  return report;
}

std::vector<DeviceReport> Flat(std::vector<std::vector<DeviceReport>> pieces) {
  std::vector<DeviceReport> all;
  for (std::vector<DeviceReport>& piece : pieces)
    std::move(piece.begin(), piece.end(), std::back_inserter(all));
  return all;
}

TEST(DeviceReports, AddsUpWhatIsBeyondTheFirst) {
  DeviceReports reports;
  for (std::uint32_t session = 1; session <= kSessions; ++session) {
    reports.Add(Report(session, 0));
    reports.Add(Report(session, 1));
  }
  const std::vector<DeviceReport> all = reports.All();
  ASSERT_EQ(all.size(), DeviceReports::kMaxReports + 2);
  std::uint64_t launches = 0;
  std::uint64_t bytes = 0;
  for (const DeviceReport& report : all) {
    ASSERT_EQ(report.use.ops.size(), 1U);
    launches += report.use.ops[0].count;
    bytes += report.use.bytes_to_device;
  }
  EXPECT_EQ(launches, 2U * 3 * kSessions);
  EXPECT_EQ(bytes, 2U * 5 * kSessions);
  EXPECT_EQ(all.front().session, 1U);
  const DeviceReport& sum = all.back();
  EXPECT_EQ(sum.session, 0U);
  EXPECT_EQ(sum.device, 1U);
  EXPECT_EQ(sum.ranks, kSessions);
  ASSERT_EQ(sum.waits.size(), 2U);
  EXPECT_EQ(sum.waits[0].place, "even.py:1");
  EXPECT_EQ(reports.uses().at({0, false}).bytes_to_device, 5U * kSessions);
}

TEST(DeviceReports, KeepsDevicesAndPathsApart) {
  DeviceReports reports;
  for (std::uint32_t i = 1; i <= DeviceReports::kMaxReports; ++i) reports.Add(Report(i));
  DeviceReport relayed = Report(DeviceReports::kMaxReports + 2);
  relayed.relayed = true;
  DeviceReport elsewhere = Report(DeviceReports::kMaxReports + 3);
  elsewhere.host = "other";
  for (const DeviceReport& report :
       {Report(DeviceReports::kMaxReports + 1), relayed, elsewhere, relayed})
    reports.Add(report);
  const std::vector<DeviceReport> all = reports.All();
  ASSERT_EQ(all.size(), DeviceReports::kMaxReports + 3);
  EXPECT_TRUE(all[DeviceReports::kMaxReports + 1].relayed);
  EXPECT_EQ(all[DeviceReports::kMaxReports + 1].use.bytes_to_device, 10U);
  EXPECT_EQ(all.back().host, "other");
}

// Case: a session resets its device.
TEST(DeviceReports, AddsUpWhatOneSessionDidWithADevice) {
  DeviceReports reports;
  for (std::uint32_t i = 0; i < kSessions; ++i) reports.Add(Report(5 + i % 2));
  const std::vector<DeviceReport> all = reports.All();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].session, 5U);
  EXPECT_EQ(all[0].use.bytes_to_device, 5U * kSessions / 2);
}

// Sums received from another agent remain sums.
TEST(DeviceReports, TakesSums) {
  DeviceReports reports;
  reports.Add(Report(0));
  reports.Add(Report(1));
  reports.Add(Report(0));
  const std::vector<DeviceReport> all = reports.All();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].session, 1U);
  EXPECT_EQ(all[1].use.bytes_to_device, 10U);
}

TEST(DeviceReports, ComeInMessages) {
  DeviceReports reports;
  // Reports of maximum size.
  for (std::uint32_t i = 1; i <= kSessions; ++i) {
    DeviceReport report = Report(i, i % 64);
    report.host.assign(255, 'h');
    report.name.assign(255, 'n');
    report.use.ops.assign(kOpCount, {static_cast<std::uint16_t>(Op::kLaunch), 1});
    report.waits.assign(5, {std::string(sizeof(WaitLocation::text), 'w'), i});
    reports.Add(report);
  }
  std::vector<std::vector<DeviceReport>> pieces = reports.Collect();
  for (const std::vector<DeviceReport>& piece : pieces) {
    ASSERT_FALSE(piece.empty());
    EXPECT_LE(MakeFrame(RunStatistics{piece}).size(), kMaxControlBytes);
  }
  EXPECT_EQ(Flat(std::move(pieces)).size(), DeviceReports::kMaxReports + 64);
  EXPECT_TRUE(reports.Collect().empty());
}

TEST(DeviceReports, HaveRowsInTheTable) {
  const std::string table = StatisticsTable({Report(3), Report(0)}, "ucx");
  EXPECT_NE(table.find("\n3 "), std::string::npos);
  EXPECT_NE(table.find("\nothers "), std::string::npos);
  EXPECT_NE(table.find("session others device 0, posted: Launch 3"), std::string::npos);
}

}  // namespace
}  // namespace cuspan
