// When a proxy that somebody waits for is asked whether it lives, and when a person is told that it
// does not answer.
#pragma once

#include <cstdint>

namespace cuspan {

// Counts looks, and knows no clock: a program that was stopped itself has missed nothing. One
// thread.
class AnswerWatch {
 public:
  static constexpr unsigned kPollsPerSecond = 4;  // By whoever calls Look.
  static constexpr unsigned kAskAfterSeconds = 5;
  static constexpr unsigned kTellAfterSeconds = 10;

  enum class Step { kNothing, kAsk, kTellSilent, kTellBack };

  // What to do now. `heard` changes whenever something has come from the proxy, `taken` whenever
  // something of the channel to it was taken.
  Step Look(bool waited_for, std::uint64_t heard, std::uint64_t taken) {
    const bool lives = heard != heard_;
    const bool takes = taken != taken_;
    heard_ = heard;
    taken_ = taken;
    if (lives || !waited_for) {
      silent_ = 0;
      asked_ = false;
    }
    if (lives && told_) {
      told_ = false;
      return Step::kTellBack;
    }
    if (lives || !waited_for || told_) return Step::kNothing;
    ++silent_;
    if (silent_ < kAsk) return Step::kNothing;
    // While there is no room to ask, what is taken counts in place of an answer.
    if (!asked_ && takes) silent_ = kAsk;
    if (silent_ < kTell) return asked_ ? Step::kNothing : Step::kAsk;
    told_ = true;
    return Step::kTellSilent;
  }
  // There was room to ask; otherwise Look says so again.
  void Asked() { asked_ = true; }

 private:
  static constexpr unsigned kAsk = kAskAfterSeconds * kPollsPerSecond;
  static constexpr unsigned kTell = kTellAfterSeconds * kPollsPerSecond;

  std::uint64_t heard_ = 0;
  std::uint64_t taken_ = 0;
  unsigned silent_ = 0;  // Looks in a row at a proxy that is waited for and says nothing.
  bool asked_ = false;   // In these.
  bool told_ = false;
};

}  // namespace cuspan
