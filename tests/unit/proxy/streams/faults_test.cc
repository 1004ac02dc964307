// Tests errors of the driver, and faults of the device.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using FailureTest = ServerTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FailureTest, APostedOpThatIsRefusedIsReportedOnceAndTheContextLives) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t refused = loopback.FindKernel(module(), "refused");
  const std::uint64_t sequence =
      client.Post(Launch{refused, stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}}, 77);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  const Received received = client.Now();
  ASSERT_EQ(received.failures.size(), 1U);
  EXPECT_EQ(received.failures[0].sequence, sequence);
  EXPECT_EQ(received.failures[0].thread, 77U);
  EXPECT_EQ(received.failures[0].op, static_cast<std::uint16_t>(Op::kLaunch));
  EXPECT_EQ(received.failures[0].result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(received.faults, IsEmpty());
}

TEST_F(FailureTest, MemoryOutsideTheWindowIsRefused) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint32_t word = 1;
  static std::uint32_t not_the_devices = 5;
  const auto outside = reinterpret_cast<std::uint64_t>(&not_the_devices);
  client.Post(CopyToDeviceInline{stream, outside, std::as_bytes(std::span(&word, 1))});
  client.Post(Memset{stream, kWindow + kWindowBytes - 1, 0, 1, 2});
  client.Post(Memset{stream, ~std::uint64_t{0}, 0, 4, 1});
  client.Post(CopyOnDevice{stream, kWindow, outside, 4});
  client.Post(CopyToDevice{stream, outside, 4, 1});
  client.Post(CopyFromDevice{stream, outside, 4, 2});
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  const Received received = client.Now();
  EXPECT_EQ(received.failures.size(), 6U);
  for (const PostedFailure& failure : received.failures)
    EXPECT_EQ(failure.result, CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(received.failed_transfers.size(), 2U);
  EXPECT_EQ(received.failed_transfers[0].transfer, 1U);
  EXPECT_EQ(received.failed_transfers[1].transfer, 2U);
  EXPECT_EQ(not_the_devices, 5U);
  EXPECT_THAT(gpu.Log(), ::testing::Not(::testing::Contains("to-device 1")));
}

TEST_F(FailureTest, ACopyThatFailsMidwayEndsAndItsStreamGoesOn) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Post(CopyToDevice{stream, block, 4 * 4096, 1});
  PostAdd(stream, block + (1 << 19), 1, 8);
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, Pattern(4096, 1));
  ASSERT_TRUE(gpu.WaitForLog("to-device 1"));
  gpu.Refuse("to-device", CUDA_ERROR_OUT_OF_MEMORY);
  client.SendChunks(1, Pattern(2 * 4096, 1));  // One failing and one in flight.
  ASSERT_TRUE(gpu.WaitForLog("add 1"));
  EXPECT_EQ(ReadWord(stream, block + (1 << 19)), 8U);
  const Received received = client.Now();
  ASSERT_EQ(received.failed_transfers.size(), 1U);
  EXPECT_EQ(received.failed_transfers[0].result, CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(received.failures.size(), 1U);
  EXPECT_EQ(received.failures[0].op, static_cast<std::uint16_t>(Op::kCopyToDevice));
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(client.channel().AcquireSlot().has_value()) << "every slot came back";
}

TEST_F(FailureTest, AStreamThatTheDriverDoesNotMakeFailsItsOps) {
  gpu.Refuse("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY);
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewHandle();
  const std::uint64_t event = loopback.NewHandle();
  client.Post(EventCreate{event, 0});
  client.Post(Memset{stream, kWindow, 0, 1, 1});
  client.Post(EventRecord{event, stream, 1});
  client.Post(CopyToDevice{stream, kWindow, 4, 1});
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_TRUE(AwaitReached(event, 1));
  gpu.Refuse("cuStreamCreateWithPriority", CUDA_SUCCESS);
  client.Post(StreamCreate{other, 0, 0});
  client.Post(StreamWaitEvent{other, event, 1});
  EXPECT_EQ(client.Call(StreamSynchronize{other}).result, CUDA_SUCCESS);
  client.Post(StreamDestroy{stream});
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  const Received received = client.Now();
  EXPECT_EQ(received.failures.size(), 4U);
  EXPECT_EQ(received.failed_transfers.size(), 1U);
}

TEST_F(FailureTest, ALostContextIsToldOnceAndEverythingIsAnswered) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t held = loopback.NewStream();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t faults = loopback.FindKernel(module(), "faults");
  const std::uint64_t event = loopback.NewHandle();
  std::vector<std::byte> place(64 * 4096);
  client.ReceiveTo(2, place.data());
  client.Post(EventCreate{event, 0});
  client.Post(CopyToDevice{held, block, 4, 1});
  PostAdd(held, block, 1, 1);
  client.Post(EventRecord{event, held, 1});
  client.Post(CopyFromDevice{held, block, 4, 2});
  const std::uint32_t synchronize_held = client.Ask(StreamSynchronize{held});
  const std::uint32_t unmap = client.Ask(MemoryUnmap{block, 1 << 20});
  const std::uint32_t synchronize_device = client.Ask(DeviceSynchronize{});
  ASSERT_TRUE(client.AwaitClearToSend(1));

  PostLaunch(stream, faults);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(synchronize_held).result,
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(synchronize_device).result,
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<MemoryUnmap>(unmap).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(AwaitReached(event, 1));
  ASSERT_TRUE(
      client.Await([](const Received& received) { return received.failed_transfers.size() == 2; }));

  client.SendChunks(1, std::vector<std::byte>(4));  // Was in flight: it has no effect.
  PostAdd(stream, block, 1, 1);
  client.Post(EventRecord{event, stream, 2});
  client.Post(CopyFromDevice{stream, block, 4, 3});
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.Call(ModuleLoad{12345}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(AwaitReached(event, 2));
  ASSERT_TRUE(
      client.Await([](const Received& received) { return received.failed_transfers.size() == 3; }));
  const Received received = client.Now();
  EXPECT_THAT(received.faults, ElementsAre(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_THAT(received.failures, IsEmpty()) << "DeviceFault has said it";
  for (const EventReached& reached : received.reached)
    EXPECT_EQ(reached.result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(loopback.ended());
}

TEST_F(FailureTest, CopiesFromTheDeviceThatWaitForSlotsFailWithTheContext) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t other = loopback.NewStream();
  const std::uint64_t faults = loopback.FindKernel(module(), "faults");
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  std::vector<std::byte> place(64 * 4096);
  client.ReceiveTo(1, place.data());
  client.Post(CopyFromDevice{stream, block, place.size(), 1});
  ASSERT_TRUE(gpu.WaitForLog("from-device 1", 4));
  client.Post(StreamDestroy{stream});
  PostLaunch(other, faults);
  ASSERT_TRUE(
      client.Await([](const Received& received) { return received.failed_transfers.size() == 1; }));
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace cuspan::proxy
