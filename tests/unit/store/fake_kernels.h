// The kernels' part of a mailbox's protocol, as include/cuspan/store_tables.h defines it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "store/engine/mailbox.h"

namespace cuspan::store {

// A request that waits for its answer.
struct FakeTicket {
  std::uint32_t entry = 0;
  std::uint32_t lap = 0;
};
struct FakeAnswer {
  std::uint64_t kind = 0;  // CUSPAN_ANSWER_…
  std::uint64_t value = 0;
};

// A request for the bytes of a line.
constexpr std::uint64_t ReadWord(std::uint16_t array, std::uint64_t line) {
  return std::uint64_t{CUSPAN_ASK_READ} << CUSPAN_ASK_SHIFT |
         std::uint64_t{array} << CUSPAN_ASK_ARRAY_SHIFT | line;
}

// Tickets and turns of a mailbox; the mailbox outlives it. Threads: any.
class FakeKernels {
 public:
  explicit FakeKernels(const Mailbox& mailbox)
      : shape_(mailbox.shape()),
        asked_(reinterpret_cast<std::uint64_t*>(mailbox.kernel_places().asked)),
        answered_(reinterpret_cast<std::uint64_t*>(mailbox.kernel_places().answered)),
        places_(reinterpret_cast<const std::byte*>(mailbox.kernel_places().places)),
        tickets_(shape_.queues),
        turns_(shape_.entries()) {}

  // Writes a request, without its mark, when it is the turn of the next entry.
  FakeTicket Post(std::uint32_t queue, std::uint64_t word) {
    const std::uint32_t number = tickets_[queue].fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t depth = 1u << shape_.depth_shift;
    const FakeTicket ticket{queue * depth + number % depth, number / depth};
    while (turns_[ticket.entry].load(std::memory_order_acquire) != ticket.lap)
      std::this_thread::yield();
    std::atomic_ref(asked_[ticket.entry]).store(MarkBits(ticket) | word, std::memory_order_release);
    return ticket;
  }
  bool IsAnswered(const FakeTicket& ticket) const {
    return ((Answered(ticket) ^ MarkBits(ticket)) >> CUSPAN_LAP_SHIFT) == 0;
  }
  // Waits for the answer. The entry stays taken.
  FakeAnswer Await(const FakeTicket& ticket) const {
    while (!IsAnswered(ticket)) std::this_thread::yield();
    const std::uint64_t word = Answered(ticket) ^ MarkBits(ticket);
    return {word >> CUSPAN_ANSWER_SHIFT, word & ((std::uint64_t{1} << CUSPAN_ANSWER_SHIFT) - 1)};
  }
  std::span<const std::byte> PlaceOf(const FakeTicket& ticket) const {
    return {places_ + (std::uint64_t{ticket.entry} << shape_.line_shift), shape_.line()};
  }
  // Gives the entry to the next request.
  void EndTurn(const FakeTicket& ticket) {
    turns_[ticket.entry].store(ticket.lap + 1, std::memory_order_release);
  }

  // A request from the beginning to the end. `use` is called with the answer and the place.
  template <typename Use>
  FakeAnswer Ask(std::uint32_t queue, std::uint64_t word, Use&& use) {
    const FakeTicket ticket = Post(queue, word);
    const FakeAnswer answer = Await(ticket);
    use(answer, PlaceOf(ticket));
    EndTurn(ticket);
    return answer;
  }
  FakeAnswer Ask(std::uint32_t queue, std::uint64_t word) {
    return Ask(queue, word, [](const FakeAnswer&, std::span<const std::byte>) {});
  }

 private:
  static std::uint64_t MarkBits(const FakeTicket& ticket) {
    return std::uint64_t{(ticket.lap + 1) & 0xff} << CUSPAN_LAP_SHIFT;
  }
  std::uint64_t Answered(const FakeTicket& ticket) const {
    return std::atomic_ref(answered_[ticket.entry]).load(std::memory_order_acquire);
  }

  const MailboxShape shape_;
  std::uint64_t* const asked_;
  std::uint64_t* const answered_;
  const std::byte* const places_;
  std::vector<std::atomic<std::uint32_t>> tickets_;  // One for each queue.
  std::vector<std::atomic<std::uint32_t>> turns_;    // One for each entry.
};

}  // namespace cuspan::store
