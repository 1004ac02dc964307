// Clocks of other nodes, and the file of a trace.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/agent/node/trace_collector.h"

namespace cuspan {
namespace {

TEST(ClockOffsetTest, TheFastestAnswerCounts) {
  ClockOffset clock;
  // The other clock is 5000 ahead. The second reply came back slower than its request.
  clock.Collect(100, 100 + 20 + 5000, 140);
  clock.Collect(200, 200 + 90 + 5000, 300);
  EXPECT_EQ(clock.answers(), 2);
  EXPECT_EQ(clock.Report().offset_nanoseconds, 5000);
  EXPECT_EQ(clock.Report().round_trip_nanoseconds, 40U);
  EXPECT_EQ(clock.ToOurs(7000), 2000U);
}

TEST(ClockOffsetTest, ClocksDriftEvenlyBetweenStartAndEnd) {
  ClockOffset clock;
  clock.Collect(0, 1000, 0);
  clock.StartSecond();
  EXPECT_EQ(clock.answers(), 0);
  clock.Collect(1'000'000, 1'000'000 + 3000, 1'000'000);
  EXPECT_EQ(clock.ToOurs(1000), 0U);
  EXPECT_EQ(clock.ToOurs(1'003'000), 1'000'000U);
  EXPECT_NEAR(static_cast<double>(clock.ToOurs(502'000)), 500'000, 2);
  // Outside both measurements, the drift is not extrapolated.
  EXPECT_EQ(clock.ToOurs(2'003'000), 2'000'000U);
}

TEST(ClockOffsetTest, ClocksMayBeBehind) {
  ClockOffset clock;
  clock.Collect(1'000'000, 400'000, 1'000'000);
  EXPECT_EQ(clock.Report().offset_nanoseconds, -600'000);
  EXPECT_EQ(clock.ToOurs(400'010), 1'000'010U);
}

TEST(ClockOffsetTest, WithoutAnswersNothingIsChanged) { EXPECT_EQ(ClockOffset().ToOurs(77), 77U); }

TEST(TraceBufferTest, WhatDoesNotFitIsCounted) {
  Result<UniqueFd> fd = TraceBuffer::Create();
  ASSERT_TRUE(fd.ok());
  Result<std::unique_ptr<TraceBuffer>> buffer = TraceBuffer::Open(fd->get());
  ASSERT_TRUE(buffer.ok());
  Result<std::unique_ptr<TraceBuffer>> reader = TraceBuffer::Open(fd->get());
  ASSERT_TRUE(reader.ok());
  TraceRecord record;
  record.kind = TraceKind::kKernel;
  record.SetName(std::string(200, 'n'));
  for (std::uint64_t i = 0; i < TraceBuffer::kRecords + 3; ++i) (*buffer)->Add(record);
  EXPECT_EQ((*reader)->dropped(), 3U);
  const std::vector<TraceRecord> records = (*reader)->Records();
  ASSERT_EQ(records.size(), TraceBuffer::kRecords);
  EXPECT_EQ(std::string(records.back().name), std::string(77, 'n'));
  EXPECT_FALSE(TraceBuffer::Open(-1).ok());
}

class TraceFileTest : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  nlohmann::json Written(const std::vector<TracedProcess>& processes) {
    const Status status = WriteTraceFile(path_, processes, {{"b", -5, 10}});
    EXPECT_TRUE(status.ok()) << status.message();
    std::ifstream file(path_);
    return nlohmann::json::parse(file);
  }
  static TraceRecord Record(TraceKind kind, std::uint64_t begin, std::uint64_t end) {
    TraceRecord record;
    record.kind = kind;
    record.begin = begin;
    record.end = end;
    return record;
  }
  const std::string path_ =
      ::testing::TempDir() + "/trace_file_test." + std::to_string(::getpid()) + ".json";
};

TEST_F(TraceFileTest, EventsOfATrackDoNotOverlap) {
  TracedProcess process;
  process.host = "a \"quoted\"\n\xff host";
  process.role = "agent";
  process.agent = true;
  process.records = {Record(TraceKind::kNetworkSend, 1'000'500, 1'003'000),
                     Record(TraceKind::kNetworkSend, 1'000'000, 1'002'000),
                     Record(TraceKind::kNetworkSend, 1'002'000, 1'002'001),
                     Record(TraceKind::kNetworkSend, 9, 8),      // Never.
                     Record(static_cast<TraceKind>(99), 1, 2)};  // A later version's.
  const nlohmann::json trace = Written({process});
  std::vector<std::pair<double, int>> events;
  for (const nlohmann::json& event : trace["traceEvents"])
    if (event["ph"] == "X") events.emplace_back(event["ts"], event["tid"]);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], std::pair(0.0, 3000));
  EXPECT_EQ(events[1], std::pair(0.5, 3001));
  EXPECT_EQ(events[2], std::pair(2.0, 3000));
  EXPECT_EQ(trace["otherData"]["clocks"][0]["offset_ns"], -5);
}

TEST_F(TraceFileTest, KernelsHaveTheNamesThatTheirAuthorsGave) {
  TracedProcess process;
  process.host = "a";
  process.role = "GPU 0 for device 1";
  process.device = 1;
  process.records = {Record(TraceKind::kKernel, 10, 20), Record(TraceKind::kKernel, 30, 40)};
  process.records[0].SetName("_Z6VectorPfS_m");
  process.records[1].SetName("plain");
  const nlohmann::json trace = Written({process});
  std::vector<std::string> names;
  for (const nlohmann::json& event : trace["traceEvents"])
    if (event["ph"] == "X") names.push_back(event["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"Vector(float*, float*, unsigned long)", "plain"}));
}

TEST_F(TraceFileTest, AnEmptyRunIsATrace) {
  EXPECT_EQ(Written({})["traceEvents"].size(), 0U);
  EXPECT_FALSE(WriteTraceFile("/no/such/folder/trace.json", {}, {}).ok());
}

}  // namespace
}  // namespace cuspan
