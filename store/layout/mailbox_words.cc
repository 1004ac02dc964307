#include "store/layout/mailbox_words.h"

#include <algorithm>
#include <bit>

#include "store/layout/geometry.h"

namespace cuspan::store {
namespace {

// Bytes of all places.
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
// No GPU has as many. They share queues.
constexpr std::uint32_t kMaxQueues = 256;
constexpr std::uint32_t kMaxMultiprocessors = 65536;

}  // namespace

Result<MailboxShape> PlanMailbox(std::uint32_t multiprocessors, std::uint8_t line_shift) {
  if (multiprocessors == 0 || multiprocessors > kMaxMultiprocessors)
    return Status::Invalid("no device has {} multiprocessors", multiprocessors);
  if (line_shift >= 32 || (1u << line_shift) < kMinLine || (1u << line_shift) > kMaxLine)
    return Status::Invalid("no line has 2^{} bytes", line_shift);
  const std::uint32_t queues = std::min(multiprocessors, kMaxQueues);
  const std::uint64_t room = (kMaxBytes >> line_shift) / queues;
  const std::uint64_t depth = std::bit_floor(std::clamp<std::uint64_t>(room, 1, kMaxDepth));
  return MailboxShape{queues, static_cast<std::uint8_t>(std::countr_zero(depth)), line_shift};
}

}  // namespace cuspan::store
