// Schedules questions to a proxy awaited by threads, and the warning to the user if it does not
// answer.
#pragma once

#include <cstdint>

namespace cuspan {

// Counts calls of Look instead of time: while the program itself is stopped, no answer is due.
// Threads: one.
class AnswerWatch {
 public:
  static constexpr unsigned kPollsPerSecond = 4;  // Rate of the caller's calls.
  static constexpr unsigned kAskAfterSeconds = 5;
  static constexpr unsigned kReportAfterSeconds = 10;

  enum class Step { kNothing, kAsk, kReportSilent, kReportBack };

  // Returns the next action. `received` changes with every message from the proxy, `taken` when the
  // other side consumes from the channel.
  Step Poll(bool waited_for, std::uint64_t received, std::uint64_t taken) {
    const bool lives = received != received_;
    const bool takes = taken != taken_;
    received_ = received;
    taken_ = taken;
    if (lives || !waited_for) {
      silent_ = 0;
      asked_ = false;
    }
    if (lives && reported_) {
      reported_ = false;
      return Step::kReportBack;
    }
    if (lives || !waited_for || reported_) return Step::kNothing;
    ++silent_;
    if (silent_ < kAsk) return Step::kNothing;
    // If the channel has no room for the question, progress of the other side counts as an answer.
    if (!asked_ && takes) silent_ = kAsk;
    if (silent_ < kReport) return asked_ ? Step::kNothing : Step::kAsk;
    reported_ = true;
    return Step::kReportSilent;
  }
  // Confirms a posted question; without it, the next call returns kAsk again.
  void Asked() { asked_ = true; }

 private:
  static constexpr unsigned kAsk = kAskAfterSeconds * kPollsPerSecond;
  static constexpr unsigned kReport = kReportAfterSeconds * kPollsPerSecond;

  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;
  unsigned silent_ = 0;  // Consecutive calls with threads waiting and no message.
  bool asked_ = false;   // True if asked during these.
  bool reported_ = false;
};

}  // namespace cuspan
