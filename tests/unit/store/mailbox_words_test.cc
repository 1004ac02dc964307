#include "store/layout/mailbox_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace cuspan::store {
namespace {

TEST(MailboxWordsTest, Shapes) {
  constexpr std::uint64_t kMaxPlaces = std::uint64_t{64} << 20;
  for (const std::uint32_t multiprocessors : {1u, 2u, 132u, 255u, 256u, 257u, 65536u})
    for (std::uint8_t line_shift = 9; line_shift <= 16; ++line_shift) {
      SCOPED_TRACE(testing::Message() << multiprocessors << " multiprocessors, lines of 2^"
                                      << int{line_shift} << " bytes");
      const Result<MailboxShape> shape = PlanMailbox(multiprocessors, line_shift);
      ASSERT_TRUE(shape.ok()) << shape.status().message();
      EXPECT_GE(shape->queues, 1u);
      EXPECT_LE(shape->queues, std::min(multiprocessors, 256u));
      EXPECT_EQ(shape->line_shift, line_shift);
      EXPECT_EQ(shape->line(), std::uint64_t{1} << line_shift);
      const std::uint64_t depth = std::uint64_t{1} << shape->depth_shift;
      EXPECT_EQ(shape->entries(), shape->queues * depth);
      EXPECT_TRUE(depth == 1 || shape->entries() * shape->line() <= kMaxPlaces);
      const Result<MailboxShape> again = PlanMailbox(shape->queues, line_shift);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(*again, *shape);
    }
}

TEST(MailboxWordsTest, ShapesOfNoDevice) {
  for (const std::uint32_t multiprocessors : {0u, 65537u, ~0u})
    EXPECT_EQ(PlanMailbox(multiprocessors, 12).status().code(), StatusCode::kInvalid);
  for (const std::uint8_t line_shift : {0, 8, 17, 31, 32, 40, 64, 255})
    EXPECT_EQ(PlanMailbox(132, line_shift).status().code(), StatusCode::kInvalid)
        << int{line_shift};
}

TEST(MailboxWordsTest, Requests) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t mark = random() % 256;
    const std::uint64_t kind = random() % 16;
    const std::uint64_t array = random() % CUSPAN_ASK_ARRAYS;
    const std::uint64_t line = random() >> (64 - CUSPAN_ASK_ARRAY_SHIFT) >> random() % 40;
    const std::uint64_t word = mark << CUSPAN_LAP_SHIFT | kind << CUSPAN_ASK_SHIFT |
                               array << CUSPAN_ASK_ARRAY_SHIFT | line;
    EXPECT_EQ(MarkIn(word), mark);
    const Asked asked = AskedOf(word);
    EXPECT_EQ(asked.kind, kind);
    EXPECT_EQ(asked.array, array);
    EXPECT_EQ(asked.line, line);
  }
  const Asked all = AskedOf(~std::uint64_t{0});
  EXPECT_EQ(all.kind, 15);
  EXPECT_EQ(all.array, CUSPAN_ASK_ARRAYS - 1);
  EXPECT_EQ(all.line, (std::uint64_t{1} << 40) - 1);
}

TEST(MailboxWordsTest, Answers) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const auto mark = static_cast<std::uint8_t>(random());
    const auto kind = static_cast<std::uint8_t>(random() % 16);
    const std::uint64_t value = random() >> 12 >> random() % 52;
    const std::uint64_t word = AnswerWord(mark, kind, value);
    EXPECT_EQ(MarkIn(word), mark);
    EXPECT_EQ(word >> CUSPAN_LAP_SHIFT, mark);
    EXPECT_EQ(word >> CUSPAN_ANSWER_SHIFT & 0xf, kind);
    EXPECT_EQ(word & ((std::uint64_t{1} << CUSPAN_ANSWER_SHIFT) - 1), value);
  }
  // All addresses of pages fit.
  const std::uint64_t address = ~std::uint64_t{0} << 12;
  EXPECT_EQ(AnswerWord(0, 0, address >> 12) << 12, address);
}

TEST(MailboxWordsTest, MarksOfLaps) {
  // Memory of a new mailbox is 0: no request of the first lap.
  EXPECT_NE(MarkOf(0), MarkIn(0));
  for (std::uint32_t lap = 0; lap < 600; ++lap) {
    EXPECT_EQ(MarkOf(lap), (lap + 1) % 256);
    EXPECT_NE(MarkOf(lap), MarkOf(lap + 1));
  }
  std::set<std::uint8_t> marks;
  for (std::uint32_t lap = 300; lap < 556; ++lap) marks.insert(MarkOf(lap));
  EXPECT_EQ(marks.size(), 256u);
}

}  // namespace
}  // namespace cuspan::store
