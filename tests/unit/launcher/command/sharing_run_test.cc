// `cuspan run --share` from outside: several concurrent runs on the devices of the stand-in proxy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/launcher/command/command.h"

namespace cuspan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kSharingCuspan = std::string(LAUNCHER_TREE) + "/bin/cuspan";
const std::string kSharingClient = std::string(LAUNCHER_TREE) + "/bin/fake_client";

class SharingRun : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"CUSPAN_LEASE_FOLDER", "CUSPAN_SHARE_FOLDER"}) {
      std::string folder = (std::filesystem::temp_directory_path() / "sharing-XXXXXX").string();
      ASSERT_NE(::mkdtemp(folder.data()), nullptr);
      variables_[name] = folder;
    }
  }
  void TearDown() override {
    for (const auto& [name, folder] : variables_) std::filesystem::remove_all(folder);
  }

  static std::vector<std::string> CommandOf(const std::vector<std::string>& options,
                                            const std::vector<std::string>& program) {
    std::vector<std::string> words = {kSharingCuspan, "run", "--device", "soft"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  test::Outcome Run(const std::vector<std::string>& options,
                    std::map<std::string, std::string> more = {}) {
    more.insert(variables_.begin(), variables_.end());
    return test::RunCommand(CommandOf(options, {kSharingClient, "work", "100000"}), more);
  }
  // Returns a run holding its devices until killed.
  std::unique_ptr<test::Command> Hold(const std::vector<std::string>& options,
                                      std::map<std::string, std::string> more = {}) {
    more.insert(variables_.begin(), variables_.end());
    auto command =
        std::make_unique<test::Command>(CommandOf(options, {kSharingClient, "linger"}), more);
    EXPECT_TRUE(command->WaitFor("ready"));
    return command;
  }
  static void EndRun(test::Command& command) {
    ::kill(command.pid(), SIGTERM);
    command.Wait();
    command.WaitAllGone();
  }
  bool LocksAreLeft() const {
    return !std::filesystem::is_empty(variables_.at("CUSPAN_LEASE_FOLDER"));
  }

  std::map<std::string, std::string> variables_;
};

TEST_F(SharingRun, TwoRunsUseOneDeviceAndAThirdDoesNot) {
  const auto first = Hold({"--share"});
  const test::Outcome second = Run({"--share", "--no-wait"});
  EXPECT_EQ(second.exit_status, 0) << second.err;
  EXPECT_THAT(second.err, IsEmpty());
  const auto other = Hold({"--share"});
  const test::Outcome third = Run({"--share", "--no-wait"});
  EXPECT_EQ(third.exit_status, 125);
  EXPECT_THAT(third.err, StartsWith("cuspan: not available now: a GPU of "));
  EXPECT_THAT(third.err, HasSubstr("2 runs share it"));
  EXPECT_EQ(test::CountLines(third.err), 1U) << third.err;
  EndRun(*first);
  EXPECT_EQ(Run({"--share", "--no-wait"}).exit_status, 0);
  EndRun(*other);
  EXPECT_FALSE(LocksAreLeft());
}

TEST_F(SharingRun, AgentsOfAllKindsShare) {
  const std::map<std::string, std::string> two = {{"FAKE_SOFT", "2"}};
  const auto first = Hold({"--share", "--same-node", "never"}, two);
  const test::Outcome second = Run({"--share", "--no-wait", "--same-node", "never"}, two);
  EXPECT_EQ(second.exit_status, 0) << second.err;
  EXPECT_EQ(test::CountLines(second.out), 2U);
  // The second device's agent differs from the agent holding its lease.
  const test::Outcome several = Run(
      {"--share", "--no-wait", "--same-node", "never", "--hosts", "localhost:1,localhost:1"}, two);
  EXPECT_EQ(several.exit_status, 0) << several.err;
  EXPECT_EQ(test::CountLines(several.out), 2U);
  EndRun(*first);
  EXPECT_FALSE(LocksAreLeft());
}

TEST_F(SharingRun, ARunThatDoesNotShareWaits) {
  const auto sharing = Hold({"--share"});
  const test::Outcome alone = Run({"--no-wait"}, {{"CUSPAN_LEASES", "on"}});
  EXPECT_EQ(alone.exit_status, 125);
  EXPECT_THAT(alone.err, HasSubstr("held by run "));
  EndRun(*sharing);
  const auto holder = Hold({}, {{"CUSPAN_LEASES", "on"}});
  const test::Outcome second = Run({"--share", "--no-wait"});
  EXPECT_EQ(second.exit_status, 125);
  EXPECT_THAT(second.err, HasSubstr("held by run "));
  EndRun(*holder);
}

TEST_F(SharingRun, QuotasThatAreTooMuchTogetherAreSaid) {
  const auto first = Hold({"--share", "--quota", "60%"});
  const test::Outcome second = Run({"--share", "--quota", "50%", "--no-wait"});
  EXPECT_EQ(second.exit_status, 125);
  EXPECT_THAT(second.err, HasSubstr("%"));
  EXPECT_EQ(test::CountLines(second.err), 1U) << second.err;
  EXPECT_EQ(Run({"--share", "--quota", "40%", "--no-wait"}).exit_status, 0);
  EndRun(*first);
}

TEST_F(SharingRun, AKilledRunIsNotInTheWay) {
  const auto first = Hold({"--share"});
  const auto second = Hold({"--share"});
  ::kill(first->pid(), SIGKILL);
  first->Wait();
  first->WaitAllGone();
  const test::Outcome third = Run({"--share", "--wait=30"});
  EXPECT_EQ(third.exit_status, 0) << third.err;
  EndRun(*second);
  EXPECT_FALSE(LocksAreLeft());
}

TEST_F(SharingRun, TheNicenessOfTheLauncherIsTold) {
  const test::Outcome plan =
      test::RunCommand({"nice", "-n", "3", kSharingCuspan, "run", "--device", "soft", "--dry-run",
                        "--share", "--priority", "low", "--", "/bin/true"});
  EXPECT_EQ(plan.exit_status, 0) << plan.err;
  const int niceness = std::min(::getpriority(PRIO_PROCESS, 0) + 3, 19);
  EXPECT_THAT(plan.out,
              HasSubstr("--share --priority=10 --process-niceness=" + std::to_string(niceness)));
}

// --- Refusals, with one line each

struct RefusedSharing {
  const char* name;
  std::vector<std::string> options;
  const char* line;
};

class SharingRefused : public testing::TestWithParam<RefusedSharing> {};

INSTANTIATE_TEST_SUITE_P(
    Launcher, SharingRefused,
    testing::Values(
        RefusedSharing{
            "Way", {"--share=triple"}, "cuspan: --share=triple: GPUs are shared by time"},
        RefusedSharing{"Priority",
                       {"--share", "--priority", "urgent"},
                       "cuspan: --priority urgent: use low, normal, high"},
        RefusedSharing{
            "Quota", {"--share", "--quota", "120%"}, "cuspan: --quota 120%: use a percentage"},
        RefusedSharing{"Limit", {"--share", "--limit", "0"}, "cuspan: --limit 0: use a percentage"},
        RefusedSharing{"QuotaAboveLimit",
                       {"--share", "--quota", "60%", "--limit", "50%"},
                       "cuspan: --quota 60.0% is above --limit 50.0%"},
        RefusedSharing{"ShareLimit",
                       {"--share", "--share-limit", "1"},
                       "cuspan: --share-limit 1: 2 to 16 runs"},
        RefusedSharing{"PriorityAlone", {"--priority", "high"}, "cuspan: --priority needs --share"},
        RefusedSharing{"QuotaAlone", {"--quota", "30%"}, "cuspan: --quota needs --share"},
        RefusedSharing{"LimitAlone", {"--limit", "30%"}, "cuspan: --limit needs --share"},
        RefusedSharing{
            "ShareLimitAlone", {"--share-limit", "3"}, "cuspan: --share-limit needs --share"},
        RefusedSharing{
            "Kind", {"--share", "--kind", "fast"}, "cuspan: --kind fast: use compute or memory"},
        RefusedSharing{"KindAlone", {"--kind", "memory"}, "cuspan: --kind needs --share"},
        RefusedSharing{"PairAlone", {"--policy", "pair"}, "cuspan: --policy pair needs --share"}),
    [](const auto& info) { return info.param.name; });

TEST_P(SharingRefused, IsOneClearLine) {
  std::vector<std::string> words = {kSharingCuspan, "run", "--device", "soft"};
  words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
  words.insert(words.end(), {"--", "/bin/true"});
  const test::Outcome outcome = test::RunCommand(words);
  EXPECT_EQ(outcome.exit_status, 125);
  EXPECT_THAT(outcome.err, StartsWith(GetParam().line));
  EXPECT_EQ(test::CountLines(outcome.err), 1U) << outcome.err;
}

TEST(SharingLeases, AreNeeded) {
  const test::Outcome outcome =
      test::RunCommand({kSharingCuspan, "run", "--device", "soft", "--share", "--", "/bin/true"},
                       {{"CUSPAN_LEASES", "off"}});
  EXPECT_EQ(outcome.exit_status, 125);
  EXPECT_THAT(outcome.err, StartsWith("cuspan: --share needs leases"));
  EXPECT_EQ(test::CountLines(outcome.err), 1U) << outcome.err;
}

}  // namespace
}  // namespace cuspan
