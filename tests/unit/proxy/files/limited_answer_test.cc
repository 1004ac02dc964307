#include "proxy/files/limited_answer.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cuspan::proxy {
namespace {

using namespace std::chrono_literals;

TEST(LimitedAnswerTest, TheFirstOneCounts) {
  std::vector<int> given;
  LimitedAnswer<int> answer([&](int value) { given.push_back(value); });
  EXPECT_TRUE(answer.Give(1));
  EXPECT_FALSE(answer.Give(2));
  EXPECT_FALSE(answer.GiveAfter(0ms, 3));
  EXPECT_FALSE(answer.GiveAfter(1h, 3));
  EXPECT_EQ(given, std::vector<int>{1});
}

TEST(LimitedAnswerTest, TheLimitEndsTheWait) {
  std::vector<int> given;
  LimitedAnswer<int> answer([&](int value) { given.push_back(value); });
  EXPECT_TRUE(answer.GiveAfter(0ms, 3));
  EXPECT_FALSE(answer.Give(1));
  EXPECT_EQ(given, std::vector<int>{3});
}

TEST(LimitedAnswerTest, AnAnswerEndsTheWait) {
  std::vector<int> given;
  LimitedAnswer<int> answer([&](int value) { given.push_back(value); });
  std::thread other([&] { EXPECT_TRUE(answer.Give(1)); });
  EXPECT_FALSE(answer.GiveAfter(1h, 3));
  other.join();
  EXPECT_EQ(given, std::vector<int>{1});
}

}  // namespace
}  // namespace cuspan::proxy
