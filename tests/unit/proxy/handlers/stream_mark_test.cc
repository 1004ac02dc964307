// Tests the marks of a client: words of the channel written when its streams reach points.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

class StreamMarkTest : public ServerTest {
 protected:
  void SetUp() override { EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS); }
  void Post(std::uint64_t stream, std::uint32_t value) {
    client.Post(StreamMark{stream, 7, value});
    client.Call(MemoryInfo{});  // The proxy has taken the mark.
  }
  std::uint32_t Value() const { return client.channel().marks().all()[7].value.load(); }
  // True once the value is exactly this one.
  bool Await(std::uint32_t value) { return AwaitMark(7, value & ~3U) && Value() == value; }

  const std::uint64_t block = loopback.Map();
  // Their numbers in the fake GPU are 1 and 2.
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
};

TEST_F(StreamMarkTest, IsWrittenByTheDevice) {
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  Post(stream, 4);
  EXPECT_EQ(Value(), 0U);
  gpu.LetNext(1, 1);
  EXPECT_EQ(Value(), 0U);
  gpu.LetNext(1, 1);
  EXPECT_EQ(Value(), 5U) << "all other streams are idle";
  gpu.Let(1);
  // The proxy knows the work to be complete.
  PostAdd(other, block, 1, 1);
  Post(other, 8);
  EXPECT_TRUE(Await(9));
}

TEST_F(StreamMarkTest, TellsOfOtherStreamsWork) {
  gpu.Hold(2);
  PostAdd(other, block, 1, 1);
  PostAdd(stream, block, 1, 1);
  Post(stream, 4);
  EXPECT_TRUE(Await(4));
  gpu.Let(2);
}

TEST_F(StreamMarkTest, OfAnIdleStreamIsWrittenAtOnce) {
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  Post(stream, 4);
  EXPECT_TRUE(Await(5));
  EXPECT_EQ(gpu.Log().back(), "asked 1") << "nothing was submitted";
}

TEST_F(StreamMarkTest, OfTheLegacyStreamFollowsTheBlockingOnes) {
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  Post(0, 4);
  EXPECT_EQ(Value(), 0U);
  gpu.Let(1);
  EXPECT_TRUE(Await(4));
}

// The legacy stream's work comes later: it is not waited for.
TEST_F(StreamMarkTest, DoesNotFollowTheLegacyStream) {
  gpu.Hold(0);
  PostAdd(stream, block, 1, 1);
  PostAdd(0, block, 1, 1);
  Post(stream, 4);
  EXPECT_TRUE(Await(4));
  gpu.Let(0);
}

TEST_F(StreamMarkTest, WaitsForQueuedOps) {
  client.Post(CopyToDevice{stream, block, 4, 1});
  Post(stream, 4);
  EXPECT_EQ(Value(), 0U);
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, Pattern(4, 1));
  EXPECT_TRUE(Await(4));
}

TEST_F(StreamMarkTest, IsWrittenWithoutTheDriversMarks) {
  gpu.Refuse("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED);
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  Post(stream, 4);
  EXPECT_EQ(Value(), 0U);
  gpu.Let(1);
  EXPECT_TRUE(Await(5));
}

// The proxy has sent the printed lines before, and other kernels of the module print nothing.
TEST_F(StreamMarkTest, IsWrittenByTheDeviceAfterThePrintedLinesAreSent) {
  static constexpr char kPtx[] =
      ".entry nothing() { call vprintf; } .entry add(.param .u64 a) { ret; }";
  const auto text = std::as_bytes(std::span(kPtx));
  module_ = loopback.LoadModule({text.begin(), text.end()});
  gpu.Hold(1);
  PostLaunch(stream, loopback.FindKernel(module(), "nothing"));
  Post(stream, 4);
  gpu.Let(1);
  EXPECT_TRUE(Await(5));
  gpu.Hold(1);
  PostAdd(stream, block, 1, 1);
  Post(stream, 8);
  gpu.LetNext(1, 2);
  EXPECT_EQ(Value(), 9U);
  gpu.Let(1);
}

TEST_F(StreamMarkTest, FailsAfterAFault) {
  PostLaunch(stream, loopback.FindKernel(module(), "faults"));
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  Post(stream, 4);
  EXPECT_TRUE(AwaitMark(7, 4));
  EXPECT_NE(Value() & ChannelMark::kFailed, 0U);
}

TEST_F(StreamMarkTest, IsWrittenBehindALaunch) {
  gpu.Hold(1);
  Launch launch{add(), stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}};
  const std::uint64_t arguments[] = {block, std::uint64_t{1} << 32 | 1};
  launch.arguments = std::as_bytes(std::span(arguments));
  launch.mark = 7;
  launch.value = 4;
  client.Post(launch);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  gpu.LetNext(1, 1);
  EXPECT_EQ(Value(), 0U);
  gpu.LetNext(1, 1);
  EXPECT_EQ(Value(), 5U) << "all other streams are idle";
  gpu.Let(1);
  // Queued launches, too.
  client.Post(CopyToDevice{stream, block, 4, 1});
  launch.value = 8;
  client.Post(launch);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(Value(), 5U);
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, Pattern(4, 1));
  EXPECT_TRUE(AwaitMark(7, 8));
}

TEST_F(StreamMarkTest, IsWrittenBehindARefusedLaunch) {
  Launch launch{
      loopback.FindKernel(module(), "refused"), stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}};
  launch.mark = 7;
  launch.value = 4;
  client.Post(launch);
  EXPECT_TRUE(AwaitMark(7, 4));
  EXPECT_TRUE(client.Await([](const Received& received) { return !received.failures.empty(); }));
}

TEST_F(StreamMarkTest, AWrongOneBehindALaunchEndsTheSession) {
  Launch launch{
      loopback.FindKernel(module(), "nothing"), stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}};
  launch.mark = ChannelMarks::kCount;
  launch.value = 4;
  client.Post(launch);
  const Status end = loopback.AwaitEnd();
  EXPECT_EQ(end.message(), "mark 1024 with the value 4 does not exist");
  expect_end_ok_ = false;
}

TEST_F(StreamMarkTest, WrongOnesEndTheSession) {
  client.Post(StreamMark{stream, ChannelMarks::kCount, 4});
  const Status end = loopback.AwaitEnd();
  EXPECT_EQ(end.message(), "mark 1024 with the value 4 does not exist");
  expect_end_ok_ = false;
}

}  // namespace
}  // namespace cuspan::proxy
