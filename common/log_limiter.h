// How often lines that are alike are written: whoever can make a process say something can make it
// say that without end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cuspan {

// One thread at a time.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  // So many lines of a kind at once, and one more whenever so much time has passed.
  static constexpr int kBurst = 5;
  static constexpr std::chrono::seconds kEvery{10};
  // Kinds that are told apart. More than these count as one.
  static constexpr std::size_t kMaxKinds = 256;

  struct Verdict {
    bool write = true;
    // How many lines of that kind were not written since the last one that was.
    std::uint64_t left_out = 0;
  };
  // Counts a line of that kind.
  Verdict Take(std::string_view kind, Clock::time_point now);

 private:
  struct Bucket {
    int lines = kBurst;  // That may be written at once.
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
