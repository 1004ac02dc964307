// Tests records of events, and waits for them.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using CallTest = ServerTest;
using OrderTest = ServerTest;

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

// After some of a stream's ops, the proxy records its own event to track the progress.
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
    // Other records of the proxy in between stay pending, like the work after them.
    gpu.LetNext(number, before + 1 + before / 64);
    ASSERT_TRUE(AwaitReached(event, before + 1)) << before << " ops before the record";
    gpu.Let(number);
  }
}

TEST_F(CallTest, ElapsedTimeAsCudaDefinesIt) {
  const std::uint64_t stream = loopback.NewStream();
  client.Call(DeviceSynchronize{});
  const std::uint64_t start = loopback.NewHandle();
  const std::uint64_t end = loopback.NewHandle();
  const std::uint64_t plain = loopback.NewHandle();
  client.Post(EventCreate{start, 0});
  client.Post(EventCreate{end, 0});
  client.Post(EventCreate{plain, CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(client.Call(EventElapsed{start, end}).result, CUDA_ERROR_INVALID_HANDLE)
      << "not recorded";
  client.Post(EventRecord{start, stream, 1});
  client.Post(EventRecord{plain, stream, 1});
  client.Post(StreamWaitSignal{stream, 9});
  client.Post(EventRecord{end, stream, 1});
  EXPECT_EQ(client.Call(EventElapsed{start, end}).result, CUDA_ERROR_NOT_READY)
      << "waits in the queue";
  gpu.Hold(1);
  client.Post(Signal{9});
  EXPECT_EQ(client.Call(EventElapsed{start, end}).result, CUDA_ERROR_NOT_READY)
      << "waits on the device";
  gpu.Let(1);
  const EventElapsed::Reply reply = client.Call(EventElapsed{start, end});
  EXPECT_EQ(reply.result, CUDA_SUCCESS);
  EXPECT_FLOAT_EQ(reply.milliseconds, 2.5F);
  EXPECT_EQ(client.Call(EventElapsed{start, plain}).result, CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace cuspan::proxy
