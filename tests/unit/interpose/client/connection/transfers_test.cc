// Bytes from and to the device: arrival, order and failures.
#include "interpose/client/connection/transfers.h"

#include <gtest/gtest.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kBytes = 3000;
constexpr std::uint32_t kPiece = 1000;

// A client's transfers, and the proxy's end of the channel.
class IncomingTransfers : public testing::Test {
 protected:
  std::shared_ptr<Incoming> NewIncoming() {
    auto incoming = std::make_shared<Incoming>();
    incoming->owned.resize(kBytes);
    incoming->destination = incoming->owned.data();
    incoming->bytes = kBytes;
    return incoming;
  }
  // A chunk from the proxy: `piece` of the transfer, in a slot taken for it.
  Chunk Piece(std::uint64_t transfer, std::uint32_t piece) {
    const std::optional<std::uint32_t> slot = ends.proxy->TryAcquireSlot();
    EXPECT_TRUE(slot.has_value());
    std::memset(ends.proxy->OutgoingSlot(*slot), static_cast<int>(piece + 1), kPiece);
    return {transfer, std::uint64_t{piece} * kPiece, kPiece, *slot};
  }
  // All slots of the proxy are free again.
  void ExpectSlotsBack() {
    for (std::uint32_t i = 0; i < ends.proxy->layout().staging_slots; ++i)
      EXPECT_TRUE(ends.proxy->TryAcquireSlot().has_value()) << i;
  }

  ChannelEnds ends;
  ConnectionCommon common{nullptr};
  Transfers transfers{ends.client.get(), &common, 0};
};

TEST_F(IncomingTransfers, CompleteWithTheirLastChunk) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  for (std::uint32_t piece = 0; piece < 3; ++piece) {
    EXPECT_FALSE(incoming->complete);
    EXPECT_TRUE(transfers.OnChunk(Piece(transfer, piece)));
  }
  EXPECT_EQ(transfers.WaitComplete(*incoming), CUDA_SUCCESS);
  for (std::uint32_t piece = 0; piece < 3; ++piece)
    EXPECT_EQ(incoming->owned[std::size_t{piece} * kPiece], std::byte(piece + 1));
  EXPECT_TRUE(transfers.Stored(3));
  ExpectSlotsBack();
}

// A page blocking its first writer until LetGo.
class SlowPage {
 public:
  SlowPage() {
    sem_init(&entered_, 0, 0);
    sem_init(&go_, 0, 0);
    page_ = ::mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page_, MAP_FAILED);
    the_page = this;
    struct sigaction action {};
    action.sa_handler = [](int) {
      sem_post(&the_page->entered_);
      while (sem_wait(&the_page->go_) != 0) {
      }
      ::mprotect(the_page->page_, kPageBytes, PROT_READ | PROT_WRITE);
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~SlowPage() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(page_, kPageBytes);
  }
  std::byte* data() const { return static_cast<std::byte*>(page_); }
  void WaitUntilWritten() {
    while (sem_wait(&entered_) != 0) {
    }
  }
  void LetGo() { sem_post(&go_); }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static inline SlowPage* the_page = nullptr;
  void* page_;
  sem_t entered_, go_;
  struct sigaction before_ {};
};

// A copying thread may be delayed by the time of hundreds of other chunks.
TEST_F(IncomingTransfers, OneChunkMayTakeLongerThanManyOthers) {
  constexpr std::uint32_t kOthers = 200;
  SlowPage page;
  const auto slow = NewIncoming();
  slow->destination = page.data();
  slow->bytes = kPiece;
  const std::uint64_t slow_transfer = transfers.BeginIncoming(slow);
  const Chunk first = Piece(slow_transfer, 0);
  std::thread copier([&] { EXPECT_TRUE(transfers.OnChunk(first)); });
  page.WaitUntilWritten();
  for (std::uint32_t i = 0; i < kOthers; ++i) {
    const auto quick = NewIncoming();
    quick->bytes = kPiece;
    const std::uint64_t transfer = transfers.BeginIncoming(quick);
    ASSERT_TRUE(transfers.OnChunk(Piece(transfer, 0))) << i;
    ASSERT_EQ(transfers.WaitComplete(*quick), CUDA_SUCCESS);
  }
  EXPECT_FALSE(transfers.Stored(1));
  page.LetGo();
  copier.join();
  EXPECT_EQ(transfers.WaitComplete(*slow), CUDA_SUCCESS);
  EXPECT_TRUE(transfers.Stored(kOthers + 1));
  ExpectSlotsBack();
}

// Copies to the same memory are stored in their order on the device.
TEST_F(IncomingTransfers, AChunkWaitsForOthersThatAreStoredInTheSamePlace) {
  SlowPage page;
  const auto first = NewIncoming();
  first->destination = page.data();
  first->bytes = kPiece;
  const auto second = NewIncoming();
  // Its second piece has the same destination as the other's first one.
  second->destination = page.data() - kPiece;
  second->bytes = 2 * kPiece;
  const auto behind = NewIncoming();
  behind->bytes = kPiece;
  const Chunk slow = Piece(transfers.BeginIncoming(first), 0);
  const Chunk over = Piece(transfers.BeginIncoming(second), 1);
  const Chunk last = Piece(transfers.BeginIncoming(behind), 0);
  std::thread copier([&] { EXPECT_TRUE(transfers.OnChunk(slow)); });
  page.WaitUntilWritten();
  EXPECT_TRUE(transfers.OnChunk(over));
  EXPECT_TRUE(transfers.OnChunk(last));
  EXPECT_FALSE(transfers.Stored(1));
  page.LetGo();
  copier.join();
  transfers.WaitStored(3);
  EXPECT_EQ(*page.data(), std::byte{2});
  EXPECT_EQ(transfers.WaitComplete(*behind), CUDA_SUCCESS);
  ExpectSlotsBack();
}

// Between nodes, chunks are sent separately. Other messages may overtake them.
TEST_F(IncomingTransfers, AFailureMayOvertakeChunks) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  EXPECT_TRUE(transfers.OnChunk(Piece(transfer, 0)));
  const Chunk late = Piece(transfer, 1);
  transfers.OnFailed(transfer, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(transfers.WaitComplete(*incoming), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(transfers.OnChunk(late));
  EXPECT_EQ(incoming->owned[kPiece], std::byte{0}) << "the program's memory is its own again";
  // Completions count all chunks pushed before them, failed or not.
  EXPECT_TRUE(transfers.Stored(2));
  ExpectSlotsBack();
}

TEST_F(IncomingTransfers, ChunksOfALostDeviceAreOfNoUse) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  const Chunk late = Piece(transfer, 0);
  transfers.FailAll(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(transfers.OnChunk(late));
  EXPECT_EQ(transfers.WaitComplete(*incoming), CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectSlotsBack();
}

TEST_F(IncomingTransfers, WakeWhoWaitsUntilTheyAreStored) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  std::thread first([&] { transfers.WaitStored(1); });
  std::thread third([&] { transfers.WaitStored(3); });
  EXPECT_TRUE(transfers.OnChunk(Piece(transfer, 0)));
  first.join();
  for (std::uint32_t piece = 1; piece < 3; ++piece)
    EXPECT_TRUE(transfers.OnChunk(Piece(transfer, piece)));
  third.join();
}

// Chunks with their bytes in the frame. Between nodes, they may overtake chunks in slots.
class InlineChunks : public IncomingTransfers {
 protected:
  // A chunk of `piece` filled with `value`.
  ChunkInline Inline(std::uint64_t transfer, std::uint32_t piece, std::uint64_t number, int value) {
    std::memset(data.data(), value, data.size());
    return {transfer, std::uint64_t{piece} * kPiece, number, data};
  }
  std::vector<std::byte> data = std::vector<std::byte>(kPiece);
};

TEST_F(InlineChunks, CompleteATransferWithTheOthers) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(transfer, 0, 0, 7)));
  EXPECT_TRUE(transfers.Stored(1));
  EXPECT_TRUE(transfers.OnChunk(Piece(transfer, 1)));
  EXPECT_FALSE(incoming->complete);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(transfer, 2, 2, 9)));
  EXPECT_EQ(transfers.WaitComplete(*incoming), CUDA_SUCCESS);
  for (std::uint32_t piece = 0; piece < 3; ++piece)
    EXPECT_EQ(incoming->owned[std::size_t{piece} * kPiece], std::byte(piece == 1 ? 2 : 7 + piece));
  EXPECT_TRUE(transfers.Stored(3));
  ExpectSlotsBack();
}

// Both write to the same memory: the later copy of the stream must be stored last.
TEST_F(InlineChunks, WaitForThoseThatTheyHaveOvertaken) {
  const auto first = NewIncoming();
  const auto second = NewIncoming();
  second->destination = first->destination;
  first->bytes = second->bytes = kPiece;
  const auto third = NewIncoming();
  third->bytes = kPiece;
  const std::uint64_t earlier = transfers.BeginIncoming(first);
  const std::uint64_t later = transfers.BeginIncoming(second);
  const std::uint64_t last = transfers.BeginIncoming(third);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(later, 0, 1, 7)));
  EXPECT_TRUE(transfers.OnChunkInline(Inline(last, 0, 2, 8)));
  EXPECT_FALSE(second->complete);
  EXPECT_FALSE(transfers.Stored(1));
  EXPECT_EQ(first->owned[0], std::byte{0});
  EXPECT_TRUE(transfers.OnChunk(Piece(earlier, 0)));
  for (const auto& incoming : {first, second, third})
    EXPECT_EQ(transfers.WaitComplete(*incoming), CUDA_SUCCESS);
  EXPECT_EQ(first->owned[0], std::byte{7});
  EXPECT_EQ(third->owned[0], std::byte{8});
  EXPECT_TRUE(transfers.Stored(3));
  // The next chunk continues the numbering.
  const auto fourth = NewIncoming();
  fourth->bytes = kPiece;
  EXPECT_TRUE(transfers.OnChunk(Piece(transfers.BeginIncoming(fourth), 0)));
  EXPECT_TRUE(transfers.Stored(4));
  ExpectSlotsBack();
}

// Chunks after a deferred one are stored after it, inline or in a slot.
TEST_F(InlineChunks, AreStoredBeforeThoseBehindThem) {
  std::vector<std::shared_ptr<Incoming>> copies;
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    copies.push_back(NewIncoming());
    copies.back()->bytes = kPiece;
    numbers.push_back(transfers.BeginIncoming(copies.back()));
  }
  copies[2]->destination = copies[1]->destination;
  SlowPage page;
  copies[0]->destination = page.data();
  const Chunk first = Piece(numbers[0], 0);
  Chunk last = Piece(numbers[2], 2);  // Filled with 3.
  last.offset = 0;
  std::thread copier([&] { EXPECT_TRUE(transfers.OnChunk(first)); });
  page.WaitUntilWritten();
  EXPECT_TRUE(transfers.OnChunkInline(Inline(numbers[1], 0, 1, 7)));
  EXPECT_TRUE(transfers.OnChunk(last));
  page.LetGo();
  copier.join();
  for (const auto& copy : copies) EXPECT_EQ(transfers.WaitComplete(*copy), CUDA_SUCCESS);
  EXPECT_EQ(copies[1]->owned[0], std::byte{3});
  EXPECT_TRUE(transfers.Stored(3));
  ExpectSlotsBack();
}

// The same while another thread copies the deferred chunk.
TEST_F(InlineChunks, AreStoredBeforeThoseThatComeMeanwhile) {
  std::vector<std::shared_ptr<Incoming>> copies;
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    copies.push_back(NewIncoming());
    copies.back()->bytes = kPiece;
    numbers.push_back(transfers.BeginIncoming(copies.back()));
  }
  SlowPage page;
  copies[1]->destination = page.data();
  const Chunk first = Piece(numbers[0], 0);
  const Chunk last = Piece(numbers[2], 0);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(numbers[1], 0, 1, 7)));
  std::thread copier([&] { EXPECT_TRUE(transfers.OnChunk(first)); });
  page.WaitUntilWritten();
  EXPECT_TRUE(transfers.OnChunk(last));
  EXPECT_FALSE(copies[2]->complete);
  page.LetGo();
  copier.join();
  for (const auto& copy : copies) EXPECT_EQ(transfers.WaitComplete(*copy), CUDA_SUCCESS);
  EXPECT_TRUE(transfers.Stored(3));
  ExpectSlotsBack();
}

TEST_F(InlineChunks, MayBeAnyNumber) {
  constexpr std::uint64_t kMany = 200'000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto incoming = NewIncoming();
    incoming->bytes = kPiece;
    const std::uint64_t transfer = transfers.BeginIncoming(incoming);
    ASSERT_TRUE(transfers.OnChunkInline(Inline(transfer, 0, i, 7))) << i;
  }
  EXPECT_TRUE(transfers.Stored(kMany));
}

TEST_F(InlineChunks, OfATransferThatFailsMeanwhileAreCounted) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  const Chunk overtaken = Piece(transfer, 0);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(transfer, 1, 1, 7)));
  transfers.OnFailed(transfer, CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(transfers.OnChunkInline(Inline(transfer, 2, 2, 7)));
  EXPECT_TRUE(transfers.OnChunk(overtaken));
  EXPECT_TRUE(transfers.Stored(3));
  for (const std::byte byte : incoming->owned) ASSERT_EQ(byte, std::byte{0});
  ExpectSlotsBack();
}

TEST_F(InlineChunks, ThatNoProxySendsAreRefused) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  EXPECT_FALSE(transfers.OnChunkInline(Inline(transfer + 1, 0, 0, 7))) << "no such transfer";
  EXPECT_FALSE(transfers.OnChunkInline(Inline(transfer, 3, 1, 7))) << "beyond its end";
  EXPECT_FALSE(transfers.OnChunkInline(Inline(transfer, 0, 0, 7))) << "a number that was taken";
  EXPECT_EQ(incoming->owned[0], std::byte{0});
}

// Bytes to the device. Some wait for bytes from it.
class OutgoingTest : public IncomingTransfers {
 protected:
  // The first piece received by the proxy belongs to this transfer and holds the bytes.
  void ExpectSent(std::uint64_t transfer) {
    const std::optional<Frame> frame = NextFrame(*ends.proxy);
    ASSERT_TRUE(frame.has_value());
    const Result<Chunk> chunk = ParseMessage<Chunk>(*frame);
    ASSERT_TRUE(chunk.ok()) << chunk.status().message();
    EXPECT_EQ(chunk->transfer, transfer);
    ASSERT_EQ(chunk->bytes, sizeof bytes);
    EXPECT_EQ(std::memcmp(ends.proxy->IncomingSlot(chunk->slot), bytes, sizeof bytes), 0);
    ends.proxy->ReleaseSlot(chunk->slot);
    ends.proxy->Pop();
  }

  HostSpan Span() const { return SpanOf({}, bytes, 0, sizeof bytes); }

  OutgoingTransfers& outgoing = transfers.outgoing();
  const std::byte bytes[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
};

TEST_F(OutgoingTest, GoWhenTheyAreWantedAndWhatCameBeforeIsStored) {
  ASSERT_EQ(outgoing.StartSender(), CUDA_SUCCESS);
  for (const bool later : {false, true}) {
    const std::uint64_t before = transfers.BeginIncoming(NewIncoming());
    const std::uint64_t number = outgoing.Begin(Span());
    const std::uint64_t stored = later ? 2 : 1;
    std::thread sender;
    if (later)
      outgoing.SendLater(number, bytes, sizeof bytes);
    else
      sender =
          std::thread([&] { EXPECT_EQ(outgoing.Send(number, bytes, sizeof bytes), CUDA_SUCCESS); });
    outgoing.OnClearToSend(number, stored);
    EXPECT_FALSE(outgoing.MaySend(number));
    EXPECT_FALSE(ends.proxy->HasFrame());
    EXPECT_TRUE(transfers.OnChunk(Piece(before, 0)));
    ExpectSent(number);
    if (sender.joinable()) sender.join();
  }
}

TEST_F(OutgoingTest, GoAtOnceWhenAllIsStored) {
  ASSERT_EQ(outgoing.StartSender(), CUDA_SUCCESS);
  const std::uint64_t number = outgoing.Begin(Span());
  outgoing.SendLater(number, bytes, sizeof bytes);
  outgoing.OnClearToSend(number, 0);
  ExpectSent(number);
}

TEST_F(OutgoingTest, AreNotSentWhenTheProxyRefusesThem) {
  const std::uint64_t refused = outgoing.Begin(Span());
  std::thread sender([&] { EXPECT_EQ(outgoing.Send(refused, bytes, sizeof bytes), CUDA_SUCCESS); });
  transfers.OnFailed(refused, CUDA_ERROR_INVALID_VALUE);
  sender.join();
  EXPECT_FALSE(ends.proxy->HasFrame());
}

TEST_F(OutgoingTest, EndWithTheirDevice) {
  ASSERT_EQ(outgoing.StartSender(), CUDA_SUCCESS);
  const std::uint64_t number = outgoing.Begin(Span());
  std::thread sender(
      [&] { EXPECT_EQ(outgoing.Send(number, bytes, sizeof bytes), CUDA_ERROR_ILLEGAL_ADDRESS); });
  outgoing.SendLater(outgoing.Begin(Span()), bytes, sizeof bytes);
  transfers.FailAll(CUDA_ERROR_ILLEGAL_ADDRESS);
  sender.join();
  EXPECT_FALSE(ends.proxy->HasFrame());
}

TEST_F(OutgoingTest, UseTheirBytesUntilTheyAreSent) {
  const std::uint64_t number = outgoing.Begin(Span());
  const HostSpan after{Span().end, Span().end + 8};
  EXPECT_TRUE(transfers.Uses(Span()));
  EXPECT_TRUE(transfers.Uses({Span().begin - 8, Span().begin + 1}));
  EXPECT_FALSE(transfers.Uses(after));
  outgoing.OnClearToSend(number, 0);
  EXPECT_EQ(outgoing.Send(number, bytes, sizeof bytes), CUDA_SUCCESS);
  EXPECT_FALSE(transfers.Uses(Span()));
  const auto incoming = NewIncoming();
  const HostSpan there = SpanOf({}, incoming->destination, 0, incoming->bytes);
  const std::uint64_t other = transfers.BeginIncoming(incoming);
  EXPECT_TRUE(transfers.Uses(there));
  transfers.Forget(other);
  EXPECT_FALSE(transfers.Uses(there));
}

TEST_F(OutgoingTest, EarlyOnesAreSentAtOnce) {
  for (int i = 0; i < 10'000; ++i) {
    const std::optional<std::uint64_t> early = outgoing.BeginEarly(Span(), sizeof bytes);
    ASSERT_TRUE(early.has_value());
    ASSERT_EQ(outgoing.SendEarly(*early, bytes, sizeof bytes, {}, i % 3 == 0), CUDA_SUCCESS);
    ExpectSent(*early);
    EXPECT_FALSE(transfers.Uses(Span()));
    if (i % 2 == 0)
      outgoing.OnClearToSend(*early, 0);
    else
      transfers.OnFailed(*early, CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(OutgoingTest, EarlyOnesWithoutASlotAreSentByTheSender) {
  std::vector<std::uint32_t> slots;
  while (const std::optional<std::uint32_t> slot = ends.client->TryAcquireSlot())
    slots.push_back(*slot);
  std::vector<std::uint64_t> begun;
  for (int i = 0; i < 3; ++i) {
    begun.push_back(outgoing.BeginEarly(Span(), sizeof bytes).value());
    EXPECT_TRUE(transfers.Uses(Span()));
    ASSERT_EQ(outgoing.SendEarly(begun.back(), bytes, sizeof bytes, {}, true), CUDA_SUCCESS);
  }
  EXPECT_TRUE(transfers.Uses(Span()));
  EXPECT_FALSE(ends.proxy->HasFrame());
  outgoing.OnClearToSend(begun[1], 0);
  for (const std::uint32_t slot : slots) ends.client->ReturnSlot(slot);
  for (const std::uint64_t transfer : begun) ExpectSent(transfer);
  while (transfers.Uses(Span())) std::this_thread::yield();
}

// The proxy counts the bytes of a refused one. The program may have freed them.
TEST_F(OutgoingTest, RefusedEarlyOnesAreSentWithoutTheirBytes) {
  std::vector<std::uint32_t> slots;
  while (const std::optional<std::uint32_t> slot = ends.client->TryAcquireSlot())
    slots.push_back(*slot);
  // The sender waits for a slot with the first one.
  const std::uint64_t first = outgoing.BeginEarly(Span(), sizeof bytes).value();
  ASSERT_EQ(outgoing.SendEarly(first, bytes, sizeof bytes, {}, true), CUDA_SUCCESS);
  const std::size_t size = 3 * ends.client->MostChunkBytes();
  const auto* const freed = reinterpret_cast<const std::byte*>(0x1000);
  const HostSpan span = SpanOf({}, freed, 0, size);
  std::vector<std::uint64_t> refused;
  for (const bool began : {false, true}) {
    refused.push_back(outgoing.BeginEarly(span, size).value());
    if (began) outgoing.OnClearToSend(refused.back(), 0);
    transfers.OnFailed(refused.back(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_FALSE(transfers.Uses(span));
    ASSERT_EQ(outgoing.SendEarly(refused.back(), freed, size, {}, true), CUDA_SUCCESS);
  }
  for (const std::uint32_t slot : slots) ends.client->ReturnSlot(slot);
  ExpectSent(first);
  std::map<std::uint64_t, std::size_t> sent;
  for (int chunk = 0; chunk < 6; ++chunk) {
    const std::optional<Frame> frame = NextFrame(*ends.proxy);
    ASSERT_TRUE(frame.has_value());
    const Result<Chunk> received = ParseMessage<Chunk>(*frame);
    ASSERT_TRUE(received.ok()) << received.status().message();
    sent[received->transfer] += received->bytes;
    ends.proxy->ReleaseSlot(received->slot);
    ends.proxy->Pop();
  }
  for (const std::uint64_t transfer : refused) EXPECT_EQ(sent[transfer], size);
}

TEST_F(OutgoingTest, EarlyOnesMayHaveManyChunks) {
  std::vector<std::byte> many(10 * ends.client->MostChunkBytes() + 5);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const bool later : {false, true}) {
    const std::uint64_t transfer = outgoing.BeginEarly({}, many.size()).value();
    std::thread sender([&] {
      EXPECT_EQ(outgoing.SendEarly(transfer, many.data(), many.size(), {}, later), CUDA_SUCCESS);
    });
    std::vector<std::byte> sent(many.size());
    for (std::size_t received = 0; received < many.size();) {
      const std::optional<Frame> frame = NextFrame(*ends.proxy);
      ASSERT_TRUE(frame.has_value());
      const Result<Chunk> chunk = ParseMessage<Chunk>(*frame);
      ASSERT_TRUE(chunk.ok()) << chunk.status().message();
      ASSERT_EQ(chunk->transfer, transfer);
      ASSERT_LE(chunk->offset + chunk->bytes, many.size());
      std::memcpy(sent.data() + chunk->offset, ends.proxy->IncomingSlot(chunk->slot), chunk->bytes);
      received += chunk->bytes;
      ends.proxy->ReleaseSlot(chunk->slot);
      ends.proxy->Pop();
    }
    sender.join();
    EXPECT_EQ(sent, many);
    outgoing.OnClearToSend(transfer, 0);
  }
}

TEST_F(OutgoingTest, NoneIsEarlyAfterTheDevicesEnd) {
  transfers.FailAll(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(outgoing.BeginEarly(Span(), sizeof bytes).has_value());
  EXPECT_EQ(ends.client->SlotsInUse(), 0U);
}

TEST_F(OutgoingTest, EarlyOnesHaveAMaximum) {
  EXPECT_FALSE(outgoing.BeginEarly({}, kMaxEarlyBytes + 1).has_value());
  std::vector<std::uint64_t> begun;
  while (const std::optional<std::uint64_t> early = outgoing.BeginEarly({}, kMaxEarlyBytes))
    begun.push_back(*early);
  EXPECT_EQ(begun.size(), kMaxEarlyInAll / kMaxEarlyBytes);
  EXPECT_FALSE(outgoing.BeginEarly({}, 1).has_value());
  outgoing.OnClearToSend(begun[3], 0);
  transfers.OnFailed(begun[4], CUDA_ERROR_INVALID_VALUE);
  transfers.OnFailed(begun[4], CUDA_ERROR_INVALID_VALUE);
  outgoing.ForgetEarly(begun[5]);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(outgoing.BeginEarly({}, kMaxEarlyBytes).has_value());
  EXPECT_FALSE(outgoing.BeginEarly({}, 1).has_value());
}

TEST_F(IncomingTransfers, OthersAreRefused) {
  const auto incoming = NewIncoming();
  const std::uint64_t transfer = transfers.BeginIncoming(incoming);
  EXPECT_FALSE(transfers.OnChunk(Piece(transfer + 1, 0))) << "never begun";
  Chunk beyond = Piece(transfer, 0);
  beyond.offset = kBytes - kPiece + 1;
  EXPECT_FALSE(transfers.OnChunk(beyond));
  EXPECT_FALSE(transfers.OnChunk({transfer, 0, kPiece, 64})) << "no such slot";
  for (std::uint32_t piece = 0; piece < 2; ++piece)
    EXPECT_TRUE(transfers.OnChunk(Piece(transfer, piece)));
  transfers.OnFailed(transfer, CUDA_ERROR_INVALID_VALUE);
  const Chunk no_slot{transfer, 0, kPiece, 64};
  EXPECT_FALSE(transfers.OnChunk(no_slot)) << "failed, but there is no such slot";
}

}  // namespace
}  // namespace cuspan
