// Tests the contents of large copies: chunks and their slots.
#include <algorithm>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using OrderTest = ServerTest;

TEST_F(OrderTest, ChunksAreSubmittedAsTheyComeAndSlotsGoBackWhenTheDeviceHasReadThem) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  gpu.Hold(1);
  const std::vector<std::byte> bytes = Pattern(4 * 4096, 2);
  client.Post(CopyToDevice{stream, block, 2 * bytes.size(), 1});
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, bytes);  // All four slots.
  ASSERT_TRUE(gpu.WaitForLog("to-device 1", 4));
  EXPECT_FALSE(client.channel().TryAcquireSlot().has_value());
  gpu.Let(1);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::optional<std::uint32_t> slot = client.channel().AcquireSlot();
    ASSERT_TRUE(slot.has_value());
    std::memcpy(client.channel().OutgoingSlot(*slot), bytes.data() + i * 4096, 4096);
    client.Post(Chunk{1, bytes.size() + (3 - i) * 4096, 4096, *slot});  // Any order is allowed.
  }
  const std::vector<std::byte> copied = Read(stream, block, 2 * bytes.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), copied.begin()));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 4096, copied.end() - 4096));
}

TEST_F(OrderTest, ChunksFromTheDeviceComeInOrderThroughFewSlots) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t first = loopback.NewStream();
  const std::uint64_t second = loopback.NewStream();
  const std::uint64_t bytes = 50 * 4096 + 100;
  std::vector<std::byte> places[2] = {std::vector<std::byte>(bytes), std::vector<std::byte>(bytes)};
  for (std::uint64_t i = 0; i < 2; ++i) client.ReceiveTo(i + 1, places[i].data());
  client.Post(CopyFromDevice{first, block, bytes, 1});
  client.Post(CopyFromDevice{second, block, bytes, 2});
  const StreamSynchronize::Reply reply = client.Call(StreamSynchronize{first});
  const DeviceSynchronize::Reply all = client.Call(DeviceSynchronize{});
  EXPECT_GE(reply.chunks, 51U);
  EXPECT_EQ(all.chunks, 102U);
  ASSERT_TRUE(client.Await([](const Received& received) { return received.chunks.size() == 102; }));
  std::uint64_t next[2] = {0, 0};
  for (const Chunk& chunk : client.Now().chunks) {
    EXPECT_EQ(chunk.offset, next[chunk.transfer - 1]);
    next[chunk.transfer - 1] += chunk.bytes;
  }
  EXPECT_EQ(next[0], bytes);
  EXPECT_EQ(next[1], bytes);
}

TEST_F(OrderTest, ASmallCopyFromTheDeviceNeedsNoSlot) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  PostAdd(stream, block, 1, 5);
  EXPECT_EQ(ReadWord(stream, block), 5U);
  const Received received = client.Now();
  ASSERT_EQ(received.chunks.size(), 1U);
  EXPECT_GE(received.chunks[0].slot, client.channel().layout().staging_slots);
}

// Adjacent frames travel between nodes in one message.
TEST_F(OrderTest, TheEndOfACopyFromTheDeviceIsItsStreamsWhereNothingFollows) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  PostAdd(stream, block, 1, 5);
  EXPECT_EQ(ReadWord(stream, block), 5U);
  EXPECT_EQ(Count(gpu.Log(), "record 1"), 1U);

  gpu.Hold(1);
  std::uint32_t word = 0;
  client.ReceiveTo(1, reinterpret_cast<std::byte*>(&word));
  client.Post(CopyFromDevice{stream, block, sizeof word, 1});
  PostAdd(stream, block, 1, 1);
  const std::size_t asked = Count(gpu.Log(), "asked 1");
  const std::uint32_t request = client.Ask(StreamSynchronize{stream});
  ASSERT_TRUE(gpu.WaitForLog("add 1", 2));
  gpu.LetNext(1, 2);  // The copy and its record.
  ASSERT_TRUE(client.Await([](const Received& received) { return received.chunks.size() == 2; }));
  ASSERT_TRUE(gpu.WaitForLog("asked 1", asked + 1));
  EXPECT_EQ(word, 5U);
  EXPECT_FALSE(client.Now().replies.contains(request));
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
}

// The wait is over with the last chunk: the driver is not asked for it.
TEST_F(OrderTest, TheFirstOfSeveralChunksEndsNeitherTheOthersNorTheWaitBehindThem) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  std::vector<std::byte> place(3 * 4096);
  client.ReceiveTo(1, place.data());
  gpu.Hold(1);
  client.Post(CopyFromDevice{stream, block, place.size(), 1});
  const std::uint32_t request = client.Ask(StreamSynchronize{stream});
  client.Call(MemoryInfo{});  // Both have arrived.
  for (std::size_t chunks = 1; chunks <= 2; ++chunks) {
    gpu.LetNext(1, 2);  // A chunk and its record.
    ASSERT_TRUE(
        client.Await([&](const Received& received) { return received.chunks.size() >= chunks; }));
    for (int i = 0; i < 100; ++i) client.Call(MemoryInfo{});
    EXPECT_EQ(client.Now().chunks.size(), chunks);
    EXPECT_FALSE(client.Now().replies.contains(request));
  }
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().chunks.size(), 3U);
}

TEST_F(OrderTest, ACopyFromTheDeviceThatWaitsForSlotsHoldsItsStreamOnly) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  add();  // Before the client stops receiving.
  client.HoldChunks(true);
  std::vector<std::byte> place(8 * 4096);
  client.ReceiveTo(1, place.data());
  gpu.Hold(1);  // A single pending chunk would need no slot.
  client.Post(CopyFromDevice{stream, block, place.size(), 1});
  ASSERT_TRUE(gpu.WaitForLog("from-device 1", 4));
  gpu.Let(1);
  client.Post(Memset{stream, block, 1, 1, place.size()});  // The copy must not see this.
  PostAdd(other, block + (1 << 19), 1, 1);
  ASSERT_TRUE(gpu.WaitForLog("add 2"));
  EXPECT_EQ(Count(gpu.Log(), "from-device 1"), 4U);
  EXPECT_EQ(Count(gpu.Log(), "set 1"), 0U);
  client.HoldChunks(false);
  ASSERT_TRUE(gpu.WaitForLog("set 1"));
  ASSERT_TRUE(client.Await([](const Received& received) { return received.chunks.size() == 8; }));
  EXPECT_EQ(place, std::vector<std::byte>(place.size()));
}

}  // namespace
}  // namespace cuspan::proxy
