#include "store/engine/mailbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "store/engine/served_array.h"
#include "tests/unit/store/fake_driver.h"
#include "tests/unit/store/fake_kernels.h"

namespace cuspan::store {
namespace {

class MailboxTest : public FakeDriverTest {
 protected:
  static std::unique_ptr<Mailbox> Make(const MailboxShape& shape) {
    Result<std::unique_ptr<Mailbox>> mailbox = Mailbox::Make(FakeEngine(), shape);
    EXPECT_TRUE(mailbox.ok()) << mailbox.status().message();
    return std::move(*mailbox);
  }
  // Address of a queue's first word for kernels.
  static std::uint64_t* AskedOfQueue(const Mailbox& mailbox, std::uint32_t queue) {
    return reinterpret_cast<std::uint64_t*>(mailbox.kernel_places().asked) +
           (std::uint64_t{queue} << mailbox.shape().depth_shift);
  }
};

// Bytes of a line for a request.
std::uint64_t BytesFor(const Asked& asked, std::uint64_t position) {
  return (asked.line << 12 | asked.array) * 0x9e3779b97f4a7c15 + position;
}

// Answers requests until all have been answered, a few at a time and in any order. Serves the
// queues of one of several threads.
void ServeInAnyOrder(Mailbox& mailbox, unsigned index, unsigned threads,
                     std::atomic<unsigned>& open) {
  std::mt19937 random(index);
  std::vector<Mailbox::Request> requests;
  while (open != 0) {
    bool more = false;
    for (std::uint32_t queue = index; queue < mailbox.shape().queues; queue += threads) {
      mailbox.Prefetch(queue);
      const bool has_next = mailbox.HasNext(queue);
      const std::optional<Mailbox::Request> request = mailbox.Next(queue);
      EXPECT_TRUE(request || !has_next);
      if (!request) continue;
      requests.push_back(*request);
      more = true;
    }
    if (more && random() % 2 == 0) continue;
    if (requests.empty()) std::this_thread::yield();
    std::shuffle(requests.begin(), requests.end(), random);
    for (const Mailbox::Request& request : requests) {
      const std::span<std::byte> place = mailbox.PlaceOf(request.entry);
      for (std::size_t i = 0; i < place.size(); i += sizeof(std::uint64_t)) {
        const std::uint64_t bytes = BytesFor(request.asked, i);
        std::memcpy(place.data() + i, &bytes, sizeof bytes);
      }
      const bool bytes = request.asked.kind == CUSPAN_ASK_READ;
      mailbox.Answer(request, bytes ? CUSPAN_ANSWER_BYTES : CUSPAN_ANSWER_FAILED,
                     request.asked.line);
    }
    requests.clear();
  }
}

TEST_F(MailboxTest, EachRequestHasItsOwnAnswer) {
  constexpr unsigned kThreads = 5;
  constexpr int kRequests = 20000;  // Requests of a thread.
  for (const MailboxShape& shape : {MailboxShape{3, 2, 9}, MailboxShape{1, 0, 10}}) {
    const std::unique_ptr<Mailbox> mailbox = Make(shape);
    FakeKernels kernels(*mailbox);
    std::atomic<unsigned> open = kThreads;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 2; ++i)
      threads.emplace_back([&, i] { ServeInAnyOrder(*mailbox, i, 2, open); });
    for (unsigned i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        std::mt19937_64 random(i);
        const int count = shape.depth_shift == 0 ? kRequests / 10 : kRequests;
        for (int n = 0; n < count; ++n) {
          Asked asked;
          asked.kind = random() % 8 == 0 ? 7 : CUSPAN_ASK_READ;
          asked.array = static_cast<std::uint16_t>(random() % CUSPAN_ASK_ARRAYS);
          asked.line = random() >> 24;
          const std::uint64_t word = std::uint64_t{asked.kind} << CUSPAN_ASK_SHIFT |
                                     std::uint64_t{asked.array} << CUSPAN_ASK_ARRAY_SHIFT |
                                     asked.line;
          kernels.Ask(static_cast<std::uint32_t>(random() % shape.queues), word,
                      [&](const FakeAnswer& answer, std::span<const std::byte> place) {
                        const bool read = asked.kind == CUSPAN_ASK_READ;
                        bool right = answer.value == asked.line &&
                                     answer.kind == (read ? std::uint64_t{CUSPAN_ANSWER_BYTES}
                                                          : std::uint64_t{CUSPAN_ANSWER_FAILED});
                        for (std::size_t at = 0; at < place.size(); at += sizeof(std::uint64_t)) {
                          const std::uint64_t expected = BytesFor(asked, at);
                          if (std::memcmp(place.data() + at, &expected, sizeof expected) != 0)
                            right = false;
                        }
                        if (!right) ++wrong;
                      });
        }
        --open;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    for (std::uint32_t queue = 0; queue < shape.queues; ++queue)
      EXPECT_FALSE(mailbox->HasNext(queue));
  }
}

TEST_F(MailboxTest, OnlyTheMarkOfTheLapIsARequest) {
  const std::unique_ptr<Mailbox> mailbox = Make({2, 1, 9});
  std::mt19937_64 random(3);
  constexpr std::uint64_t kBelowMark = (std::uint64_t{1} << CUSPAN_LAP_SHIFT) - 1;
  std::uint64_t* const words = AskedOfQueue(*mailbox, 1);
  for (std::uint32_t ticket = 0; ticket < 2 * 600; ++ticket) {
    const std::uint32_t mark = (ticket / 2 + 1) % 256;
    std::uint64_t& next = words[ticket % 2];
    for (std::uint32_t other = 1; other < 256; ++other) {
      next = std::uint64_t{(mark + other) % 256} << CUSPAN_LAP_SHIFT | (random() & kBelowMark);
      ASSERT_FALSE(mailbox->HasNext(1));
      ASSERT_FALSE(mailbox->Next(1).has_value());
    }
    const std::uint64_t garbage = random() & kBelowMark;
    next = std::uint64_t{mark} << CUSPAN_LAP_SHIFT | garbage;
    ASSERT_TRUE(mailbox->HasNext(1));
    ASSERT_FALSE(mailbox->HasNext(0));
    const std::optional<Mailbox::Request> request = mailbox->Next(1);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->entry, 2 + ticket % 2);
    EXPECT_EQ(request->mark, mark);
    EXPECT_EQ(request->asked.kind, garbage >> CUSPAN_ASK_SHIFT);
    EXPECT_EQ(request->asked.array, garbage >> CUSPAN_ASK_ARRAY_SHIFT & 0xfff);
    EXPECT_EQ(request->asked.line, garbage & 0xffffffffff);
    mailbox->Answer(*request, CUSPAN_ANSWER_BYTES, 0);
  }
  EXPECT_FALSE(mailbox->HasNext(0));
}

TEST_F(MailboxTest, AnEntryHasOneRequestUntilItsAnswer) {
  const std::unique_ptr<Mailbox> mailbox = Make({1, 0, 9});
  std::uint64_t& word = AskedOfQueue(*mailbox, 0)[0];
  word = std::uint64_t{1} << CUSPAN_LAP_SHIFT;
  const std::optional<Mailbox::Request> first = mailbox->Next(0);
  ASSERT_TRUE(first.has_value());
  word = std::uint64_t{2} << CUSPAN_LAP_SHIFT;
  EXPECT_FALSE(mailbox->HasNext(0));
  EXPECT_FALSE(mailbox->Next(0).has_value());
  mailbox->Answer(*first, CUSPAN_ANSWER_BYTES, 0);
  EXPECT_TRUE(mailbox->HasNext(0));
  EXPECT_TRUE(mailbox->Next(0).has_value());
}

TEST_F(MailboxTest, OnlyTheNextEntryIsLookedAt) {
  const std::unique_ptr<Mailbox> mailbox = Make({1, 2, 9});
  std::uint64_t* const words = AskedOfQueue(*mailbox, 0);
  constexpr std::uint64_t kFirstLap = std::uint64_t{1} << CUSPAN_LAP_SHIFT;
  for (int i = 1; i < 4; ++i) words[i] = kFirstLap | ReadWord(0, 7);
  EXPECT_FALSE(mailbox->Next(0).has_value());
  words[0] = kFirstLap | ReadWord(0, 6);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::optional<Mailbox::Request> request = mailbox->Next(0);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->entry, i);
  }
  EXPECT_FALSE(mailbox->Next(0).has_value());
}

TEST_F(MailboxTest, PlacesAreAlignedAndLocked) {
  for (const std::uint8_t line_shift : {9, 12, 16}) {
    const std::unique_ptr<Mailbox> mailbox = Make({3, 1, line_shift});
    EXPECT_EQ(mailbox->shape(), (MailboxShape{3, 1, line_shift}));
    EXPECT_NE(fake_driver.flags & CU_MEMHOSTREGISTER_DEVICEMAP, 0u);
    EXPECT_EQ(fake_driver.flags & CU_MEMHOSTREGISTER_READ_ONLY, 0u);
    const auto locked = [](std::uint64_t address, std::uint64_t bytes) {
      auto* const first = reinterpret_cast<std::byte*>(address);
      const auto piece = std::prev(fake_driver.registered.upper_bound(first));
      return first + bytes <= piece->first + piece->second;
    };
    const ServedPlaces& places = mailbox->kernel_places();
    EXPECT_TRUE(locked(places.asked, 6 * 8));
    EXPECT_TRUE(locked(places.answered, 6 * 8));
    EXPECT_TRUE(locked(places.places, 6 * mailbox->shape().line()));
    for (std::uint32_t entry = 0; entry < 6; ++entry) {
      const std::span<std::byte> place = mailbox->PlaceOf(entry);
      const auto address = reinterpret_cast<std::uint64_t>(place.data());
      EXPECT_EQ(place.size(), mailbox->shape().line());
      EXPECT_EQ(address, places.places + entry * mailbox->shape().line());
      EXPECT_EQ(address % std::min<std::uint64_t>(place.size(), 4096), 0u);
    }
  }
}

TEST_F(MailboxTest, LeavesTheContextCurrent) {
  fake_current = nullptr;
  std::unique_ptr<Mailbox> mailbox = Make({1, 0, 9});
  EXPECT_EQ(fake_current, FakeContext());
  fake_current = nullptr;
  mailbox.reset();
  EXPECT_EQ(fake_current, FakeContext());
}

TEST_F(MailboxTest, ErrorsOfTheDriver) {
  for (CUresult FakeDriver::*const call :
       {&FakeDriver::set_current, &FakeDriver::register_memory, &FakeDriver::device_pointer}) {
    fake_driver.*call = CUDA_ERROR_UNKNOWN;
    const Result<std::unique_ptr<Mailbox>> mailbox = Mailbox::Make(FakeEngine(), {2, 1, 12});
    EXPECT_EQ(mailbox.status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(FakeRegisteredBytes(), 0u);
    Works();
  }
}

class MailboxesTest : public MailboxTest {};

TEST_F(MailboxesTest, OneForEachNumberUntilItsLastArrayEnds) {
  constexpr MailboxShape kShape{2, 1, 9};
  Mailboxes mailboxes;
  std::shared_ptr<Mailbox> first = *mailboxes.Get(1, FakeEngine(), kShape);
  std::shared_ptr<Mailbox> same = *mailboxes.Get(1, FakeEngine(), kShape);
  const std::shared_ptr<Mailbox> other = *mailboxes.Get(2, FakeEngine(), kShape);
  EXPECT_EQ(first, same);
  EXPECT_NE(first, other);
  EXPECT_EQ(fake_driver.registered.size(), 2u);
  EXPECT_EQ(mailboxes.Get(1, FakeEngine(), {2, 1, 10}).status().code(), StatusCode::kInvalid);
  EXPECT_EQ(mailboxes.Get(1, FakeEngine(), {3, 1, 9}).status().code(), StatusCode::kInvalid);
  first.reset();
  EXPECT_EQ(fake_driver.registered.size(), 2u);
  same.reset();
  EXPECT_EQ(fake_driver.registered.size(), 1u);
  EXPECT_TRUE(mailboxes.Get(1, FakeEngine(), {2, 1, 10}).ok());
}

TEST_F(MailboxesTest, NoneAfterAnErrorOfTheDriver) {
  Mailboxes mailboxes;
  fake_driver.register_memory = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(mailboxes.Get(1, FakeEngine(), {2, 1, 9}).status().code(), StatusCode::kUnavailable);
  Works();
  EXPECT_TRUE(mailboxes.Get(1, FakeEngine(), {2, 1, 10}).ok());
}

}  // namespace
}  // namespace cuspan::store
