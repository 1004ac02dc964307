// Keepers of several runs on one host: their notifications to each run, and the times.
#include "launcher/agent/lease/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <list>

#include "common/settings.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGpuMemory = std::uint64_t{16} << 30;

// A run with its keeper, and replies not read yet.
struct KeptRun {
  KeptRun() {
    keeper.SetAnswers({[this](const LeaseView& view) { views.push_back(view); },
                       [this](const LeaseTaken& answer) { answers.push_back(answer); }});
  }
  Poller poller = *Poller::Create();
  LeaseKeeper keeper{poller, "n1"};
  std::vector<LeaseView> views;
  std::vector<LeaseTaken> answers;
};

class LeaseKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const Setting* setting : {&settings::kLeaseFolder, &settings::kShareFolder}) {
      std::string folder = (std::filesystem::temp_directory_path() / "keeper-XXXXXX").string();
      ASSERT_NE(::mkdtemp(folder.data()), nullptr);
      ASSERT_EQ(::setenv(setting->name, folder.c_str(), 1), 0);
      folders_.push_back(folder);
    }
  }
  void TearDown() override {
    runs_.clear();
    for (const Setting* setting : {&settings::kLeaseFolder, &settings::kShareFolder})
      ::unsetenv(setting->name);
    for (const std::string& folder : folders_) std::filesystem::remove_all(folder);
  }

  // Returns a run waiting for a GPU, after its first view of the leases.
  KeptRun& Entered(std::uint64_t order, const ShareTerms& terms, const std::string& gpu = "g0") {
    KeptRun& run = runs_.emplace_back();
    run.keeper.Enter({started_ + order,
                      Format("{:016x}", order),
                      "",
                      "train",
                      "",
                      1,
                      {gpu},
                      {kGpuMemory},
                      terms});
    Until([&] { return !run.views.empty(); });
    return run;
  }
  LeaseTaken Take(KeptRun& run) {
    run.answers.clear();
    run.keeper.Take({1, {"g0"}});
    Until([&] { return !run.answers.empty(); });
    return run.answers.front();
  }
  KeptRun& Having(std::uint64_t order, const ShareTerms& terms) {
    KeptRun& run = Entered(order, terms);
    EXPECT_THAT(run.views.back().held, IsEmpty());
    EXPECT_TRUE(Take(run).taken);
    run.keeper.Settle();
    // A settled run is no longer ahead of others in the queue.
    Until([&] { return Tickets("cuspan-wait-") == 0; });
    return run;
  }
  std::size_t Tickets(const std::string& prefix) const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folders_.front()))
      if (entry.path().filename().string().starts_with(prefix)) ++count;
    return count;
  }
  // No limit but the test's own time-out.
  template <typename Condition>
  void Until(Condition condition) {
    while (!condition())
      for (KeptRun& run : runs_) run.poller.Wait(std::chrono::milliseconds(1));
  }

  static ShareTerms Terms(std::uint32_t quota = 0) {
    ShareTerms terms;
    terms.shared = true;
    terms.quota = quota;
    return terms;
  }

  // Start time of the runs. Hosts refuse times before their own start.
  const std::uint64_t started_ = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  std::vector<std::string> folders_;
  std::list<KeptRun> runs_;
};

TEST_F(LeaseKeeperTest, AThirdRunThatSharesGetsItWhenOneLeaves) {
  KeptRun& first = Having(1, Terms());
  Having(2, Terms());
  KeptRun& third = Entered(3, Terms());
  EXPECT_THAT(third.views.back().held, ElementsAre("g0"));
  EXPECT_THAT(third.views.back().full, ElementsAre(HasSubstr("2 runs share it")));
  EXPECT_FALSE(Take(third).taken);
  third.views.clear();
  first.keeper.Leave();
  Until([&] { return !third.views.empty() && third.views.back().held.empty(); });
  EXPECT_TRUE(Take(third).taken);
}

TEST_F(LeaseKeeperTest, ARunWithoutTermsHasTheGpuToItself) {
  KeptRun& sharing = Having(1, Terms());
  KeptRun& alone = Entered(2, {});
  EXPECT_THAT(alone.views.back().held, ElementsAre("g0"));
  EXPECT_FALSE(Take(alone).taken);
  alone.views.clear();
  sharing.keeper.Leave();
  Until([&] { return !alone.views.empty() && alone.views.back().held.empty(); });
  EXPECT_TRUE(Take(alone).taken);
  alone.keeper.Settle();
  KeptRun& later = Entered(3, Terms());
  Until([&] { return later.views.back().held == std::vector<std::string>{"g0"}; });
  EXPECT_FALSE(Take(later).taken);
}

TEST_F(LeaseKeeperTest, QuotasThatAreTooMuchTogetherWait) {
  Having(1, Terms(600));
  KeptRun& second = Entered(2, Terms(500));
  EXPECT_THAT(second.views.back().held, ElementsAre("g0"));
  EXPECT_THAT(second.views.back().full, ElementsAre(HasSubstr("%")));
  EXPECT_FALSE(Take(second).taken);
  EXPECT_TRUE(second.answers.front().problem.empty());
}

TEST_F(LeaseKeeperTest, APairNeedsMpsUnlessTheGpuIsASoftwareGpu) {
  ASSERT_EQ(::setenv(settings::kMpsControl.name, "/nowhere/mps-control", 1), 0);
  ShareTerms terms = Terms();
  terms.pair = true;
  EXPECT_THAT(Entered(1, terms).views.back().problem,
              testing::AllOf(HasSubstr("--share=pair"), HasSubstr("/nowhere/mps-control"),
                             HasSubstr("use --share")));
  EXPECT_EQ(Entered(2, terms, "soft0").views.back().problem, "");
  EXPECT_EQ(Entered(3, Terms()).views.back().problem, "");
  ASSERT_EQ(::setenv(settings::kMpsControl.name, "/bin/true", 1), 0);
  EXPECT_EQ(Entered(4, terms).views.back().problem, "");
  ::unsetenv(settings::kMpsControl.name);
}

TEST_F(LeaseKeeperTest, NothingIsLeftWhenAllHaveLeft) {
  KeptRun& first = Having(1, Terms());
  KeptRun& second = Having(2, Terms());
  first.keeper.Leave();
  second.keeper.Leave();
  EXPECT_EQ(Tickets(""), 0U);
}

}  // namespace
}  // namespace cuspan
