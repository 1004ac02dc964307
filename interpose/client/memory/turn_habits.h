// Finds the pages of managed memory used by the program and a device by turns. A turn begins with
// the first work posted after a notification of the program. Pure: addresses only, no locks. Used
// by kept_pages.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuspan {

class TurnHabits {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  // Turns in a row with a touch of the page, after which it is due.
  static constexpr unsigned kFewTurns = 3;
  // Number of pages watched. If more are touched at each turn, the first ones are.
  static constexpr std::size_t kMaxWatched = 8;

  // Only one page of each block of so many bytes is watched.
  explicit TurnHabits(std::uint64_t block_bytes) : block_bytes_(block_bytes) {}

  // The program touched the page, noticed by a page fault. Other touches of its block may have
  // caused no fault.
  void Touched(std::uint64_t page);
  // Begins a turn. Returns the pages due: touched in each of the last turns.
  std::vector<std::uint64_t> NextTurn();

  // Touches of the page are not noticed any more, until End.
  void Keep(std::uint64_t page);
  enum class Reason {
    kProbe,   // To see if the page is still touched.
    kInVain,  // It did not pay: next time more turns are needed.
    kGone,    // The memory has a new use.
  };
  void End(std::uint64_t page, Reason reason);

 private:
  // The most turns needed.
  static constexpr unsigned kManyTurns = 5000;

  struct Habit {
    std::uint64_t page = 0;  // 0: unused.
    unsigned turns = 0;      // Number in a row.
    unsigned needed = kFewTurns;
    std::uint64_t last = 0;  // The last of them; 0: none.
    bool kept = false;
  };
  Habit* Find(std::uint64_t page);

  const std::uint64_t block_bytes_;
  std::array<Habit, kMaxWatched> habits_;
  std::uint64_t turn_ = 2;  // Later than any use of an unused habit.
};

}  // namespace cuspan
