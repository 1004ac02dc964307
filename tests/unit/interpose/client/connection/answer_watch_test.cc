#include "interpose/client/connection/answer_watch.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using Step = AnswerWatch::Step;
constexpr unsigned kAsk = AnswerWatch::kAskAfterSeconds * AnswerWatch::kPollsPerSecond;
constexpr unsigned kReport = AnswerWatch::kReportAfterSeconds * AnswerWatch::kPollsPerSecond;

// Looks `count` times at an awaited proxy without activity.
void ExpectNothing(AnswerWatch& watch, unsigned count, std::uint64_t received) {
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(watch.Poll(true, received, 0), Step::kNothing);
}

void ExpectAsks(AnswerWatch& watch, std::uint64_t received) {
  ExpectNothing(watch, kAsk - 1, received);
  EXPECT_EQ(watch.Poll(true, received, 0), Step::kAsk);
  watch.Asked();
}

// The same, until the user is warned.
void ExpectSilence(AnswerWatch& watch, std::uint64_t received) {
  ExpectAsks(watch, received);
  ExpectNothing(watch, kReport - kAsk - 1, received);
  EXPECT_EQ(watch.Poll(true, received, 0), Step::kReportSilent);
}

TEST(AnswerWatch, AsksThenTellsOnce) {
  AnswerWatch watch;
  ExpectSilence(watch, 0);
  ExpectNothing(watch, 10 * kReport, 0);
}

TEST(AnswerWatch, AnAnswerEndsTheSilence) {
  AnswerWatch watch;
  ExpectAsks(watch, 0);
  EXPECT_EQ(watch.Poll(true, 1, 0), Step::kNothing);
  ExpectSilence(watch, 1);
  EXPECT_EQ(watch.Poll(true, 2, 0), Step::kReportBack);
  ExpectSilence(watch, 2);
}

// The agent in between consumes from the channel while its proxy is stopped.
TEST(AnswerWatch, AQuestionThatIsTakenIsNoAnswer) {
  AnswerWatch watch;
  ExpectAsks(watch, 0);
  for (unsigned taken = 1; taken < kReport - kAsk; ++taken)
    EXPECT_EQ(watch.Poll(true, 0, taken), Step::kNothing);
  EXPECT_EQ(watch.Poll(true, 0, kReport), Step::kReportSilent);
}

TEST(AnswerWatch, AFullChannelThatIsReadLives) {
  AnswerWatch watch;
  ExpectNothing(watch, kAsk - 1, 0);
  for (unsigned taken = 1; taken < 10 * kReport; ++taken)
    EXPECT_EQ(watch.Poll(true, 0, taken), Step::kAsk);
}

TEST(AnswerWatch, AFullChannelThatNobodyReadsIsSilent) {
  AnswerWatch watch;
  ExpectNothing(watch, kAsk - 1, 0);
  for (unsigned i = kAsk; i < kReport; ++i) EXPECT_EQ(watch.Poll(true, 0, 0), Step::kAsk);
  EXPECT_EQ(watch.Poll(true, 0, 0), Step::kReportSilent);
}

TEST(AnswerWatch, NobodyWaitsForIt) {
  AnswerWatch watch;
  for (unsigned i = 0; i < 10 * kReport; ++i) EXPECT_EQ(watch.Poll(false, 0, 0), Step::kNothing);
  ExpectNothing(watch, kAsk - 1, 0);
  EXPECT_EQ(watch.Poll(false, 0, 0), Step::kNothing);
  ExpectSilence(watch, 0);
}

TEST(AnswerWatch, TellsThatItIsBackAlsoWhenNobodyWaits) {
  AnswerWatch watch;
  ExpectSilence(watch, 0);
  EXPECT_EQ(watch.Poll(false, 0, 0), Step::kNothing);
  EXPECT_EQ(watch.Poll(false, 1, 0), Step::kReportBack);
}

}  // namespace
}  // namespace cuspan
