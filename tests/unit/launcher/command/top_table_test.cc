#include "launcher/command/top_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/format.h"
#include "common/scheduling/pairs.h"

namespace cuspan {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::uint64_t kTopSecond = 1'000'000'000;
constexpr std::uint64_t kTopGiB = std::uint64_t{1} << 30;

SharingRun TopRun(const std::string& run) {
  SharingRun made;
  made.run = run;
  made.user = "me";
  made.program = "train";
  made.terms.shared = true;
  return made;
}

// Returns `number` unused GPUs of a host.
RunReady TopGpus(std::uint32_t number) {
  RunReady found;
  for (std::uint32_t i = 0; i < number; ++i) {
    DeviceDescription device;
    device.host = "n1";
    device.ordinal = i;
    device.name = "Soft GPU";
    device.software = true;
    found.devices.push_back(device);
    found.held.push_back(0);
  }
  return found;
}

void TopShare(RunReady& found, std::uint32_t gpu, const std::vector<SharingRun>& runs) {
  found.held[gpu] = 1;
  found.shared.push_back({"n1", Format("soft{}", gpu), runs});
}

void TopHold(RunReady& found, std::uint32_t gpu, const std::string& run) {
  found.held[gpu] = 1;
  LeaseTicket ticket;
  ticket.run = run;
  ticket.host = "n1";
  ticket.user = "you";
  ticket.program = "serve";
  ticket.gpus = {Format("soft{}", gpu)};
  found.tickets.push_back(ticket);
}

std::vector<std::string> TopLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the cells of each line but the first. Two blanks separate cells.
std::vector<std::vector<std::string>> TopRows(const RunReady& found) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : TopLines(TopTable(found))) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::size_t at = 0; at != std::string::npos;) {
      const std::size_t end = line.find("  ", at);
      cells.push_back(line.substr(at, end - at));
      at = line.find_first_not_of(' ', std::min(end, line.size()));
    }
  }
  rows.erase(rows.begin());
  return rows;
}

TEST(TopTable, HasARowForEachRunOfASharedGpu) {
  SharingRun first = TopRun("00000000000000aa");
  first.terms.niceness = -10;
  first.terms.quota = 300;
  first.terms.limit = 605;
  first.terms.memory = 2 * kTopGiB;
  first.part_now = 451;
  first.part_lately = 449;
  first.used = 9 * kTopSecond;
  first.waited = 3 * kTopSecond;
  first.turns = 12;
  first.preempted = 2;
  first.paired = true;
  first.pair_sum = 1240;
  first.sessions = 1;
  first.memory = kTopGiB;
  first.has_turn = true;
  RunReady found = TopGpus(1);
  TopShare(found, 0, {first, TopRun("00000000000000bb")});
  EXPECT_THAT(TopRows(found),
              ElementsAre(ElementsAre("n1:0", "Soft GPU", "00000000000000aa", "me", "train", "high",
                                      "30.0%", "60.5%", "45.1%", "44.9%", "3.0 s (25%)", "12", "2",
                                      "1.24", "1.0 GiB / 2.0 GiB", "1", "on the GPU"),
                          ElementsAre("n1:0", "Soft GPU", "00000000000000bb", "me", "train",
                                      "normal", "-", "100.0%", "0.0%", "0.0%", "0.0 s (0%)", "0",
                                      "0", "-", "0 B", "0", "idle")));
}

TEST(TopTable, EachCellHasItsHeading) {
  RunReady found = TopGpus(1);
  TopShare(found, 0, {TopRun("a"), TopRun("b")});
  const std::string table = TopTable(found);
  EXPECT_THAT(table, StartsWith("gpu "));
  EXPECT_EQ(TopLines(table)[0].find("state"), TopLines(table)[1].find("idle"));
  EXPECT_EQ(TopLines(table)[0].find("program"), TopLines(table)[1].find("train"));
}

TEST(TopTable, SaysThePriorityAsTheOptionTakesIt) {
  const std::vector<std::tuple<std::int32_t, std::int32_t, std::string>> cases = {
      {0, 0, "normal"},    {10, 0, "low"},  {-10, 0, "high"}, {0, 10, "low"},
      {-10, 10, "normal"}, {-20, 0, "-20"}, {5, 1, "6"}};
  for (const auto& [niceness, process_niceness, text] : cases) {
    SharingRun run = TopRun("a");
    run.terms.niceness = niceness;
    run.terms.process_niceness = process_niceness;
    RunReady found = TopGpus(1);
    TopShare(found, 0, {run});
    EXPECT_EQ(TopRows(found)[0][5], text);
  }
}

TEST(TopTable, WhoWaitsForItsTurnIsNotOnTheGpu) {
  SharingRun run = TopRun("a");
  run.has_turn = run.waiting = true;
  RunReady found = TopGpus(1);
  TopShare(found, 0, {run, TopRun("b")});
  EXPECT_EQ(TopRows(found)[0].back(), "waits");
}

TEST(TopTable, OfARunThatIsAloneNothingIsMeasured) {
  SharingRun run = TopRun("a");
  RunReady found = TopGpus(2);
  TopShare(found, 0, {run});
  run.terms.limit = 500;
  run.part_now = 400;
  TopShare(found, 1, {run});
  const auto rows = TopRows(found);
  EXPECT_EQ(rows[0][8], "-");
  EXPECT_EQ(rows[0].back(), "alone");
  EXPECT_EQ(rows[1][8], "40.0%") << "but what it has of its limit is";
  const nlohmann::json gpus = nlohmann::json::parse(TopJson(found));
  EXPECT_TRUE(gpus[0]["runs"][0]["now_percent"].is_null());
  EXPECT_TRUE(gpus[0]["runs"][0]["lately_percent"].is_null());
  EXPECT_EQ(gpus[1]["runs"][0]["now_percent"], 40);
}

TEST(TopTable, AGpuThatNobodySharesIsFreeOrHeld) {
  RunReady found = TopGpus(4);
  TopHold(found, 1, "00000000000000aa");
  found.held[2] = 1;
  TopShare(found, 3, {});
  const auto rows = TopRows(found);
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_THAT(rows, Each(SizeIs(17)));
  EXPECT_THAT(rows[0][2], "-");
  EXPECT_THAT(rows[0].back(), "free");
  EXPECT_THAT(rows[1][2], "00000000000000aa");
  EXPECT_THAT(rows[1][3], "you");
  EXPECT_THAT(rows[1][4], "serve");
  EXPECT_THAT(rows[1][5], "-");
  EXPECT_THAT(rows[1].back(), "holds it");
  EXPECT_THAT(rows[2].back(), "held") << "by one that does not say it";
  EXPECT_THAT(rows[3].back(), "held") << "its runs have left since";
}

TEST(TopTable, GpusOfOtherHostsAreOthers) {
  RunReady found = TopGpus(1);
  found.shared.push_back({"n2", "soft0", {TopRun("a")}});
  EXPECT_THAT(TopRows(found)[0].back(), "free");
}

TEST(TopJson, HasNumbers) {
  SharingRun run = TopRun("00000000000000aa");
  run.terms.niceness = 5;
  run.terms.process_niceness = 2;
  run.terms.quota = 300;
  run.part_now = 451;
  run.part_lately = 1000;
  run.used = kTopSecond;
  run.waited = kTopSecond / 2;
  run.memory = 4096;
  run.sessions = 3;
  run.waiting = true;
  run.bottleneck = static_cast<std::uint8_t>(scheduling::Bottleneck::kMemory);
  RunReady found = TopGpus(3);
  TopShare(found, 0, {run, TopRun("b")});
  TopHold(found, 1, "00000000000000bb");
  const nlohmann::json gpus = nlohmann::json::parse(TopJson(found));
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_EQ(gpus[0]["host"], "n1");
  EXPECT_EQ(gpus[0]["ordinal"], 0);
  EXPECT_EQ(gpus[0]["name"], "Soft GPU");
  EXPECT_EQ(gpus[0]["uuid"], std::string(32, '0'));
  EXPECT_EQ(gpus[0]["shared"], true);
  ASSERT_EQ(gpus[0]["runs"].size(), 2U);
  const nlohmann::json& shown = gpus[0]["runs"][0];
  EXPECT_EQ(shown["run"], "00000000000000aa");
  EXPECT_EQ(shown["niceness"], 7);
  EXPECT_EQ(shown["quota_percent"], 30.0);
  EXPECT_EQ(shown["limit_percent"], 100.0);
  EXPECT_EQ(shown["now_percent"], 45.1);
  EXPECT_EQ(shown["lately_percent"], 100.0);
  EXPECT_DOUBLE_EQ(shown["used_seconds"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(shown["waited_seconds"].get<double>(), 0.5);
  EXPECT_EQ(shown["memory_bytes"], 4096);
  EXPECT_TRUE(shown["memory_limit_bytes"].is_null());
  EXPECT_EQ(shown["processes"], 3);
  EXPECT_EQ(shown["state"], "waits");
  EXPECT_EQ(shown["kind"], "memory");
  EXPECT_TRUE(gpus[0]["runs"][1]["kind"].is_null());
  EXPECT_EQ(gpus[1]["held"], true);
  EXPECT_EQ(gpus[1]["shared"], false);
  EXPECT_EQ(gpus[1]["runs"][0]["run"], "00000000000000bb");
  EXPECT_EQ(gpus[2]["held"], false);
  EXPECT_THAT(gpus[2]["runs"], IsEmpty());
}

TEST(TopJson, IsAListWithoutGpus) { EXPECT_EQ(TopJson({}), "[]\n"); }

// Garbage written by other processes into the descriptions of runs.
TEST(TopGarbage, IsShownAndHarmsNothing) {
  SharingRun run = TopRun("\x1b[2J\xff\n");
  run.user = std::string(1000, '\a');
  run.program = std::string("a\0b", 3);
  run.terms.niceness = run.terms.process_niceness = std::numeric_limits<std::int32_t>::min();
  run.terms.quota = run.terms.limit = run.part_now = run.part_lately = ~0U;
  run.used = run.waited = run.turns = run.preempted = run.memory = run.terms.memory = ~0ULL;
  RunReady found = TopGpus(1);
  found.devices[0].name = "\x1b]0;title\a";
  TopShare(found, 0, {run, TopRun("b")});
  found.notes = {"\x1b[2Jnote"};
  const std::string table = TopTable(found);
  EXPECT_THAT(TopLines(table), SizeIs(3));
  EXPECT_TRUE(std::all_of(table.begin(), table.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  EXPECT_THAT(TopScreen(found, 0, 0), Not(HasSubstr("\x1b[2J")));
  const nlohmann::json gpus = nlohmann::json::parse(TopJson(found));
  EXPECT_EQ(gpus[0]["runs"].size(), 2U);
}

TEST(TopScreen, GoesOverWhatIsThere) {
  RunReady found = TopGpus(2);
  found.notes = {"host n2: 3 more runs are not shown"};
  const std::string screen = TopScreen(found, 0, 0);
  EXPECT_THAT(screen, StartsWith("\x1b[H\x1b[Kgpu "));
  EXPECT_THAT(screen, HasSubstr("\x1b[Kn1:1 "));
  EXPECT_THAT(screen, EndsWith("\x1b[Khost n2: 3 more runs are not shown\n\x1b[J"));
  EXPECT_EQ(TopScreen(found, 100, 1000), screen);
}

TEST(TopScreen, IsCutToTheTerminal) {
  const RunReady found = TopGpus(5);
  EXPECT_EQ(TopScreen(found, 4, 4), "\x1b[H\x1b[Kgpu \n\x1b[Kn1:0\n\x1b[Kn1:1\n\x1b[J");
  EXPECT_EQ(TopScreen(found, 1, 4), "\x1b[H\x1b[J");
}

}  // namespace
}  // namespace cuspan
