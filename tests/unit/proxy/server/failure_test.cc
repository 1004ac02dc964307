// What the driver refuses, faults of the device, and the plain calls.
#include <algorithm>

#include "tests/unit/proxy/server/server_fixture.h"

namespace cuspan::proxy {
namespace {

using FailureTest = ServerTest;
using CallTest = ServerTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FailureTest, APostedOpThatIsRefusedIsReportedOnceAndTheContextLives) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t refused = loopback.FindKernel(module(), "refused");
  const std::uint64_t sequence =
      client.Post(Launch{refused, stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}}, 77);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  const Told told = client.Now();
  ASSERT_EQ(told.failures.size(), 1U);
  EXPECT_EQ(told.failures[0].sequence, sequence);
  EXPECT_EQ(told.failures[0].thread, 77U);
  EXPECT_EQ(told.failures[0].op, static_cast<std::uint16_t>(Op::kLaunch));
  EXPECT_EQ(told.failures[0].result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(told.faults, IsEmpty());
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
  const Told told = client.Now();
  EXPECT_EQ(told.failures.size(), 6U);
  for (const PostedFailure& failure : told.failures)
    EXPECT_EQ(failure.result, CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(told.failed_transfers.size(), 2U);
  EXPECT_EQ(told.failed_transfers[0].transfer, 1U);
  EXPECT_EQ(told.failed_transfers[1].transfer, 2U);
  EXPECT_EQ(not_the_devices, 5U);
  EXPECT_THAT(gpu.Log(), ::testing::Not(::testing::Contains("to-device 1")));
}

TEST_F(FailureTest, ACopyThatFailsMidwayEndsAndItsStreamGoesOn) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Post(CopyToDevice{stream, block, 4 * 4096, 1});
  PostAdd(stream, block + (1 << 19), 1, 8);
  ASSERT_TRUE(client.AwaitWanted(1));
  client.SendChunks(1, Pattern(4096, 1));
  ASSERT_TRUE(gpu.WaitForLog("to-device 1"));
  gpu.Refuse("to-device", CUDA_ERROR_OUT_OF_MEMORY);
  client.SendChunks(1, Pattern(2 * 4096, 1));  // One that fails and one that was under way.
  ASSERT_TRUE(gpu.WaitForLog("add 1"));
  EXPECT_EQ(ReadWord(stream, block + (1 << 19)), 8U);
  const Told told = client.Now();
  ASSERT_EQ(told.failed_transfers.size(), 1U);
  EXPECT_EQ(told.failed_transfers[0].result, CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(told.failures.size(), 1U);
  EXPECT_EQ(told.failures[0].op, static_cast<std::uint16_t>(Op::kCopyToDevice));
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(client.channel().TakeSlot().has_value()) << "every slot came back";
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
  const Told told = client.Now();
  EXPECT_EQ(told.failures.size(), 4U);
  EXPECT_EQ(told.failed_transfers.size(), 1U);
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
  ASSERT_TRUE(client.AwaitWanted(1));

  PostLaunch(stream, faults);
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<StreamSynchronize>(synchronize_held).result,
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(synchronize_device).result,
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.AwaitReply<MemoryUnmap>(unmap).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(AwaitReached(event, 1));
  ASSERT_TRUE(client.Await([](const Told& told) { return told.failed_transfers.size() == 2; }));

  client.SendChunks(1, std::vector<std::byte>(4));  // Was under way: nothing comes of it.
  PostAdd(stream, block, 1, 1);
  client.Post(EventRecord{event, stream, 2});
  client.Post(CopyFromDevice{stream, block, 4, 3});
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client.Call(ModuleLoad{12345}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(AwaitReached(event, 2));
  ASSERT_TRUE(client.Await([](const Told& told) { return told.failed_transfers.size() == 3; }));
  const Told told = client.Now();
  EXPECT_THAT(told.faults, ElementsAre(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_THAT(told.failures, IsEmpty()) << "DeviceFault has said it";
  for (const EventReached& reached : told.reached)
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
  ASSERT_TRUE(client.Await([](const Told& told) { return told.failed_transfers.size() == 1; }));
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(CallTest, MemoryIsMappedAndUnmappedAsAsked) {
  const std::uint64_t block = loopback.Map();
  EXPECT_EQ(client.Call(MemoryMap{block + 4096, 4096}).result, CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(client.Call(MemoryUnmap{block, 4096}).result, CUDA_ERROR_INVALID_VALUE)
      << "exactly one earlier map";
  EXPECT_EQ(client.Call(MemoryUnmap{block, 1 << 20}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryUnmap{block, 1 << 20}).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(MemoryMap{block, 1 << 20}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryMap{kWindow + (1 << 28), 128 << 20}).result,
            CUDA_ERROR_OUT_OF_MEMORY);
  const MemoryInfo::Reply information = client.Call(MemoryInfo{});
  EXPECT_EQ(information.free, std::uint64_t{1} << 20);
  EXPECT_EQ(information.total, std::uint64_t{2} << 20);
}

TEST_F(CallTest, KernelsAndVariables) {
  const KernelFind::Reply found = client.Call(KernelFind{module(), 5000, "add"});
  EXPECT_EQ(found.result, CUDA_SUCCESS);
  EXPECT_THAT(found.parameter_bytes, ElementsAre(8, 4, 4));
  ASSERT_EQ(found.attributes.size(), static_cast<std::size_t>(CU_FUNC_ATTRIBUTE_MAX));
  EXPECT_EQ(found.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], 1024);
  EXPECT_EQ(client.Call(KernelFind{module(), 5001, "missing"}).result, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(client.Call(KernelFind{module(), 5001, "nothing"}).result, CUDA_SUCCESS)
      << "the handle was not used up";
  EXPECT_EQ(client.Call(KernelSetAttribute{5000, 8, 100}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(KernelSetAttribute{5000, 8, -1}).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(KernelOccupancy{5000, 128, 0, 0}).blocks, 3);
  EXPECT_EQ(client.Call(KernelAvailableShared{5000, 1, 128}).bytes, 4096U);
  EXPECT_EQ(client.Call(VariableFind{module(), "missing"}).result, CUDA_ERROR_NOT_FOUND);
  const VariableFind::Reply variable = client.Call(VariableFind{module(), "variable"});
  ASSERT_EQ(variable.bytes, 64U);
  const std::uint32_t word = 6;
  client.Post(CopyToDeviceInline{0, variable.address + 60, std::as_bytes(std::span(&word, 1))});
  EXPECT_EQ(ReadWord(0, variable.address + 60), 6U);
  client.Post(Memset{0, variable.address + 60, 0, 1, 5});  // Beyond its end.
  client.Post(ModuleUnload{module()});
  client.Post(Memset{0, variable.address, 0, 1, 1});  // Not there any more.
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().failures.size(), 2U);
}

TEST_F(CallTest, AllKernelsOfAModule) {
  const ModuleKernels::Reply all = client.Call(ModuleKernels{module(), 0});
  EXPECT_EQ(all.result, CUDA_SUCCESS);
  EXPECT_TRUE(all.last);
  EXPECT_THAT(all.names, ::testing::Contains("add"));
  EXPECT_THAT(all.names, ::testing::Contains("nothing"));
  const auto count = static_cast<std::uint32_t>(all.names.size());
  const ModuleKernels::Reply rest = client.Call(ModuleKernels{module(), count - 1});
  EXPECT_THAT(rest.names, ElementsAre(all.names.back()));
  EXPECT_TRUE(rest.last);
  for (const std::uint32_t beyond : {count, UINT32_MAX}) {
    const ModuleKernels::Reply none = client.Call(ModuleKernels{module(), beyond});
    EXPECT_EQ(none.result, CUDA_SUCCESS);
    EXPECT_TRUE(none.names.empty() && none.last);
  }
  const std::uint64_t add = loopback.FindKernel(module(), "add");
  EXPECT_EQ(client.Call(KernelParameter{add, 2}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(KernelParameter{add, 3}).result, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CallTest, AModuleIsUnloadedWhenItsKernelsHaveRun) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t nothing = loopback.FindKernel(module(), "nothing");
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  client.Post(StreamWaitSignal{stream, 3});
  PostLaunch(stream, nothing);
  client.Post(ModuleUnload{module()});
  client.Post(Signal{3});
  ASSERT_TRUE(gpu.WaitForLog("nothing 1"));
  client.Call(MemoryInfo{});
  EXPECT_THAT(gpu.Log(), ::testing::Not(::testing::Contains("unload")));
  gpu.Let(1);
  client.Call(DeviceSynchronize{});
  client.Call(MemoryInfo{});
  EXPECT_THAT(gpu.Log(), ::testing::Contains("unload"));
}

TEST_F(CallTest, BadModulesAreRefusedByTheirCheck) {
  const auto load = [&](const std::vector<std::byte>& image) {
    const std::uint64_t module = loopback.NewHandle();
    client.Post(ModuleImage{module, image.size(), 0, image});
    const int result = client.Call(ModuleLoad{module}).result;
    EXPECT_EQ(client.Call(KernelFind{module, loopback.NewHandle(), "add"}).result, result);
    return result;
  };
  std::vector<std::byte> open_text = AnyImage();
  open_text.pop_back();
  EXPECT_EQ(load(open_text), CUDA_ERROR_INVALID_IMAGE);
  // A fat binary that claims more bytes than there are.
  const std::uint32_t container[] = {0xba55ed50, 0x00100001, 1000, 0};
  const Bytes claimed = std::as_bytes(std::span(container));
  EXPECT_EQ(load({claimed.begin(), claimed.end()}), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load({std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}}),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load({std::byte{1}}), CUDA_ERROR_INVALID_IMAGE);
  gpu.Refuse("cuModuleLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load(AnyImage()), CUDA_ERROR_NO_BINARY_FOR_GPU);
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

TEST_F(CallTest, Limits) {
  EXPECT_EQ(client.Call(LimitGet{CU_LIMIT_STACK_SIZE}).value, 1024U);
  EXPECT_EQ(client.Call(LimitSet{CU_LIMIT_STACK_SIZE, 2048}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(LimitSet{CU_LIMIT_MAX, 1}).result, CUDA_ERROR_UNSUPPORTED_LIMIT);
}

}  // namespace
}  // namespace cuspan::proxy
