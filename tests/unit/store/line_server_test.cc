#include "store/engine/line_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/settings.h"
#include "store/engine/served_array.h"
#include "tests/unit/store/fake_driver.h"
#include "tests/unit/store/fake_kernels.h"
#include "tests/unit/store/numbered_file.h"

namespace cuspan::store {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kServedFile = 5 * (std::uint64_t{1} << 20) + 777;
constexpr std::uint8_t kServedLineShift = 12;
constexpr std::uint64_t kServedLine = std::uint64_t{1} << kServedLineShift;
constexpr std::uint64_t kLastLine = kServedFile >> kServedLineShift;
constexpr MailboxShape kServedShape{5, 2, kServedLineShift};

// Settings of a server.
struct ServerWay {
  std::string file_io;
  unsigned threads = 1;
};

class LineServerTest : public FakeDriverTest, public testing::WithParamInterface<ServerWay> {
 protected:
  LineServerTest() : file_(kServedFile) {
    ::setenv(settings::kFileIo.name, GetParam().file_io.c_str(), 1);
  }
  ~LineServerTest() override { ::unsetenv(settings::kFileIo.name); }

  static std::unique_ptr<LineServer> MakeServer() {
    return std::make_unique<LineServer>(GetParam().threads, 5ms);
  }
  static std::unique_ptr<Mailbox> MakeMailbox(const MailboxShape& shape = kServedShape) {
    return std::move(*Mailbox::Make(FakeEngine(), shape));
  }
  std::unique_ptr<ServedFile> Open(ResidentWay way = ResidentWay::kOff,
                                   std::function<bool()> may_read = {},
                                   std::uint64_t line = kServedLine) {
    return std::move(*ServedFile::Open(file_.file(), kServedFile, line, std::move(may_read),
                                       {FakeEngine(), way, &budget_}));
  }
  static std::uint64_t BytesOf(std::uint64_t line) {
    return std::min(kServedLine, kServedFile - line * kServedLine);
  }
  // Asks for a line. True if the answer is the file's bytes, in the place or in a resident extent.
  bool AskForBytes(FakeKernels& kernels, std::uint32_t queue, std::uint16_t array,
                   std::uint64_t line, FakeAnswer* answer = nullptr) {
    bool right = false;
    const FakeAnswer given = kernels.Ask(
        queue, ReadWord(array, line),
        [&](const FakeAnswer& found, std::span<const std::byte> place) {
          const std::uint64_t offset = line * kServedLine;
          const std::byte* bytes = place.data();
          if (found.kind == CUSPAN_ANSWER_RESIDENT)
            bytes = reinterpret_cast<const std::byte*>(found.value << 12) + offset % kExtentBytes;
          right = found.kind != CUSPAN_ANSWER_FAILED && file_.Has({bytes, BytesOf(line)}, offset);
        });
    if (answer != nullptr) *answer = given;
    return right;
  }
  // Expects the failure of a read.
  static void ExpectFailure(FakeKernels& kernels, std::uint32_t queue, std::uint64_t word,
                            int error) {
    const FakeAnswer answer = kernels.Ask(queue, word);
    EXPECT_EQ(answer.kind, std::uint64_t{CUSPAN_ANSWER_FAILED});
    EXPECT_EQ(answer.value, static_cast<std::uint64_t>(error));
  }
  // Requests in all entries of the mailbox. None waits for its answer.
  static std::vector<FakeTicket> PostEverywhere(FakeKernels& kernels, const Mailbox& mailbox) {
    std::vector<FakeTicket> tickets;
    for (std::uint32_t i = 0; i < mailbox.shape().entries(); ++i)
      tickets.push_back(kernels.Post(i % mailbox.shape().queues, ReadWord(1, i * 31 % kLastLine)));
    return tickets;
  }
  // The mailbox is not served any more: requests taken before are answered, others wait.
  static void ExpectNoneUnderWay(Mailbox& mailbox, const FakeKernels& kernels,
                                 const std::vector<FakeTicket>& tickets) {
    std::vector<bool> waits(mailbox.shape().entries());
    for (std::uint32_t queue = 0; queue < mailbox.shape().queues; ++queue)
      while (const std::optional<Mailbox::Request> request = mailbox.Next(queue))
        waits[request->entry] = true;
    for (const FakeTicket& ticket : tickets)
      EXPECT_NE(kernels.IsAnswered(ticket), waits[ticket.entry]);
  }
  // Works for some milliseconds. A server without requests falls asleep. No result depends on it.
  static void LeaveAlone() { const NumberedFile other(2 << 20); }

  NumberedFile file_;
  MemoryBudget budget_{std::uint64_t{1} << 30};
};

INSTANTIATE_TEST_SUITE_P(Ways, LineServerTest,
                         testing::Values(ServerWay{"uring", 1}, ServerWay{"uring", 3},
                                         ServerWay{"pread", 1}, ServerWay{"pread", 3}),
                         [](const testing::TestParamInfo<ServerWay>& info) {
                           return info.param.file_io + std::to_string(info.param.threads);
                         });

TEST_P(LineServerTest, AnswersWithTheFilesBytes) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  file_.DropCached();
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> bytes = 0;
  constexpr unsigned kThreads = 6;
  constexpr unsigned kRequests = 1500;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (unsigned n = 0; n < kRequests; ++n) {
        const std::uint64_t line = n % 16 == 0 ? kLastLine : random() % (kLastLine + 1);
        FakeAnswer answer;
        if (!AskForBytes(kernels, random() % kServedShape.queues, 1, line, &answer) ||
            answer.kind != CUSPAN_ANSWER_BYTES)
          ++wrong;
        bytes += BytesOf(line);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(served->counts().reads, kThreads * kRequests);
  EXPECT_EQ(served->counts().bytes, bytes);
  server->Remove(*mailbox, 1);
}

TEST_P(LineServerTest, OftenReadExtentsBecomeResident) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
    const std::unique_ptr<ServedFile> served = Open(way);
    FakeKernels kernels(*mailbox);
    const std::unique_ptr<LineServer> server = MakeServer();
    ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
    std::atomic<std::uint64_t> wrong = 0;
    std::atomic<std::uint64_t> reads = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        std::mt19937 random(i);
        // Ends: each extent is read until it is resident.
        while (served->extents().resident_bytes() != kServedFile) {
          FakeAnswer answer;
          if (!AskForBytes(kernels, random() % kServedShape.queues, 1, random() % (kLastLine + 1),
                           &answer))
            ++wrong;
          if (answer.kind == CUSPAN_ANSWER_BYTES) ++reads;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(served->counts().reads, reads);
    for (const std::uint64_t line : {std::uint64_t{0}, kLastLine}) {
      FakeAnswer answer;
      EXPECT_TRUE(AskForBytes(kernels, 0, 1, line, &answer));
      EXPECT_EQ(answer.kind, std::uint64_t{CUSPAN_ANSWER_RESIDENT});
    }
    EXPECT_EQ(served->counts().reads, reads);
    server->Remove(*mailbox, 1);
  }
}

TEST_P(LineServerTest, RequestsThatCanNotBeAnswered) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 4000, *served).ok());
  constexpr std::uint64_t kMaxLine = (std::uint64_t{1} << CUSPAN_ASK_ARRAY_SHIFT) - 1;
  for (std::uint32_t queue = 0; queue < kServedShape.queues; ++queue) {
    for (const std::uint16_t array : {0, 1, 3999, 4001, 4095})
      ExpectFailure(kernels, queue, ReadWord(array, 0), EINVAL);
    for (const std::uint64_t kind : {0, 2, 3, 15})
      ExpectFailure(kernels, queue,
                    kind << CUSPAN_ASK_SHIFT | std::uint64_t{4000} << CUSPAN_ASK_ARRAY_SHIFT,
                    EINVAL);
    for (const std::uint64_t line : {kLastLine + 1, kMaxLine / 2, kMaxLine})
      ExpectFailure(kernels, queue, ReadWord(4000, line), EINVAL);
    EXPECT_TRUE(AskForBytes(kernels, queue, 4000, kLastLine));
  }
  EXPECT_EQ(served->counts().reads, kServedShape.queues);
  server->Remove(*mailbox, 4000);
}

TEST_P(LineServerTest, TheFileIsShorter) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  EXPECT_TRUE(AskForBytes(kernels, 0, 1, kLastLine));
  constexpr std::uint64_t kLinesLeft = 300;
  file_.Resize(kLinesLeft * kServedLine + 100);
  std::atomic<std::uint64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (unsigned n = 0; n < 300; ++n) {
        // The line with the new end is not complete either.
        const std::uint64_t line = n % 3 == 0   ? random() % kLinesLeft
                                   : n % 3 == 1 ? kLinesLeft + random() % 2
                                                : kLastLine;
        FakeAnswer answer;
        const bool right = AskForBytes(kernels, random() % kServedShape.queues, 1, line, &answer);
        if (line < kLinesLeft ? !right
                              : answer.kind != CUSPAN_ANSWER_FAILED || answer.value != ENODATA)
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(served->counts().reads, 301u);
  server->Remove(*mailbox, 1);
}

TEST_P(LineServerTest, BytesThatMayNotBeRead) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  std::atomic<bool> may_read = true;
  const std::unique_ptr<ServedFile> served =
      Open(ResidentWay::kOff, [&] { return may_read.load(); });
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  for (std::uint64_t line = 0; line < 20; ++line) {
    EXPECT_TRUE(AskForBytes(kernels, 1, 1, line));
    if (line % 5 == 0) file_.DropCached();
  }
  may_read = false;
  for (std::uint64_t line = 20; line < 40; ++line) {
    ExpectFailure(kernels, 2, ReadWord(1, line), ESTALE);
    // Kernels can read places at any time.
    for (std::uint32_t entry = mailbox->shape().entries() / mailbox->shape().queues * 2;
         entry < mailbox->shape().entries(); ++entry)
      for (const std::byte byte : mailbox->PlaceOf(entry)) ASSERT_EQ(byte, std::byte{0});
  }
  // A change can not be undone.
  may_read = true;
  ExpectFailure(kernels, 2, ReadWord(1, 1), ESTALE);
  EXPECT_EQ(served->counts().reads, 20u);
  server->Remove(*mailbox, 1);
}

TEST_P(LineServerTest, NumbersOfArrays) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<Mailbox> other = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  const std::unique_ptr<ServedFile> second = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 7, *served).ok());
  EXPECT_EQ(server->Add(*mailbox, 7, *second).code(), StatusCode::kInvalid);
  EXPECT_EQ(server->Add(*mailbox, CUSPAN_ASK_ARRAYS, *second).code(), StatusCode::kInvalid);
  EXPECT_EQ(server->Add(*mailbox, 65535, *second).code(), StatusCode::kInvalid);
  EXPECT_TRUE(AskForBytes(kernels, 0, 7, 3));
  EXPECT_EQ(served->counts().reads, 1u);
  EXPECT_TRUE(server->Add(*other, 7, *second).ok());
  server->Remove(*other, 7);
  // None of these is served.
  server->Remove(*other, 7);
  server->Remove(*mailbox, 8);
  server->Remove(*mailbox, 65535);
  EXPECT_TRUE(AskForBytes(kernels, 0, 7, 3));
  server->Remove(*mailbox, 7);
  EXPECT_TRUE(server->Add(*mailbox, 7, *second).ok());
  EXPECT_TRUE(AskForBytes(kernels, 0, 7, 3));
  EXPECT_EQ(second->counts().reads, 1u);
  server->Remove(*mailbox, 7);
}

TEST_P(LineServerTest, ArraysComeAndGoWhileAnotherIsAsked) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  std::atomic<bool> ends = false;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> asked = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (; !ends; ++asked)
        if (!AskForBytes(kernels, random() % kServedShape.queues, 1, random() % (kLastLine + 1)))
          ++wrong;
    });
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto array = static_cast<std::uint16_t>(2 + i % 3);
    const std::unique_ptr<ServedFile> passing = Open();
    ASSERT_TRUE(server->Add(*mailbox, array, *passing).ok());
    EXPECT_TRUE(AskForBytes(kernels, i % kServedShape.queues, array, i));
    EXPECT_EQ(passing->counts().reads, 1u);
    server->Remove(*mailbox, array);
    if (i % 4 == 0) ExpectFailure(kernels, i % kServedShape.queues, ReadWord(array, i), EINVAL);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(served->counts().reads, asked);
  server->Remove(*mailbox, 1);
}

TEST_P(LineServerTest, TheLastArrayOfAMailbox) {
  const std::unique_ptr<LineServer> server = MakeServer();
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
    const std::unique_ptr<ServedFile> served = Open();
    const std::unique_ptr<ServedFile> second = Open();
    FakeKernels kernels(*mailbox);
    if (i % 10 == 0) file_.DropCached();
    ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
    ASSERT_TRUE(server->Add(*mailbox, 2, *second).ok());
    EXPECT_TRUE(AskForBytes(kernels, 0, 1, 5));
    server->Remove(*mailbox, 2);
    EXPECT_TRUE(AskForBytes(kernels, 1, 1, 6));
    const std::vector<FakeTicket> tickets = PostEverywhere(kernels, *mailbox);
    server->Remove(*mailbox, 1);
    ExpectNoneUnderWay(*mailbox, kernels, tickets);
  }
}

TEST_P(LineServerTest, RemoveWaitsForReadsUnderWay) {
  for (const bool cached : {true, false}) {
    const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
    std::atomic<bool> is_reading = false;
    std::atomic<bool> may_end = false;
    const std::unique_ptr<ServedFile> served = Open(ResidentWay::kOff, [&] {
      is_reading = true;
      while (!may_end) std::this_thread::yield();
      return true;
    });
    FakeKernels kernels(*mailbox);
    const std::unique_ptr<LineServer> server = MakeServer();
    ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
    if (!cached) file_.DropCached();
    const FakeTicket ticket = kernels.Post(0, ReadWord(1, 5));
    while (!is_reading) std::this_thread::yield();
    bool waited = false;
    std::thread remover([&] {
      server->Remove(*mailbox, 1);
      waited = may_end;
    });
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    may_end = true;
    remover.join();
    EXPECT_TRUE(waited);
    EXPECT_TRUE(kernels.IsAnswered(ticket));
  }
}

TEST_P(LineServerTest, MailboxesOfOtherLines) {
  constexpr MailboxShape kShort{300, 0, 9};
  constexpr MailboxShape kLong{2, 1, 16};
  const std::unique_ptr<Mailbox> short_lines = MakeMailbox(kShort);
  const std::unique_ptr<Mailbox> long_lines = MakeMailbox(kLong);
  const std::unique_ptr<ServedFile> short_file = Open(ResidentWay::kOff, {}, kShort.line());
  const std::unique_ptr<ServedFile> long_file = Open(ResidentWay::kOff, {}, kLong.line());
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*short_lines, 1, *short_file).ok());
  ASSERT_TRUE(server->Add(*long_lines, 1, *long_file).ok());
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> wrong = 0;
  for (Mailbox* const mailbox : {short_lines.get(), long_lines.get()})
    threads.emplace_back([&, mailbox] {
      FakeKernels kernels(*mailbox);
      const std::uint64_t line_bytes = mailbox->shape().line();
      const std::uint64_t lines = (kServedFile + line_bytes - 1) / line_bytes;
      for (std::uint64_t i = 0; i < 1000; ++i) {
        const std::uint64_t offset = (lines - 1 - i % lines) * line_bytes;
        kernels.Ask(
            static_cast<std::uint32_t>(i % mailbox->shape().queues),
            ReadWord(1, offset / line_bytes),
            [&](const FakeAnswer& answer, std::span<const std::byte> place) {
              const std::uint64_t bytes = std::min(line_bytes, kServedFile - offset);
              if (answer.kind != CUSPAN_ANSWER_BYTES || !file_.Has(place.first(bytes), offset))
                ++wrong;
            });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  server->Remove(*short_lines, 1);
  server->Remove(*long_lines, 1);
}

TEST_P(LineServerTest, EndsWithArrays) {
  for (int i = 0; i < 40; ++i) {
    const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
    const std::unique_ptr<ServedFile> served = Open();
    FakeKernels kernels(*mailbox);
    std::unique_ptr<LineServer> server = MakeServer();
    std::vector<FakeTicket> tickets;
    if (i % 4 != 0) {
      ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
    }
    if (i % 4 >= 2) {
      EXPECT_TRUE(AskForBytes(kernels, 0, 1, 5));
      LeaveAlone();
    }
    if (i % 4 == 3) tickets = PostEverywhere(kernels, *mailbox);
    server.reset();
    ExpectNoneUnderWay(*mailbox, kernels, tickets);
  }
}

TEST_P(LineServerTest, RequestsAfterSilence) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  for (std::uint32_t i = 0; i < 20; ++i) {
    LeaveAlone();
    // Kernels of a graph may ask without a launch.
    if (i % 2 == 0) server->KernelsMayAsk();
    EXPECT_TRUE(AskForBytes(kernels, i % kServedShape.queues, 1, i));
  }
  server->Remove(*mailbox, 1);
}

TEST_P(LineServerTest, LaunchesBesideEverythingElse) {
  const std::unique_ptr<Mailbox> mailbox = MakeMailbox();
  const std::unique_ptr<ServedFile> served = Open();
  const std::unique_ptr<ServedFile> passing = Open();
  FakeKernels kernels(*mailbox);
  const std::unique_ptr<LineServer> server = MakeServer();
  server->KernelsMayAsk();
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!ends) {
        server->KernelsMayAsk();
        std::this_thread::yield();
      }
    });
  ASSERT_TRUE(server->Add(*mailbox, 1, *served).ok());
  for (std::uint32_t i = 0; i < 300; ++i) {
    EXPECT_TRUE(AskForBytes(kernels, i % kServedShape.queues, 1, i));
    ASSERT_TRUE(server->Add(*mailbox, 2, *passing).ok());
    if (i % 100 == 0) LeaveAlone();
    server->Remove(*mailbox, 2);
  }
  server->Remove(*mailbox, 1);
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LineServerTest, ServedArrays) {
  const std::shared_ptr<LineServer> server = MakeServer();
  const std::shared_ptr<Mailbox> mailbox = MakeMailbox();
  FakeKernels kernels(*mailbox);
  auto first = ServedArray::Begin(server, mailbox, 1, Open());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(&(*first)->mailbox(), mailbox.get());
  EXPECT_EQ(ServedArray::Begin(server, mailbox, 1, Open()).status().code(), StatusCode::kInvalid);
  const auto second = ServedArray::Begin(server, mailbox, 2, Open());
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(AskForBytes(kernels, 0, 1, 3));
  EXPECT_EQ((*first)->file().counts().reads, 1u);
  first->reset();
  ExpectFailure(kernels, 0, ReadWord(1, 3), EINVAL);
  EXPECT_TRUE(AskForBytes(kernels, 0, 2, 3));
  EXPECT_TRUE(ServedArray::Begin(server, mailbox, 1, Open()).ok());
}

TEST(ServingThreadsTest, Setting) {
  const char* const name = settings::kStoreThreads.name;
  ::unsetenv(name);
  const unsigned automatic = ServingThreadCount();
  EXPECT_GE(automatic, 1u);
  EXPECT_LE(automatic, 8u);
  ::setenv(name, "3", 1);
  EXPECT_EQ(ServingThreadCount(), 3u);
  for (const char* const other : {"auto", "0", "many", ""}) {
    ::setenv(name, other, 1);
    EXPECT_EQ(ServingThreadCount(), automatic) << other;
  }
  ::unsetenv(name);
}

}  // namespace
}  // namespace cuspan::store
