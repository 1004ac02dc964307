#include "launcher/agent/relay/link_rate.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;

constexpr ChannelLayout kLayout{16384, 16, 1 << 20};
constexpr std::uint32_t kMiB = 1 << 20;

// A link with a fixed speed in bytes/s, always with two sends in flight.
class Link {
 public:
  explicit Link(double bytes_per_second) : speed_(bytes_per_second) { rate.Started(now_); }
  void SetSpeed(double bytes_per_second) { speed_ = bytes_per_second; }
  void Pass(double seconds, std::uint32_t bytes) {
    const LinkRate::Time end =
        now_ + duration_cast<LinkRate::Time::duration>(duration<double>(seconds));
    while (now_ < end) {
      rate.Started(now_);
      now_ += duration_cast<LinkRate::Time::duration>(duration<double>(bytes / speed_));
      rate.Finished(bytes, now_);
    }
  }
  LinkRate rate{128 * 1024};

 private:
  double speed_;
  LinkRate::Time now_{};
};

TEST(LinkRate, FindsTheSpeedOfALink) {
  for (const double speed : {1.25e8, 1.25e9, 7e9, 2e10}) {
    Link link(speed);
    link.Pass(0.2, kMiB);
    EXPECT_NEAR(link.rate.bytes_per_second(), speed, speed / 20);
  }
}

TEST(LinkRate, OnASlowLinkLittleIsUnderWay) {
  Link link(1.25e8);
  link.Pass(0.2, kMiB);
  const Pace pace = link.rate.PaceFor(kLayout, 1);
  // Staged bytes and bytes in flight pass within 25 ms, including time for the reply.
  EXPECT_LE(pace.chunk_bytes * pace.slots / 1.25e8, 0.015);
  EXPECT_LE(static_cast<double>(link.rate.window_bytes()) / 1.25e8, 0.005);
  // The link is never idle: one chunk is filled, one sent, one waits.
  EXPECT_GE(pace.slots, 3U);
}

TEST(LinkRate, AFastLinkHasAllSlots) {
  Link link(8e9);
  link.Pass(0.2, kMiB);
  const Pace pace = link.rate.PaceFor(kLayout, 1);
  EXPECT_EQ(pace.chunk_bytes, kMiB);
  EXPECT_EQ(pace.slots, 16U);
}

TEST(LinkRate, WhatPassesInABurstDoesNotCountForLong) {
  Link link(1.25e8);
  link.Pass(0.2, kMiB);
  // A burst of 4 MiB, possible on a traffic-shaped link after an idle time.
  link.SetSpeed(1e10);
  link.Pass(0.0004, 1 << 17);
  link.SetSpeed(1.25e8);
  link.Pass(0.001, 1 << 17);
  EXPECT_LE(link.rate.bytes_per_second(), 2.6e8);
  link.Pass(0.05, 1 << 17);
  EXPECT_NEAR(link.rate.bytes_per_second(), 1.25e8, 1e7);
}

TEST(LinkRate, GrowsAgain) {
  Link link(1.25e8);
  link.Pass(0.1, kMiB);
  link.SetSpeed(8e9);
  link.Pass(0.1, 1 << 17);
  EXPECT_NEAR(link.rate.bytes_per_second(), 8e9, 4e8);
}

TEST(LinkRate, SmallChunksSayNothing) {
  Link link(1e9);
  const double before = link.rate.bytes_per_second();
  link.SetSpeed(1e5);
  link.Pass(1, 8);
  EXPECT_EQ(link.rate.bytes_per_second(), before);
}

TEST(LinkRate, RoutesShareWhatIsStaged) {
  Link link(1.25e9);
  link.Pass(0.2, kMiB);
  const Pace alone = link.rate.PaceFor(kLayout, 1);
  const Pace shared = link.rate.PaceFor(kLayout, 2);
  EXPECT_LT(shared.slots, alone.slots);
  EXPECT_GE(link.rate.PaceFor(kLayout, 100).slots, 3U);
  // One slot allows no pipelining.
  EXPECT_EQ(link.rate.PaceFor({16384, 1, kMiB}, 1).slots, 1U);
}

}  // namespace
}  // namespace cuspan
