// Tests records of events, and waits for them.
#include <map>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

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
  gpu.Refuse("cuGraphCreate", CUDA_ERROR_OUT_OF_MEMORY);  // No batches: each launch is a task.
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

// The axis of the times is common to all streams. A record in another stream may be earlier than
// one reported before.
TEST_F(OrderTest, RecordsHaveTimes) {
  const std::uint64_t first = loopback.NewStream();
  const std::uint64_t second = loopback.NewStream();
  const std::uint64_t timed = loopback.NewHandle();
  const std::uint64_t plain = loopback.NewHandle();
  client.Post(EventCreate{timed, 0});
  client.Post(EventCreate{plain, CU_EVENT_DISABLE_TIMING});
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  client.Post(EventRecord{timed, first, 1});
  client.Post(EventRecord{timed, second, 2});
  ASSERT_TRUE(AwaitReached(timed, 2));
  client.Post(EventRecord{plain, second, 1});
  client.Post(EventRecord{timed, second, 3});
  ASSERT_TRUE(AwaitReached(timed, 3));
  gpu.Let(1);
  ASSERT_TRUE(AwaitReached(timed, 1));
  std::map<std::uint64_t, double> times;
  for (const EventReached& reached : client.Now().reached)
    if (reached.event == timed) times[reached.record] = reached.time;
  EXPECT_EQ(times.at(3) - times.at(2), 2.5);
  EXPECT_EQ(times.at(1) - times.at(3), 2.5);
}

}  // namespace
}  // namespace cuspan::proxy
