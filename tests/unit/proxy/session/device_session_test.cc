// Tests a whole session over the fake GPU: the order of streams, copies and completions.
#include <algorithm>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using OrderTest = ServerTest;

TEST_F(OrderTest, CopiesAndLaunchesGiveTheRightBytes) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::vector<std::byte> bytes = Pattern(100'000, 1);
  client.Post(CopyToDevice{stream, block, bytes.size(), 1});
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, bytes);
  const std::uint32_t seven = 7;
  client.Post(CopyToDeviceInline{stream, block + 200'000, std::as_bytes(std::span(&seven, 1))});
  PostAdd(stream, block + 200'000, 1, 35);
  client.Post(CopyOnDevice{stream, block + 300'000, block, bytes.size()});
  client.Post(Memset{stream, block + 500'000, 0x11223344, 4, 2});
  EXPECT_EQ(Read(stream, block + 300'000, bytes.size()), bytes);
  EXPECT_EQ(ReadWord(stream, block + 200'000), 42U);
  EXPECT_EQ(ReadWord(stream, block + 500'004), 0x11223344U);
}

// The copy's bytes are not sent. Later work of its stream waits, other streams do not.
TEST_F(OrderTest, FiveThousandLaunchesBehindACopyHeldBack) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t held = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  client.Post(CopyToDevice{held, block, 4, 1});
  for (int i = 0; i < 5000; ++i) PostAdd(held, block, 1, 1);
  ASSERT_TRUE(client.AwaitClearToSend(1));

  PostAdd(other, block + 4096, 1, 9);
  EXPECT_EQ(client.Call(StreamSynchronize{other}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryMap{kWindow + (1 << 28), 1 << 20}).result, CUDA_SUCCESS);
  loopback.LoadModule(AnyImage());
  EXPECT_EQ(client.Call(StreamQuery{held}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  EXPECT_EQ(Count(gpu.Log(), "add 2"), 1U);

  client.SendChunks(1, std::vector<std::byte>(4, std::byte{1}));
  EXPECT_EQ(ReadWord(held, block), 0x01010101U + 5000);
  EXPECT_EQ(client.Call(StreamQuery{held}).result, CUDA_SUCCESS);
}

TEST_F(OrderTest, FiveThousandLaunchesBehindACopyHeldBackOnTheLegacyStream) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t blocking = loopback.NewStream();
  const std::uint64_t free = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  client.Post(CopyToDevice{0, block, 4, 1});
  for (int i = 0; i < 5000; ++i)
    PostAdd(i % 2 == 0 ? 0 : 1, block, 1, 1);  // 0 and 1 both mean the legacy stream.
  PostAdd(blocking, block, 1, 1);
  ASSERT_TRUE(client.AwaitClearToSend(1));

  PostAdd(free, block + 4096, 1, 9);
  EXPECT_EQ(client.Call(StreamSynchronize{free}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryMap{kWindow + (1 << 28), 1 << 20}).result, CUDA_SUCCESS);
  loopback.LoadModule(AnyImage());
  EXPECT_EQ(Count(gpu.Log(), "add 0"), 0U);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U) << "a blocking stream waits for the legacy stream";
  EXPECT_EQ(Count(gpu.Log(), "add 2"), 1U);

  client.SendChunks(1, std::vector<std::byte>(4, std::byte{0}));
  EXPECT_EQ(ReadWord(blocking, block), 5001U);
  const std::vector<std::string> log = gpu.Log();
  EXPECT_EQ(Count(log, "add 0"), 5000U);
  const auto last_legacy = std::find(log.rbegin(), log.rend(), "add 0");
  EXPECT_NE(std::find(log.rbegin(), last_legacy, "add 1"), last_legacy)
      << "submitted after all legacy ops";
}

// Once a completion is visible in any stream, the chunks of earlier copies have been sent.
TEST_F(OrderTest, CompletionsAcrossStreamsComeAfterTheChunksBeforeThem) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t copying = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t waiting = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t copied = loopback.NewHandle();
  const std::uint64_t seen = loopback.NewHandle();
  client.Post(EventCreate{copied, 0});
  client.Post(EventCreate{seen, CU_EVENT_DISABLE_TIMING});
  constexpr std::uint64_t kRounds = 300;
  std::vector<std::byte> place(2 * 4096);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    client.ReceiveTo(round, place.data());
    client.Post(CopyFromDevice{copying, block, place.size(), round});
    client.Post(EventRecord{copied, copying, round});
    client.Post(StreamWaitEvent{waiting, copied, round});
    client.Post(EventRecord{seen, waiting, round});
  }
  ASSERT_TRUE(AwaitReached(seen, kRounds));
  for (const EventReached& reached : client.Now().reached) {
    EXPECT_EQ(reached.result, CUDA_SUCCESS);
    EXPECT_GE(reached.chunks, 2 * reached.record)
        << (reached.event == seen ? "other stream" : "same stream");
  }
  EXPECT_EQ(client.Call(StreamSynchronize{waiting}).chunks, 2 * kRounds);
}

// A mark is found without the driver.
TEST_F(OrderTest, AWaitForTheLastOfAStreamRecordsNoEvent) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  for (const std::uint64_t of : {stream, std::uint64_t{0}}) {
    PostAdd(of, block, 1, 1);
    EXPECT_EQ(client.Call(StreamSynchronize{of}).result, CUDA_SUCCESS);
    PostAdd(of, block, 1, 1);
    EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  }
  EXPECT_EQ(Count(gpu.Log(), "record 0") + Count(gpu.Log(), "record 1"), 1U)
      << "the proxy's own, when it begins";
}

// A mark in a blocking stream would wait for the marks in the legacy stream, and these for the
// work of all blocking streams.
TEST_F(OrderTest, AWaitForAStreamIsNotForAWaitForTheLegacyStream) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t held = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  add();
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  gpu.Hold(2);
  PostAdd(held, block, 1, 1);
  PostAdd(other, block, 1, 1);
  const std::uint32_t legacy = client.Ask(StreamSynchronize{0});
  ASSERT_TRUE(gpu.WaitForLog("write-value 0"));
  const std::uint32_t request = client.Ask(StreamSynchronize{other});
  gpu.Let(2);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
  EXPECT_FALSE(client.Now().replies.contains(legacy));
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(legacy).result, CUDA_SUCCESS);
}

TEST_F(OrderTest, WithoutMarksAWaitRecordsAnEvent) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  add();
  client.Call(DeviceSynchronize{});
  gpu.Refuse("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED);
  for (std::size_t round = 1; round <= 2; ++round) {
    gpu.Hold(1);
    PostAdd(stream, block, 1, 1);
    const std::uint32_t request = client.Ask(StreamSynchronize{stream});
    ASSERT_TRUE(gpu.WaitForLog("record 1", round));
    EXPECT_FALSE(client.Now().replies.contains(request));
    gpu.Let(1);
    EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
  }
}

TEST_F(OrderTest, AWaitForAStreamIsNotForWhatComesBehindIt) {
  const std::uint64_t block = loopback.Map();
  for (const bool legacy : {false, true}) {
    const std::uint64_t stream = legacy ? 0 : loopback.NewStream();
    const int number = legacy ? 0 : 1;
    add();
    client.Call(DeviceSynchronize{});
    gpu.Hold(number);
    PostAdd(stream, block, 1, 1);
    const std::uint32_t request = client.Ask(StreamSynchronize{stream});
    const std::uint32_t device = client.Ask(DeviceSynchronize{});
    PostAdd(stream, block, 1, 1);
    ASSERT_TRUE(gpu.WaitForLog("add " + std::to_string(number), 2));
    EXPECT_FALSE(client.Now().replies.contains(request));
    gpu.LetNext(number, 3);  // The first, and a mark for each waiter.
    EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
    EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(device).result, CUDA_SUCCESS);
    EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_NOT_READY);
    gpu.Let(number);
  }
}

TEST_F(OrderTest, AWaitWhoseEndCanNotBeRecordedFails) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  add();
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  gpu.Refuse("cuStreamBatchMemOp", CUDA_ERROR_OUT_OF_MEMORY);
  gpu.Refuse("record", CUDA_ERROR_OUT_OF_MEMORY);
  PostAdd(stream, block, 1, 1);
  const std::uint32_t request = client.Ask(StreamSynchronize{stream});
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_ERROR_OUT_OF_MEMORY);
  gpu.Refuse("record", CUDA_SUCCESS);
  gpu.Let(1);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
}

TEST_F(OrderTest, AWaitForTheLegacyStreamIsForTheOthersWorkBeforeIt) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t other = loopback.NewStream();
  add();
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  PostAdd(other, block, 1, 1);
  PostAdd(0, block, 1, 1);
  const std::uint32_t request = client.Ask(StreamSynchronize{0});
  PostAdd(other, block, 1, 1);
  ASSERT_TRUE(gpu.WaitForLog("add 1", 2));
  EXPECT_FALSE(client.Now().replies.contains(request));
  gpu.LetNext(1, 1);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
  gpu.Let(1);
}

TEST_F(OrderTest, AWaitForAStreamOutlivesTheStream) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  add();
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  const std::uint32_t request = client.Ask(StreamSynchronize{stream});
  client.Post(StreamDestroy{stream});
  ASSERT_TRUE(gpu.WaitForLog("record 1"));
  client.Call(MemoryInfo{});
  EXPECT_FALSE(client.Now().replies.contains(request));
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(request).result, CUDA_SUCCESS);
}

TEST_F(OrderTest, DeviceSynchronizeWaitsForDestroyedStreams) {
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  const std::uint64_t kernel = loopback.FindKernel(module(), "nothing");
  gpu.Hold(1);
  PostLaunch(stream, kernel);
  client.Post(StreamDestroy{stream});
  const std::uint32_t device = client.Ask(DeviceSynchronize{});
  client.Call(MemoryInfo{});
  EXPECT_EQ(client.Now().replies.count(device), 0U);
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(device).result, CUDA_SUCCESS);
}

// If about 1,000 ops of a stream are pending, or many bytes of small copies, NVIDIA's driver blocks
// its caller. Other streams must not be affected.
TEST_F(OrderTest, ABusyStreamIsGivenNoMoreThanTheDriverTakesWithoutBlocking) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t busy = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t copying = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t other = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  gpu.Hold(2);
  for (int i = 0; i < 3000; ++i) PostAdd(busy, block, 1, 1);
  const std::vector<std::byte> bytes = Pattern(16 << 10, 4);
  for (int i = 0; i < 100; ++i) client.Post(CopyToDeviceInline{copying, block + 8192, bytes});
  PostAdd(other, block + 4096, 1, 1);
  EXPECT_EQ(ReadWord(other, block + 4096), 1U);
  const std::size_t launched = Count(gpu.Log(), "add 1");
  EXPECT_GE(launched, 200U);
  EXPECT_LE(launched, 900U);
  EXPECT_LE(Count(gpu.Log(), "to-device 2"), 60U);
  const std::uint32_t all = client.Ask(DeviceSynchronize{});
  client.Post(StreamDestroy{copying});
  gpu.Let(1);
  gpu.Let(2);
  EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(all).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(busy, block), 3000U);
  EXPECT_EQ(Read(other, block + 8192, bytes.size()), bytes);
}

}  // namespace
}  // namespace cuspan::proxy
