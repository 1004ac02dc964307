// Tests copies whose bytes come with their op: before the stream has reached them, or after.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

constexpr std::size_t kChunk = 4096;

class EarlyCopies : public ServerTest {
 protected:
  void Hold() { client.Post(StreamWaitSignal{stream, 1}); }
  void GoOn() { client.Post(Signal{1}); }
  void PostCopy(std::uint64_t transfer, std::uint64_t address, std::uint64_t bytes) {
    client.Post(CopyToDevice{stream, address, bytes, transfer, true});
  }
  bool ClearToSend(std::uint64_t transfer) {
    const Received received = client.Now();
    return std::count(received.wanted.begin(), received.wanted.end(), transfer) != 0;
  }
  // True if the proxy has returned all slots.
  bool AllSlotsAreFree() {
    std::vector<std::uint32_t> slots;
    while (slots.size() < client.channel().layout().staging_slots) {
      const std::optional<std::uint32_t> slot = client.channel().AcquireSlot();
      if (!slot) return false;
      slots.push_back(*slot);
    }
    for (const std::uint32_t slot : slots) client.channel().ReturnSlot(slot);
    return true;
  }

  const std::uint64_t block = loopback.Map(2 << 20);
  const std::uint64_t behind = block + kMaxEarlyBytes;  // Not reached by any copy.
  const std::uint64_t stream = loopback.NewStream();
};

TEST_F(EarlyCopies, BytesBeforeTheirTurnWaitWithoutASlot) {
  const std::vector<std::byte> bytes = Pattern(kMaxEarlyBytes, 3);
  client.Post(Memset{stream, block, 7, 1, bytes.size()});
  Hold();
  // The copy sees the words before it, and the launch the copied ones.
  client.Post(CopyOnDevice{stream, behind, block, 4});
  PostCopy(1, block, bytes.size());
  client.SendChunks(1, bytes);  // 256 chunks, with 4 slots.
  PostAdd(stream, block, 1, 1);
  ASSERT_TRUE(AllSlotsAreFree());
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "to-device 1"), 0U);
  EXPECT_FALSE(ClearToSend(1));
  GoOn();
  std::vector<std::byte> copied = Read(stream, block, bytes.size());
  EXPECT_TRUE(ClearToSend(1));
  std::uint32_t first = 0;
  std::uint32_t found = 0;
  std::memcpy(&first, bytes.data(), sizeof first);
  std::memcpy(&found, copied.data(), sizeof found);
  EXPECT_EQ(found, first + 1);
  EXPECT_TRUE(std::equal(bytes.begin() + 4, bytes.end(), copied.begin() + 4));
  EXPECT_EQ(ReadWord(stream, behind), 0x07070707U);
}

TEST_F(EarlyCopies, BytesAfterTheirTurnComeFromSlots) {
  const std::vector<std::byte> bytes = Pattern(3 * kChunk + 10, 4);
  PostCopy(1, block, bytes.size());
  ASSERT_TRUE(client.AwaitClearToSend(1));
  PostAdd(stream, behind, 1, 5);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  client.SendChunks(1, bytes);
  EXPECT_EQ(Read(stream, block, bytes.size()), bytes);
  EXPECT_EQ(ReadWord(stream, behind), 5U);
}

TEST_F(EarlyCopies, BytesMayComeBeforeAndAfterTheirTurn) {
  const std::vector<std::byte> bytes = Pattern(2 * kChunk, 5);
  Hold();
  PostCopy(1, block, 2 * bytes.size());
  client.SendChunks(1, bytes);
  ASSERT_TRUE(AllSlotsAreFree());
  GoOn();
  ASSERT_TRUE(client.AwaitClearToSend(1));
  PostAdd(stream, behind, 1, 5);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  for (const std::uint64_t chunk : {3, 2}) {  // Any order is allowed.
    const std::optional<std::uint32_t> slot = client.channel().AcquireSlot();
    ASSERT_TRUE(slot.has_value());
    std::memcpy(client.channel().OutgoingSlot(*slot), bytes.data() + (chunk - 2) * kChunk, kChunk);
    client.Post(Chunk{1, chunk * kChunk, kChunk, *slot});
  }
  const std::vector<std::byte> copied = Read(stream, block, 2 * bytes.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), copied.begin()));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), copied.begin() + 2 * kChunk));
}

TEST_F(EarlyCopies, RowsGoToTheirPlaces) {
  constexpr BoxExtent kExtent = {70, 100, 1};
  const std::vector<std::byte> packed = Pattern(70 * 100, 6);
  client.Post(Memset{stream, block, 9, 1, 100 * 100});
  Hold();
  client.Post(CopyBoxToDevice{stream, {0, block, 100, 100, 0, 0, 0}, kExtent, 1, true});
  client.SendChunks(1, packed);
  ASSERT_TRUE(AllSlotsAreFree());
  GoOn();
  const std::vector<std::byte> found = Read(stream, block, 100 * 100);
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t i = 0; i < 100; ++i)
      ASSERT_EQ(found[100 * row + i], i < 70 ? packed[70 * row + i] : std::byte{9});
  }
}

// The client sends all bytes before it knows.
TEST_F(EarlyCopies, BytesOfARefusedCopyAreDroppedAndItsNumberIsFree) {
  const std::vector<std::byte> bytes = Pattern(2 * kChunk, 7);
  for (int round = 0; round < 100; ++round) {
    PostCopy(1, kWindow + kWindowBytes - 1, bytes.size());
    client.SendChunks(1, bytes);
  }
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().failed_transfers.size(), 100U);
  EXPECT_EQ(client.Now().failures.size(), 100U);
  PostCopy(1, block, bytes.size());
  client.SendChunks(1, bytes);
  EXPECT_EQ(Read(stream, block, bytes.size()), bytes);
  EXPECT_TRUE(AllSlotsAreFree());
}

TEST_F(EarlyCopies, ACopyFailingWithKeptBytesReleasesItsStream) {
  const std::vector<std::byte> bytes = Pattern(2 * kChunk, 8);
  Hold();
  PostCopy(1, block, 2 * bytes.size());
  client.SendChunks(1, bytes);
  ASSERT_TRUE(AllSlotsAreFree());
  gpu.Refuse("to-device", CUDA_ERROR_OUT_OF_MEMORY);
  GoOn();
  PostAdd(stream, behind, 1, 5);
  EXPECT_EQ(ReadWord(stream, behind), 5U);
  ASSERT_EQ(client.Now().failures.size(), 1U);
  EXPECT_EQ(client.Now().failures[0].result, CUDA_ERROR_OUT_OF_MEMORY);
  client.SendChunks(1, bytes);
  EXPECT_TRUE(AllSlotsAreFree());
  EXPECT_EQ(client.Now().failed_transfers.size(), 1U);
}

TEST_F(EarlyCopies, TheNumberOfOneFailingWithAllItsBytesKeptIsFree) {
  const std::vector<std::byte> bytes = Pattern(2 * kChunk, 8);
  Hold();
  PostCopy(1, block, bytes.size());
  client.SendChunks(1, bytes);
  ASSERT_TRUE(AllSlotsAreFree());
  gpu.Refuse("to-device", CUDA_ERROR_OUT_OF_MEMORY);
  GoOn();
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  ASSERT_EQ(client.Now().failed_transfers.size(), 1U);
  gpu.Refuse("to-device", CUDA_SUCCESS);
  PostCopy(1, block, bytes.size());
  client.SendChunks(1, bytes);
  EXPECT_EQ(Read(stream, block, bytes.size()), bytes);
}

// The maximum is that of the copies waiting for their turn.
TEST_F(EarlyCopies, ManyInARowAreAccepted) {
  const std::vector<std::byte> bytes = Pattern(kMaxEarlyBytes, 9);
  for (std::uint64_t transfer = 1; transfer <= 2 * kMaxEarlyInAll / kMaxEarlyBytes; ++transfer) {
    PostCopy(transfer, block, bytes.size());
    client.SendChunks(transfer, bytes);
    ASSERT_TRUE(client.AwaitClearToSend(transfer));
  }
  EXPECT_EQ(Read(stream, block, bytes.size()), bytes);
}

TEST_F(EarlyCopies, ALostDeviceDropsThem) {
  const std::uint64_t faults = loopback.FindKernel(module(), "faults");
  const std::vector<std::byte> bytes = Pattern(2 * kChunk, 1);
  Hold();
  PostCopy(1, block, bytes.size());
  client.SendChunks(1, bytes);
  const std::uint64_t other = loopback.NewStream();
  PostLaunch(other, faults);
  EXPECT_EQ(client.Call(StreamSynchronize{other}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  PostCopy(2, block, bytes.size());
  client.SendChunks(2, bytes);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(AllSlotsAreFree());
}

}  // namespace
}  // namespace cuspan::proxy
