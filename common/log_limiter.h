// Rate limit for similar log lines: other processes and users could trigger them endlessly.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cuspan {

// Threads: one at a time.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  // A burst of kBurst lines of a kind, then one line per kEvery.
  static constexpr int kBurst = 5;
  static constexpr std::chrono::seconds kEvery{10};
  // Maximum number of distinct kinds. All others count as one.
  static constexpr std::size_t kMaxKinds = 256;

  struct Verdict {
    bool write = true;
    // Number of lines of this kind suppressed since the last one written.
    std::uint64_t left_out = 0;
  };
  // Counts a line of the kind and decides if it is written.
  Verdict Judge(std::string_view kind, Clock::time_point now);

 private:
  struct Bucket {
    int lines = kBurst;  // Lines that may be written at once.
    Clock::time_point counted;
    std::uint64_t left_out = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  static void Refill(Bucket& bucket, Clock::time_point now);
  Bucket& Find(std::string_view kind, Clock::time_point now);

  std::unordered_map<std::string, Bucket, Hash, std::equal_to<>> buckets_;
};

}  // namespace cuspan
