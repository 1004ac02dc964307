// Words and sizes of a mailbox: include/cuspan/store_tables.h.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "include/cuspan/store_tables.h"

namespace cuspan::store {

// Limit of entries of a queue: so many warps of a multiprocessor may wait for the host at a time.
inline constexpr std::uint32_t kMaxDepth = 64;

struct MailboxShape {
  std::uint32_t queues = 0;
  std::uint8_t depth_shift = 0;  // A queue has 2^depth_shift entries.
  std::uint8_t line_shift = 0;

  constexpr std::uint32_t entries() const { return queues << depth_shift; }
  constexpr std::uint64_t line() const { return std::uint64_t{1} << line_shift; }
  bool operator==(const MailboxShape&) const = default;
};

// Shape for a device with this number of multiprocessors. kInvalid for a number or a line that no
// device or cache has.
Result<MailboxShape> PlanMailbox(std::uint32_t multiprocessors, std::uint8_t line_shift);

// A word written by kernels. They may write anything.
struct Asked {
  std::uint8_t kind = 0;  // CUSPAN_ASK_…
  std::uint16_t array = 0;
  std::uint64_t line = 0;
};
constexpr Asked AskedOf(std::uint64_t word) {
  return {static_cast<std::uint8_t>(word >> CUSPAN_ASK_SHIFT & 0xf),
          static_cast<std::uint16_t>(word >> CUSPAN_ASK_ARRAY_SHIFT & (CUSPAN_ASK_ARRAYS - 1)),
          word & ((std::uint64_t{1} << CUSPAN_ASK_ARRAY_SHIFT) - 1)};
}

// The mark of a lap in both words. The first lap is 0.
constexpr std::uint8_t MarkOf(std::uint32_t lap) { return static_cast<std::uint8_t>(lap + 1); }
constexpr std::uint8_t MarkIn(std::uint64_t word) {
  return static_cast<std::uint8_t>(word >> CUSPAN_LAP_SHIFT);
}

// `kind`: CUSPAN_ANSWER_…, of which `value` depends.
constexpr std::uint64_t AnswerWord(std::uint8_t mark, std::uint8_t kind, std::uint64_t value) {
  return std::uint64_t{mark} << CUSPAN_LAP_SHIFT | std::uint64_t{kind} << CUSPAN_ANSWER_SHIFT |
         (value & ((std::uint64_t{1} << CUSPAN_ANSWER_SHIFT) - 1));
}

}  // namespace cuspan::store
