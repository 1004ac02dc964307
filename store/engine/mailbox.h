// Requests of kernels to the host, and its answers: include/cuspan/store_tables.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "store/engine/engine_driver.h"
#include "store/layout/mailbox_words.h"
#include "store/layout/run_functions.h"

namespace cuspan::store {

class Mailbox {
 public:
  // Page-locks its memory. `shape`: by PlanMailbox. Leaves the context current on the thread.
  // kExhausted, kUnavailable: the system or the driver gives none.
  static Result<std::unique_ptr<Mailbox>> Make(const EngineContext& context,
                                               const MailboxShape& shape);
  // Waits for running kernels, as the driver does. Leaves the context current on the thread.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;

  const MailboxShape& shape() const { return shape_; }
  const ServedPlaces& kernel_places() const { return kernel_places_; }

  // An entry with a request. Its answer is due: until then it has no other.
  struct Request {
    std::uint32_t entry = 0;
    std::uint8_t mark = 0;
    Asked asked;
  };
  // Brings the queue's next word into the cache of this core: kernels have written it. Cheap.
  void Prefetch(std::uint32_t queue) const {
    const std::uint32_t ticket = queues_[queue].ticket.load(std::memory_order_relaxed);
    __builtin_prefetch(&asked_[EntryOf(queue, ticket)]);
  }
  // True if the queue's next entry has a request. Threads: any.
  bool HasNext(std::uint32_t queue) const;
  // Takes it. Threads: one at a time for each queue.
  std::optional<Request> Next(std::uint32_t queue);

  // A line's place of an entry, aligned to its size up to 4 KiB.
  std::span<std::byte> PlaceOf(std::uint32_t entry) {
    return {places_ + (std::uint64_t{entry} << shape_.line_shift), shape_.line()};
  }
  // Answers. Kernels see the bytes written to the place before. Threads: any.
  void Answer(const Request& request, std::uint8_t kind, std::uint64_t value) {
    DueOf(request.entry).store(false, std::memory_order_release);
    std::atomic_ref(answered_[request.entry])
        .store(AnswerWord(request.mark, kind, value), std::memory_order_release);
  }

 private:
  // State of a queue, out of reach of kernels. Apart from others: they have other threads.
  struct alignas(64) Queue {
    std::atomic<std::uint32_t> ticket = 0;  // The next one.
    // Entries with a request, but no answer.
    alignas(64) std::array<std::atomic<bool>, kMaxDepth> due{};
  };

  Mailbox(const EngineContext& context, const MailboxShape& shape)
      : context_(context), shape_(shape), queues_(shape.queues) {}
  Status Map();
  std::uint32_t EntryOf(std::uint32_t queue, std::uint32_t ticket) const {
    return (queue << shape_.depth_shift) + (ticket & ((1u << shape_.depth_shift) - 1));
  }

  std::atomic<bool>& DueOf(std::uint32_t entry) {
    return queues_[entry >> shape_.depth_shift].due[entry & ((1u << shape_.depth_shift) - 1)];
  }

  const EngineContext context_;
  const MailboxShape shape_;
  std::vector<Queue> queues_;
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool locked_ = false;
  ServedPlaces kernel_places_;
  std::uint64_t* asked_ = nullptr;
  std::uint64_t* answered_ = nullptr;
  std::byte* places_ = nullptr;
};

}  // namespace cuspan::store
