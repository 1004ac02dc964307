#include "interpose/client/memory/turn_habits.h"

#include <algorithm>

namespace cuspan {

TurnHabits::Habit* TurnHabits::Find(std::uint64_t page) {
  for (Habit& habit : habits_)
    if (habit.page != 0 && habit.page / block_bytes_ == page / block_bytes_) return &habit;
  return nullptr;
}

void TurnHabits::Touched(std::uint64_t page) {
  Habit* habit = Find(page);
  if (habit == nullptr) {
    // The one not touched for the longest time.
    habit = &*std::min_element(habits_.begin(), habits_.end(), [](const Habit& a, const Habit& b) {
      return a.kept != b.kept ? b.kept : a.last < b.last;
    });
    // All are still touched: no more pages are watched.
    if (habit->kept || habit->last + 1 >= turn_) return;
    *habit = {};
  }
  if (habit->kept || (habit->page == page && habit->last == turn_)) return;
  const bool in_a_row = habit->page == page && habit->last + 1 == turn_;
  // Another page of the block, touched after the first one of this turn, changes nothing.
  if (habit->page != page && habit->last == turn_) return;
  habit->page = page;
  habit->turns = in_a_row ? habit->turns + 1 : 1;
  habit->last = turn_;
}

std::vector<std::uint64_t> TurnHabits::NextTurn() {
  std::vector<std::uint64_t> due;
  for (const Habit& habit : habits_)
    if (!habit.kept && habit.last == turn_ && habit.turns >= habit.needed)
      due.push_back(habit.page);
  ++turn_;
  return due;
}

void TurnHabits::Keep(std::uint64_t page) {
  if (Habit* const habit = Find(page)) habit->kept = true;
}

void TurnHabits::End(std::uint64_t page, Reason reason) {
  Habit* const habit = Find(page);
  if (habit == nullptr) return;
  habit->kept = false;
  switch (reason) {
    case Reason::kProbe:
      // Due again after the next turn with a touch.
      habit->turns = habit->needed - 1;
      habit->last = turn_ - 1;
      return;
    case Reason::kInVain:
      habit->turns = 0;
      habit->needed = std::min(4 * habit->needed, kManyTurns);
      return;
    case Reason::kGone:
      *habit = {};
      return;
  }
}

}  // namespace cuspan
