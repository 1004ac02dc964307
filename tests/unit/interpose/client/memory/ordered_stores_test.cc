// Stores by real instructions, emulated in signal handlers as in a program.
#include "interpose/client/memory/ordered_stores.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 16 * kPage;

OrderedStores* the_stores = nullptr;
BlockAllocator::Range the_memory{};
std::atomic<int> the_needs{0};
// Pages opened for writing, in the order of their opening.
std::array<BlockAllocator::Range, 64> the_open;
std::atomic<std::size_t> the_open_count{0};

void OnSegv(int, siginfo_t* info, void* context) {
  const std::uint64_t address = AddressOf(info->si_addr);
  const auto outcome = the_stores->Carry(address, static_cast<ucontext_t*>(context));
  if (outcome.need == OrderedStores::Need::kNothing) return;
  ++the_needs;
  if (outcome.need == OrderedStores::Need::kLogged) {
    the_stores->Log({address / kPage * kPage, kPage});
    return;
  }
  const std::uint64_t begin = address / kPage * kPage;
  const std::uint64_t end = std::min((address + outcome.bytes + kPage - 1) / kPage * kPage,
                                     the_memory.base + the_memory.bytes);
  the_open[the_open_count++] = {begin, end - begin};
  ::mprotect(PointerTo(begin), end - begin, PROT_READ | PROT_WRITE);
}

void OnTrap(int, siginfo_t*, void* context) {
  if (!the_stores->Finish(static_cast<ucontext_t*>(context)).ours) std::abort();
}

class OrderedStoresTest : public ::testing::Test {
 protected:
  struct Logged {
    std::size_t offset;
    std::vector<std::byte> data;
    bool operator==(const Logged&) const = default;
  };

  void SetUp() override {
    const int file = ::memfd_create("ordered_stores_test", 0);
    ASSERT_EQ(::ftruncate(file, kBytes), 0);
    memory_ = static_cast<unsigned char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0));
    auto* const alias = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    the_memory = {AddressOf(memory_), kBytes};
    ASSERT_TRUE(stores_.SetMemory({the_memory.base, kBytes, 0}, alias));
    stores_.TurnOn();
    stores_.Log(the_memory);
    stores_.SetValid(the_memory, true);
    the_stores = &stores_;
    the_needs = 0;
    the_open_count = 0;
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    action.sa_sigaction = OnSegv;
    ::sigaction(SIGSEGV, &action, &before_segv_);
    action.sa_sigaction = OnTrap;
    ::sigaction(SIGTRAP, &action, &before_trap_);
  }
  void TearDown() override {
    ::sigaction(SIGSEGV, &before_segv_, nullptr);
    ::sigaction(SIGTRAP, &before_trap_, nullptr);
  }
  std::vector<Logged> Consume() {
    std::vector<Logged> all;
    stores_.Consume([](const OrderedStores::Record&) {},
                    [&](const OrderedStores::Record& record) {
                      all.push_back({record.address - the_memory.base,
                                     {record.data.begin(), record.data.end()}});
                    });
    return all;
  }
  // Returns the memory rebuilt from the log, with the current bytes of opened pages. Closes these
  // pages.
  std::vector<unsigned char> Replay(const std::vector<Logged>& all) {
    std::vector<unsigned char> bytes(kBytes);
    for (std::size_t i = 0; i < the_open_count; ++i) {
      const auto& [base, size] = the_open[i];
      std::memcpy(bytes.data() + (base - the_memory.base), PointerTo(base), size);
      ::mprotect(PointerTo(base), size, PROT_READ);
    }
    the_open_count = 0;
    for (const Logged& one : all)
      std::memcpy(bytes.data() + one.offset, one.data.data(), one.data.size());
    return bytes;
  }
  template <typename T>
  static Logged At(std::size_t offset, T value) {
    Logged logged{offset, std::vector<std::byte>(sizeof value)};
    std::memcpy(logged.data.data(), &value, sizeof value);
    return logged;
  }

  OrderedStores stores_;
  unsigned char* memory_ = nullptr;
  struct sigaction before_segv_ {};
  struct sigaction before_trap_ {};
};

TEST_F(OrderedStoresTest, KeepTheirOrder) {
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(memory_);
  words[3] = 1;
  words[600] = 2;
  words[3] = 2;
  reinterpret_cast<volatile std::uint16_t*>(memory_)[1] = 7;
  EXPECT_EQ(words[3], 2U);
  EXPECT_EQ(Consume(), (std::vector<Logged>{At<std::uint64_t>(24, 1), At<std::uint64_t>(4800, 2),
                                            At<std::uint64_t>(24, 2), At<std::uint16_t>(2, 7)}));
  EXPECT_EQ(the_needs, 0);
}

TEST_F(OrderedStoresTest, OfTheSameValueAreLogged) {
  *reinterpret_cast<volatile std::uint32_t*>(memory_) = 0;
  EXPECT_EQ(Consume(), std::vector<Logged>{At<std::uint32_t>(0, 0)});
}

TEST_F(OrderedStoresTest, AtomicOperations) {
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(memory_));
  EXPECT_EQ(word.fetch_add(5), 0U);
  EXPECT_EQ(word.exchange(9), 5U);
  std::uint64_t expected = 9;
  EXPECT_TRUE(word.compare_exchange_strong(expected, 11));
  EXPECT_EQ(word.load(), 11U);
  EXPECT_EQ(Consume(), (std::vector<Logged>{At<std::uint64_t>(0, 5), At<std::uint64_t>(0, 9),
                                            At<std::uint64_t>(0, 11)}));
}

TEST_F(OrderedStoresTest, OfWholeBuffers) {
  std::vector<unsigned char> source(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) source[i] = static_cast<unsigned char>(i * 31 + i / 256);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{100},
                                  std::size_t{1000}, std::size_t{5000}, kBytes - 3}) {
    std::memset(memory_ + 1, 0x5a, bytes);
    std::vector<Logged> all = Consume();
    EXPECT_EQ(std::memcmp(Replay(all).data() + 1, memory_ + 1, bytes), 0) << bytes;
    std::memcpy(memory_ + 2, source.data() + 5 % bytes, bytes);
    all = Consume();
    EXPECT_EQ(std::memcmp(Replay(all).data() + 2, source.data() + 5 % bytes, bytes), 0) << bytes;
    EXPECT_EQ(std::memcmp(memory_ + 2, source.data() + 5 % bytes, bytes), 0) << bytes;
  }
}

// From the second page on, a quarter of the size filled so far is opened ahead.
TEST_F(OrderedStoresTest, OfAFillOpenPagesAhead) {
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(memory_);
  for (std::size_t i = 0; i < kPage / 8 + 1; ++i) words[i] = i + 1;
  EXPECT_EQ(Consume().size(), kPage / 8);
  ASSERT_EQ(the_open_count, 1U);
  EXPECT_EQ(the_open[0].base, the_memory.base + kPage);
  EXPECT_EQ(the_open[0].bytes, kPage);
  for (std::size_t i = kPage / 8 + 1; i < 2 * kPage / 8; ++i) words[i] = i + 1;
  stores_.ContinueFill(the_open[0], the_memory.base + 2 * kPage);
  words[2 * kPage / 8] = 1;
  ASSERT_EQ(the_open_count, 2U);
  EXPECT_EQ(the_open[1].base, the_memory.base + 2 * kPage);
  // Stores elsewhere or in another order are no fill.
  words[9 * kPage / 8] = 1;
  EXPECT_EQ(the_open_count, 2U);
}

TEST_F(OrderedStoresTest, OfStringInstructions) {
  std::memset(memory_, 0, 2);
  static_cast<void>(Consume());
  for (const std::size_t bytes : {std::size_t{3}, std::size_t{700}, 2 * kPage}) {
    void* to = memory_ + kPage - 2;
    std::size_t count = bytes;
    asm volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x77) : "memory");
    EXPECT_EQ(to, memory_ + kPage - 2 + bytes);
    EXPECT_EQ(count, 0U);
    const std::vector<unsigned char> replayed = Replay(Consume());
    EXPECT_EQ(std::count(replayed.begin(), replayed.end(), 0x77),
              static_cast<std::ptrdiff_t>(bytes));
  }
  // A copy onto itself, shifted by one byte, repeats its first byte.
  memory_[0] = 9;
  const void* from = memory_;
  void* to = memory_ + 1;
  std::size_t count = 300;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  EXPECT_EQ(std::count(memory_, memory_ + 301, 9), 301);
  // Words across two pages.
  to = memory_ + kPage - 4;
  count = 3;
  asm volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0x1122334455667788) : "memory");
  EXPECT_EQ(memory_[kPage - 4], 0x88);
  EXPECT_EQ(memory_[kPage + 19], 0x11);
}

TEST_F(OrderedStoresTest, OfPagesThatAreNotLoggedAskForThat) {
  stores_.Unlog({the_memory.base + kPage, kPage});
  *reinterpret_cast<volatile int*>(memory_ + kPage) = 1;
  *reinterpret_cast<volatile int*>(memory_ + kPage) = 2;
  EXPECT_EQ(the_needs, 1);
  EXPECT_EQ(Consume(), (std::vector<Logged>{At<int>(kPage, 1), At<int>(kPage, 2)}));
}

TEST_F(OrderedStoresTest, OfUnknownInstructionsAskForAnOpenPage) {
  std::uint64_t value = AddressOf(memory_);
  asm volatile("mov %0, (%0)" : : "r"(value) : "memory");
  EXPECT_EQ(the_needs, 1);
  std::memcpy(&value, memory_, sizeof value);
  EXPECT_EQ(value, AddressOf(memory_));
}

TEST_F(OrderedStoresTest, MemoryThatIsChangedKeepsThem) {
  auto* const word = reinterpret_cast<volatile std::uint32_t*>(memory_);
  word[0] = 5;
  stores_.ChangeMemory([&] { return 0; });
  EXPECT_EQ(word[0], 5U);
  EXPECT_FALSE(stores_.TurnOff());
  static_cast<void>(Consume());
  EXPECT_TRUE(stores_.TurnOff());
}

TEST_F(OrderedStoresTest, OfManyThreads) {
  constexpr int kThreads = 8;
  constexpr std::uint64_t kRounds = 2000;
  std::vector<std::thread> threads;
  std::atomic<int> running{kThreads};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      auto* const mine = reinterpret_cast<volatile std::uint64_t*>(memory_) + 2 * t;
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        mine[0] = round;
        mine[1] = round;
      }
      --running;
    });
  // Each thread's second word is never newer than its first one.
  std::vector<std::uint64_t> seen(2 * kThreads);
  bool wrong = false;
  for (bool last = false; !last;) {
    last = running == 0;
    for (const Logged& one : Consume()) {
      std::memcpy(&seen[one.offset / 8], one.data.data(), 8);
      const std::size_t pair = one.offset / 16 * 2;
      wrong = wrong || seen[pair + 1] > seen[pair] || seen[pair] > seen[pair + 1] + 1;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(seen, std::vector<std::uint64_t>(2 * kThreads, kRounds));
}

}  // namespace
}  // namespace cuspan
