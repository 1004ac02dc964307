#include "interpose/client/connection/answer_watch.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using Step = AnswerWatch::Step;
constexpr unsigned kAsk = AnswerWatch::kAskAfterSeconds * AnswerWatch::kPollsPerSecond;
constexpr unsigned kTell = AnswerWatch::kTellAfterSeconds * AnswerWatch::kPollsPerSecond;

// Looks `count` times at an awaited proxy without activity.
void ExpectNothing(AnswerWatch& watch, unsigned count, std::uint64_t heard) {
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(watch.Look(true, heard, 0), Step::kNothing);
}

void ExpectAsks(AnswerWatch& watch, std::uint64_t heard) {
  ExpectNothing(watch, kAsk - 1, heard);
  EXPECT_EQ(watch.Look(true, heard, 0), Step::kAsk);
  watch.Asked();
}

// The same, until the user is warned.
void ExpectSilence(AnswerWatch& watch, std::uint64_t heard) {
  ExpectAsks(watch, heard);
  ExpectNothing(watch, kTell - kAsk - 1, heard);
  EXPECT_EQ(watch.Look(true, heard, 0), Step::kTellSilent);
}

TEST(AnswerWatch, AsksThenTellsOnce) {
  AnswerWatch watch;
  ExpectSilence(watch, 0);
  ExpectNothing(watch, 10 * kTell, 0);
}

TEST(AnswerWatch, AnAnswerEndsTheSilence) {
  AnswerWatch watch;
  ExpectAsks(watch, 0);
  EXPECT_EQ(watch.Look(true, 1, 0), Step::kNothing);
  ExpectSilence(watch, 1);
  EXPECT_EQ(watch.Look(true, 2, 0), Step::kTellBack);
  ExpectSilence(watch, 2);
}

// The agent in between consumes from the channel while its proxy is stopped.
TEST(AnswerWatch, AQuestionThatIsTakenIsNoAnswer) {
  AnswerWatch watch;
  ExpectAsks(watch, 0);
  for (unsigned taken = 1; taken < kTell - kAsk; ++taken)
    EXPECT_EQ(watch.Look(true, 0, taken), Step::kNothing);
  EXPECT_EQ(watch.Look(true, 0, kTell), Step::kTellSilent);
}

TEST(AnswerWatch, AFullChannelThatIsReadLives) {
  AnswerWatch watch;
  ExpectNothing(watch, kAsk - 1, 0);
  for (unsigned taken = 1; taken < 10 * kTell; ++taken)
    EXPECT_EQ(watch.Look(true, 0, taken), Step::kAsk);
}

TEST(AnswerWatch, AFullChannelThatNobodyReadsIsSilent) {
  AnswerWatch watch;
  ExpectNothing(watch, kAsk - 1, 0);
  for (unsigned i = kAsk; i < kTell; ++i) EXPECT_EQ(watch.Look(true, 0, 0), Step::kAsk);
  EXPECT_EQ(watch.Look(true, 0, 0), Step::kTellSilent);
}

TEST(AnswerWatch, NobodyWaitsForIt) {
  AnswerWatch watch;
  for (unsigned i = 0; i < 10 * kTell; ++i) EXPECT_EQ(watch.Look(false, 0, 0), Step::kNothing);
  ExpectNothing(watch, kAsk - 1, 0);
  EXPECT_EQ(watch.Look(false, 0, 0), Step::kNothing);
  ExpectSilence(watch, 0);
}

TEST(AnswerWatch, TellsThatItIsBackAlsoWhenNobodyWaits) {
  AnswerWatch watch;
  ExpectSilence(watch, 0);
  EXPECT_EQ(watch.Look(false, 0, 0), Step::kNothing);
  EXPECT_EQ(watch.Look(false, 1, 0), Step::kTellBack);
}

}  // namespace
}  // namespace cuspan
