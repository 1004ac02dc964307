// Tests mapping of memory.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using CallTest = ServerTest;
using OrderTest = ServerTest;

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

TEST_F(OrderTest, UnmappingWaitsForQueuesAndDevice) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  client.Call(StreamSynchronize{stream});
  gpu.Hold(1);
  client.Post(StreamWaitSignal{stream, 5});
  PostAdd(stream, block, 1, 1);
  const std::uint32_t unmap = client.Ask(MemoryUnmap{block, 1 << 20});
  client.Post(StreamDestroy{stream});  // Its work still runs.
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

}  // namespace
}  // namespace cuspan::proxy
