#include "proxy/streams/backlog.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMany = Backlog::kMaxWaiting + 1;

TEST(Backlog, FramesAreLeftWhileManyWaitAndSomethingMoves) {
  Backlog backlog;
  Backlog::Time time{};
  const auto now = [&] { return time; };
  EXPECT_FALSE(backlog.Hold(Backlog::kMaxWaiting, 0, now));
  EXPECT_TRUE(backlog.Hold(kMany, 0, now));
  for (std::uint64_t taken = 1; taken < 10; ++taken) {
    time += Backlog::kPatience - milliseconds(1);
    EXPECT_TRUE(backlog.Hold(Backlog::kFewWaiting + 1, taken, now));
  }
  EXPECT_FALSE(backlog.Hold(Backlog::kFewWaiting, 10, now));
  EXPECT_FALSE(backlog.Hold(Backlog::kFewWaiting + 1, 11, now));
}

TEST(Backlog, FramesAreReadWhenNothingMovesUntilSomethingDoes) {
  Backlog backlog;
  Backlog::Time time{};
  const auto now = [&] { return time; };
  EXPECT_TRUE(backlog.Hold(kMany, 5, now));
  time += Backlog::kPatience;
  EXPECT_FALSE(backlog.Hold(kMany, 5, now));
  EXPECT_FALSE(backlog.Hold(kMany + 1, 5, now));
  EXPECT_TRUE(backlog.Hold(kMany, 6, now));
}

using FloodTest = ServerTest;

TEST_F(FloodTest, WhatWaitsForSomethingBehindTheFloodGetsIt) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t block = loopback.Map();
  client.Post(Memset{stream, block, 0, 4, 1});
  client.Post(StreamWaitSignal{stream, 3});
  // More ops than the maximum backlog and the ring together.
  const auto count = static_cast<std::uint32_t>(Backlog::kMaxWaiting + 50'000);
  for (std::uint32_t i = 0; i < count; ++i) client.Post(Memset{stream, block, 0, 4, 1});
  PostAdd(stream, block, 1, 5);
  client.Post(Signal{3});
  EXPECT_EQ(ReadWord(stream, block), 5U);
  EXPECT_EQ(client.Now().failures.size(), 0U);
}

TEST_F(FloodTest, AFloodThatTheDeviceWorksOffIsAllDone) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t block = loopback.Map();
  client.Post(Memset{stream, block, 0, 4, 1});
  const auto count = static_cast<std::uint32_t>(2 * Backlog::kMaxWaiting);
  for (std::uint32_t i = 0; i < count; ++i) PostAdd(stream, block, 1, 1);
  EXPECT_EQ(ReadWord(stream, block), count);
}

}  // namespace
}  // namespace cuspan::proxy
