#include "launcher/agent/base/bell_ringer.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cuspan {
namespace {

class BellRingerTest : public testing::Test {
 protected:
  void Write() {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(fd_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void Read() {
    std::uint64_t count = 0;
    ASSERT_EQ(::read(fd_.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  }
  bool Sleep() {
    return bell_.Wait([this] { return ringer_->fired(); }, std::chrono::seconds(30), {});
  }

  Bell bell_ = *Bell::Create();
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<BellRinger> ringer_ = *BellRinger::Start(bell_, fd_.get());
};

TEST_F(BellRingerTest, WakesWhoSleepsEachTimeItIsAsked) {
  for (int round = 0; round < 100; ++round) {
    ringer_->Watch();
    EXPECT_FALSE(ringer_->fired());
    Write();
    EXPECT_TRUE(Sleep());
    Read();
  }
}

TEST_F(BellRingerTest, WakesForWhatWasThereBefore) {
  Write();
  ringer_->Watch();
  EXPECT_TRUE(Sleep());
}

TEST_F(BellRingerTest, MayBeAskedAgainBeforeItHasRung) {
  for (int i = 0; i < 3; ++i) ringer_->Watch();
  Write();
  EXPECT_TRUE(Sleep());
}

TEST_F(BellRingerTest, EndsWhileItWatches) {
  ringer_->Watch();
  ringer_.reset();
}

}  // namespace
}  // namespace cuspan
