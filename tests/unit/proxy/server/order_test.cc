// A whole session over the fake GPU: the order of streams, copies and completions.
#include <algorithm>

#include "tests/unit/proxy/server/server_fixture.h"

namespace cuspan::proxy {
namespace {

using OrderTest = ServerTest;
using ::testing::ElementsAre;

std::size_t Count(const std::vector<std::string>& log, const std::string& entry) {
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), entry));
}

TEST_F(OrderTest, CopiesAndLaunchesGiveTheRightBytes) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::vector<std::byte> bytes = Pattern(100'000, 1);
  client.Post(CopyToDevice{stream, block, bytes.size(), 1});
  ASSERT_TRUE(client.AwaitWanted(1));
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

// The copy's bytes do not come; what stands behind it waits, and nothing else does.
TEST_F(OrderTest, FiveThousandLaunchesBehindACopyHeldBack) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t held = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  client.Post(CopyToDevice{held, block, 4, 1});
  for (int i = 0; i < 5000; ++i) PostAdd(held, block, 1, 1);
  ASSERT_TRUE(client.AwaitWanted(1));

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
    PostAdd(i % 2 == 0 ? 0 : 1, block, 1, 1);  // 0 and 1 mean the same.
  PostAdd(blocking, block, 1, 1);
  ASSERT_TRUE(client.AwaitWanted(1));

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

TEST_F(OrderTest, ChunksAreSubmittedAsTheyComeAndSlotsGoBackWhenTheDeviceHasReadThem) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  gpu.Hold(1);
  const std::vector<std::byte> bytes = Pattern(4 * 4096, 2);
  client.Post(CopyToDevice{stream, block, 2 * bytes.size(), 1});
  ASSERT_TRUE(client.AwaitWanted(1));
  client.SendChunks(1, bytes);  // All four slots.
  ASSERT_TRUE(gpu.WaitForLog("to-device 1", 4));
  EXPECT_FALSE(client.channel().TryTakeSlot().has_value());
  gpu.Let(1);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::optional<std::uint32_t> slot = client.channel().TakeSlot();
    ASSERT_TRUE(slot.has_value());
    std::memcpy(client.channel().OutgoingSlot(*slot), bytes.data() + i * 4096, 4096);
    client.Post(Chunk{1, bytes.size() + (3 - i) * 4096, 4096, *slot});  // Any order will do.
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
  ASSERT_TRUE(client.Await([](const Told& told) { return told.chunks.size() == 102; }));
  std::uint64_t next[2] = {0, 0};
  for (const Chunk& chunk : client.Now().chunks) {
    EXPECT_EQ(chunk.offset, next[chunk.transfer - 1]);
    next[chunk.transfer - 1] += chunk.bytes;
  }
  EXPECT_EQ(next[0], bytes);
  EXPECT_EQ(next[1], bytes);
}

TEST_F(OrderTest, ACopyFromTheDeviceThatWaitsForSlotsHoldsItsStreamOnly) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  add();  // Before the client stops to listen.
  client.HoldChunks(true);
  std::vector<std::byte> place(8 * 4096);
  client.ReceiveTo(1, place.data());
  client.Post(CopyFromDevice{stream, block, place.size(), 1});
  client.Post(Memset{stream, block, 1, 1, place.size()});  // Must not be seen by the copy.
  PostAdd(other, block + (1 << 19), 1, 1);
  ASSERT_TRUE(gpu.WaitForLog("add 2"));
  EXPECT_EQ(Count(gpu.Log(), "from-device 1"), 4U);
  EXPECT_EQ(Count(gpu.Log(), "set 1"), 0U);
  client.HoldChunks(false);
  ASSERT_TRUE(gpu.WaitForLog("set 1"));
  ASSERT_TRUE(client.Await([](const Told& told) { return told.chunks.size() == 8; }));
  EXPECT_EQ(place, std::vector<std::byte>(place.size()));
}

// Wherever a completion is seen, the chunks of copies before it have been pushed.
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

TEST_F(OrderTest, EveryRecordOfAnEventIsReachedByItself) {
  const std::uint64_t first = loopback.NewStream();
  const std::uint64_t second = loopback.NewStream();
  const std::uint64_t event = loopback.NewHandle();
  client.Call(DeviceSynchronize{});
  gpu.Hold(2);
  client.Post(EventCreate{event, 0});
  client.Post(EventRecord{event, first, 1});
  client.Post(EventRecord{event, second, 2});
  ASSERT_TRUE(AwaitReached(event, 1)) << "though the event was recorded again";
  EXPECT_EQ(client.Now().reached.size(), 1U);
  gpu.Let(2);
  ASSERT_TRUE(AwaitReached(event, 2));
}

TEST_F(OrderTest, AWaitThatOvertakesItsRecordHoldsItsStream) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t recording = loopback.NewStream();
  const std::uint64_t waiting = loopback.NewStream();
  const std::uint64_t event = loopback.NewHandle();
  const std::uint64_t never = loopback.NewHandle();
  client.Post(EventCreate{event, 0});
  client.Post(EventCreate{never, 0});
  client.Post(StreamWaitEvent{waiting, event, 0});  // Never recorded: no wait.
  PostAdd(waiting, block, 1, 1);
  client.Post(StreamWaitEvent{waiting, event, 1});
  PostAdd(waiting, block, 1, 1);
  client.Post(StreamWaitEvent{waiting, never, 1});
  PostAdd(waiting, block, 1, 1);
  EXPECT_EQ(client.Call(StreamSynchronize{recording}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 2"), 1U);
  client.Post(EventRecord{event, recording, 1});
  ASSERT_TRUE(AwaitReached(event, 1));
  EXPECT_EQ(Count(gpu.Log(), "add 2"), 2U);
  client.Post(EventDestroy{never});
  EXPECT_EQ(client.Call(StreamSynchronize{waiting}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "add 2"), 3U);
}

TEST_F(OrderTest, ASignalMayComeBeforeOrAfterItsWait) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Post(Signal{11});
  client.Post(StreamWaitSignal{stream, 11});
  PostAdd(stream, block, 1, 1);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  client.Post(StreamWaitSignal{stream, 12});
  PostAdd(stream, block, 1, 1);
  EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 1U);
  const std::uint32_t waiting = client.Ask(StreamSynchronize{stream});
  client.Post(Signal{12});
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(waiting).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(stream, block), 2U);
}

TEST_F(OrderTest, UnmappingWaitsForQueuesAndDevice) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  gpu.Hold(1);
  client.Post(StreamWaitSignal{stream, 5});
  PostAdd(stream, block, 1, 1);
  const std::uint32_t unmap = client.Ask(MemoryUnmap{block, 1 << 20});
  client.Post(StreamDestroy{stream});  // What it was given still runs.
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "unmap"), 0U);
  client.Post(Signal{5});
  ASSERT_TRUE(gpu.WaitForLog("add 1"));
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "unmap"), 0U);
  gpu.Let(1);
  EXPECT_EQ(client.AwaitReply<MemoryUnmap>(unmap).result, CUDA_SUCCESS);
  EXPECT_EQ(Count(gpu.Log(), "unmap"), 1U);
}

// At some of its ops a stream gets an event of the proxy's own, by which it follows its progress.
TEST_F(OrderTest, ARecordIsReachedBeforeWhatTheProxyRecordsBehindIt) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t event = loopback.NewHandle();
  client.Post(EventCreate{event, CU_EVENT_DISABLE_TIMING});
  for (std::uint64_t before = 0; before < 100; ++before) {
    const std::uint64_t stream = loopback.NewStream();
    client.Call(StreamSynchronize{stream});
    const int number = static_cast<int>(before) + 1;
    gpu.Hold(number);
    for (std::uint64_t i = 0; i < before; ++i) PostAdd(stream, block, 1, 1);
    client.Post(EventRecord{event, stream, before + 1});
    client.Call(MemoryInfo{});
    // What else the proxy records between these stays pending with the work behind it.
    gpu.LetNext(number, before + 1 + before / 64);
    ASSERT_TRUE(AwaitReached(event, before + 1)) << before << " ops before the record";
    gpu.Let(number);
  }
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

// The vendor's driver blocks its caller when some 1,000 ops of a stream are
// pending or many bytes of small copies are: other streams must not notice.
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

TEST_F(OrderTest, ALongModuleLoadStopsNeitherLaunchesNorCompletions) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  add();
  gpu.HoldModules();
  const std::uint64_t slow = loopback.NewHandle();
  const std::vector<std::byte> image = AnyImage();
  client.Post(ModuleImage{slow, image.size(), 0, image});
  const std::uint32_t load = client.Ask(ModuleLoad{slow});
  PostAdd(stream, block, 1, 5);
  EXPECT_EQ(ReadWord(stream, block), 5U);
  EXPECT_EQ(client.Now().replies.count(load), 0U);
  gpu.LetModulesLoad();
  EXPECT_EQ(client.AwaitReply<ModuleLoad>(load).result, CUDA_SUCCESS);
}

}  // namespace
}  // namespace cuspan::proxy
