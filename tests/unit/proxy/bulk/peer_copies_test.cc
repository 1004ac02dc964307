// Tests copies between devices through the channel of two proxies. The test acts as the other
// proxy.
#include <random>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kJoin = 7;
constexpr std::chrono::seconds kPatience{30};

class PeerCopiesTest : public ServerTest {
 protected:
  // Location of contiguous bytes, as used by both ops.
  static BoxLocation At(std::uint64_t address) {
    BoxLocation place;
    place.address = address;
    return place;
  }
  static BoxExtent Run(std::uint64_t bytes) { return {bytes, 1, 1}; }

  void PostSend(std::uint64_t stream, std::uint64_t transfer, std::uint64_t address,
                std::uint64_t bytes, bool until_end) {
    client.Post(PeerSend{stream, kJoin, transfer, At(address), Run(bytes), until_end}, 5);
  }
  void PostReceive(std::uint64_t stream, std::uint64_t transfer, std::uint64_t address,
                   std::uint64_t bytes) {
    client.Post(PeerReceive{stream, kJoin, transfer, At(address), Run(bytes)}, 5);
  }

  // Returns the next message from the session to the other proxy.
  template <typename T>
  T Next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      Result<std::optional<Frame>> frame = peer->Peek();
      if (!frame.ok()) break;
      if (frame->has_value()) {
        const Result<T> message = ParseMessage<T>(**frame);
        EXPECT_TRUE(message.ok()) << message.status().message();
        peer->Pop();
        return message.ok() ? *message : T{};
      }
      bell.Wait([this] { return peer->HasFrame(); }, std::chrono::milliseconds(100),
                WaitStages::ForThisMachine());
    }
    ADD_FAILURE() << "no " << OpName(T::kOp) << " comes";
    return {};
  }
  // True if the session has sent nothing after handling all frames of the client.
  bool Silent() {
    EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
    return !peer->HasFrame();
  }
  void SendChunk(std::uint64_t transfer, std::uint64_t offset, std::span<const std::byte> bytes) {
    const std::optional<std::uint32_t> slot = peer->AcquireSlot();
    ASSERT_TRUE(slot.has_value());
    std::memcpy(peer->OutgoingSlot(*slot), bytes.data(), bytes.size());
    peer->Post(Chunk{transfer, offset, static_cast<std::uint32_t>(bytes.size()), *slot});
  }
  bool AwaitFailures(std::size_t count) {
    return client.Await(
        [=](const Received& received) { return received.failures.size() >= count; });
  }
  bool AwaitClosed() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    bell.Wait([this] { return peer->closed(); }, deadline - std::chrono::steady_clock::now(),
              WaitStages::ForThisMachine());
    return peer->closed();
  }
  void ExpectFailures(std::initializer_list<int> results) {
    std::vector<int> got;
    for (const PostedFailure& failure : client.Now().failures) {
      got.push_back(failure.result);
      EXPECT_EQ(failure.thread, 5U);
    }
    EXPECT_EQ(got, std::vector<int>(results));
    EXPECT_THAT(client.Now().faults, IsEmpty());
  }

  Bell bell = std::move(*Bell::Create());
  std::unique_ptr<Channel> peer = loopback.Join(kJoin, &bell);
};

TEST_F(PeerCopiesTest, TheReceiverAsksWhenItsDeviceHasComeToTheCopy) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::vector<std::byte> bytes = Pattern(3 * 4096 + 5, 3);
  module();
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  PostReceive(stream, 1, block + 64, bytes.size());
  EXPECT_TRUE(Silent()) << "work before it is pending";
  gpu.Let(1);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 1U);
  // Later work of the stream waits for the whole copy.
  PostAdd(stream, block, 1, 8);
  for (std::size_t offset = 0; offset < bytes.size(); offset += 4096)
    SendChunk(1, offset,
              std::span(bytes).subspan(offset, std::min<std::size_t>(4096, bytes.size() - offset)));
  const PeerEnd end = Next<PeerEnd>();
  EXPECT_EQ(end.transfer, 1U);
  EXPECT_EQ(end.result, CUDA_SUCCESS);
  EXPECT_EQ(Read(stream, block + 64, bytes.size()), bytes);
  EXPECT_EQ(ReadWord(stream, block), 9U);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(peer->AcquireSlot().has_value()) << "every slot came back";
}

TEST_F(PeerCopiesTest, TheSenderSendsWhenItIsAskedAndItsStreamWaitsForTheEnd) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::vector<std::byte> bytes = Pattern(2 * 4096 + 1, 4);
  client.Post(CopyToDeviceInline{stream, block + 64, bytes});
  PostSend(stream, 1, block + 64, bytes.size(), true);
  PostAdd(stream, block, 1, 8);
  EXPECT_TRUE(Silent());
  peer->Post(PeerClearToSend{1});
  std::vector<std::byte> got(bytes.size());
  for (int i = 0; i < 3; ++i) {
    const Chunk chunk = Next<Chunk>();
    EXPECT_EQ(chunk.transfer, 1U);
    EXPECT_EQ(chunk.offset, 4096U * static_cast<unsigned>(i));
    std::memcpy(got.data() + chunk.offset, peer->IncomingSlot(chunk.slot), chunk.bytes);
    peer->ReleaseSlot(chunk.slot);
  }
  EXPECT_EQ(got, bytes);
  EXPECT_THAT(gpu.Log(), ::testing::Not(::testing::Contains("add 1")));
  peer->Post(PeerEnd{1, CUDA_SUCCESS});
  EXPECT_EQ(ReadWord(stream, block), 8U);
}

TEST_F(PeerCopiesTest, AStreamWhoseOrderDoesNotCountGoesOnWhenAllIsSent) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  // Clear to send may arrive before the op.
  peer->Post(PeerClearToSend{1});
  PostSend(stream, 1, block + 64, 100, false);
  PostAdd(stream, block, 1, 8);
  EXPECT_EQ(Next<Chunk>().bytes, 100U);
  EXPECT_EQ(ReadWord(stream, block), 8U);
  peer->Post(PeerEnd{1, CUDA_SUCCESS});
}

TEST_F(PeerCopiesTest, NoSlotIsTakenByACopyWhoseDeviceIsNotThere) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t slow = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t fast = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  module();
  gpu.Hold(1);
  PostAdd(slow, block, 1, 1);
  PostSend(slow, 1, block + 64, 16 * 4096, true);
  PostSend(fast, 2, block + 64, 100, true);
  peer->Post(PeerClearToSend{1});
  peer->Post(PeerClearToSend{2});
  EXPECT_EQ(Next<Chunk>().transfer, 2U);
  gpu.Let(1);
  for (int i = 0; i < 16; ++i) {
    const Chunk chunk = Next<Chunk>();
    EXPECT_EQ(chunk.transfer, 1U);
    peer->ReleaseSlot(chunk.slot);
  }
}

TEST_F(PeerCopiesTest, AFailureElsewhereEndsTheCopyAndNotTheDevice) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  PostReceive(stream, 1, block, 3 * 4096);
  PostSend(stream, 2, block, 100, true);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 1U);
  SendChunk(1, 0, Pattern(4096, 1));
  peer->Post(PeerEnd{1, CUDA_ERROR_ILLEGAL_ADDRESS});
  // Failures may also arrive before clear to send.
  peer->Post(PeerEnd{2, CUDA_ERROR_INVALID_VALUE});
  PostSend(stream, 3, block, 100, true);
  peer->Post(PeerEnd{3, CUDA_ERROR_LAUNCH_FAILED});
  PostAdd(stream, block + 64, 1, 8);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  ExpectFailures(
      {CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_DEVICE_UNAVAILABLE});
  // Late chunks of failed copies are ignored.
  SendChunk(1, 4096, Pattern(100, 1));
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(peer->AcquireSlot().has_value()) << "every slot came back";
}

TEST_F(PeerCopiesTest, WhatIsRefusedHereIsToldThere) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  PostSend(stream, 1, block - 4096, 8192, true);
  EXPECT_EQ(Next<PeerEnd>().result, CUDA_ERROR_INVALID_VALUE);
  PostReceive(stream, 2, ~std::uint64_t{0} - 10, 100);
  EXPECT_EQ(Next<PeerEnd>().result, CUDA_ERROR_INVALID_VALUE);
  PostReceive(stream, 3, block, 2 * 4096);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 3U);
  gpu.Refuse("to-device", CUDA_ERROR_OUT_OF_MEMORY);
  SendChunk(3, 0, Pattern(4096, 1));
  EXPECT_EQ(Next<PeerEnd>().result, CUDA_ERROR_OUT_OF_MEMORY);
  PostSend(stream, 4, block, 100, true);
  client.Post(PeerAbandon{kJoin, 4});
  EXPECT_EQ(Next<PeerEnd>().transfer, 4U);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  ExpectFailures({CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                  CUDA_ERROR_DEVICE_UNAVAILABLE});
}

TEST_F(PeerCopiesTest, TheOtherProxysEndEndsItsCopies) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  PostReceive(stream, 1, block, 3 * 4096);
  PostSend(other, 2, block, 100, true);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 1U);
  peer->Close(true);
  ASSERT_TRUE(AwaitFailures(2));
  // Later copies fail, too.
  PostReceive(stream, 3, block, 100);
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  ExpectFailures({CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE,
                  CUDA_ERROR_DEVICE_UNAVAILABLE});
}

TEST_F(PeerCopiesTest, ALostDeviceIsToldToTheOtherProxy) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  const std::uint64_t faults = loopback.FindKernel(module(), "faults");
  PostReceive(stream, 1, block, 3 * 4096);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 1U);
  PostLaunch(other, faults);
  EXPECT_NE(client.Call(StreamSynchronize{other}).result, CUDA_SUCCESS);
  const PeerEnd end = Next<PeerEnd>();
  EXPECT_EQ(end.transfer, 1U);
  EXPECT_NE(end.result, CUDA_SUCCESS);
  PostSend(stream, 2, block, 100, true);
  EXPECT_EQ(Next<PeerEnd>().transfer, 2U);
}

TEST_F(PeerCopiesTest, NonsenseEndsTheJoinAndNothingElse) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  PostReceive(stream, 1, block, 3 * 4096);
  EXPECT_EQ(Next<PeerClearToSend>().transfer, 1U);
  SendChunk(1, 4096, Pattern(4096, 1));  // Not the first chunk.
  EXPECT_TRUE(AwaitClosed());
  ASSERT_TRUE(AwaitFailures(1));
  PostAdd(stream, block, 1, 8);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
}

TEST_F(PeerCopiesTest, AnyMessagesAreSurvived) {
  const std::uint64_t block = loopback.Map();
  std::mt19937 random(20);
  for (std::uint32_t join = 100; join < 160; ++join) {
    const std::uint64_t stream = loopback.NewStream(CU_STREAM_NON_BLOCKING);
    peer = loopback.Join(join, &bell);
    for (std::uint64_t transfer = 1; transfer <= 3; ++transfer) {
      if (random() % 2 == 0)
        client.Post(PeerSend{stream, join, transfer, At(block), Run(3 * 4096), random() % 2 == 0});
      else
        client.Post(PeerReceive{stream, join, transfer, At(block), Run(3 * 4096)});
    }
    for (int i = 0; i < 40 && !peer->closed(); ++i) {
      const std::uint64_t transfer = random() % 5;
      switch (random() % 5) {
        case 0:
          peer->Post(PeerClearToSend{transfer});
          break;
        case 1:
          peer->Post(PeerEnd{transfer, static_cast<int>(random() % 3)});
          break;
        case 2:
          peer->Post(Chunk{transfer, random() % 3 * 4096,
                           static_cast<std::uint32_t>(random() % 5000),
                           static_cast<std::uint32_t>(random() % 6)});
          break;
        case 3:
          peer->Post(Signal{random()});
          break;
        default:
          peer->ReleaseSlot(static_cast<std::uint32_t>(random() % 6));
      }
    }
    peer->Close(false);
    EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS) << "join " << join;
  }
}

// The worker waits for the channel while the session's state is about to be destroyed.
TEST_F(PeerCopiesTest, AChannelMayComeWhileTheSessionEnds) {
  client.Ask(PeerJoin{kJoin + 1});
  client.channel().Close(false);
  const std::unique_ptr<Channel> late = loopback.Give(kJoin + 1, &bell);
  EXPECT_TRUE(loopback.AwaitEnd().ok());
}

TEST_F(PeerCopiesTest, AJoinThatThereIsNotIsNothingAnHonestClientNames) {
  const std::uint64_t block = loopback.Map();
  client.Post(PeerSend{0, kJoin + 1, 1, At(block), Run(100), true});
  expect_end_ok_ = false;
  EXPECT_EQ(loopback.AwaitEnd().code(), StatusCode::kInvalid);
}

}  // namespace
}  // namespace cuspan::proxy
