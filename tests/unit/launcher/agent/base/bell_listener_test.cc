#include "launcher/agent/base/bell_listener.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace cuspan {
namespace {

class BellListenerTest : public testing::Test {
 protected:
  bool Readable(std::chrono::milliseconds limit) {
    pollfd waited{listener_->fd(), POLLIN, 0};
    return ::poll(&waited, 1, static_cast<int>(limit.count())) == 1;
  }
  bool Sleep() { return Readable(std::chrono::seconds(30)); }

  Bell bell_ = *Bell::Create();
  std::unique_ptr<BellListener> listener_ = *BellListener::Start(bell_);
};

TEST_F(BellListenerTest, HearsEachRingOfOneWhoSleeps) {
  for (int round = 0; round < 100; ++round) {
    listener_->Listen();
    std::thread ringing([this] { bell_.Ring(); });
    EXPECT_TRUE(Sleep());
    ringing.join();
    listener_->Stop();
    listener_->Consume();
  }
}

TEST_F(BellListenerTest, HearsARingBeforeTheSleep) {
  listener_->Listen();
  bell_.Ring();
  EXPECT_TRUE(Sleep());
}

TEST_F(BellListenerTest, NobodyPaysForTheWakeOfOneWhoIsAwake) {
  const std::uint32_t before = bell_.rung();
  bell_.Ring();
  listener_->Listen();
  listener_->Stop();
  bell_.Ring();
  EXPECT_EQ(bell_.rung(), before);
  EXPECT_FALSE(Readable(std::chrono::milliseconds(0)));
}

TEST_F(BellListenerTest, EndsWhileItListens) {
  listener_->Listen();
  listener_.reset();
}

}  // namespace
}  // namespace cuspan
