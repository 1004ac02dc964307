// Tests writing of selected bytes.
#include "protocol/api/patch.h"

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

class PatchTest : public ServerTest {
 protected:
  // Prepares memory filled with 0, and a stream.
  void SetUp() override {
    block_ = loopback.Map();
    client.Post(Memset{0, block_, 0, 1, 4096});
    stream_ = loopback.NewStream(CU_STREAM_NON_BLOCKING);
    ASSERT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  }
  void Post(std::uint64_t address) {
    client.Post(PatchMemory{stream_, address, std::as_bytes(std::span(mask_)), data_});
  }
  // Expects the bytes of the mask, and no others, to be written once the stream is done.
  void ExpectPatched() {
    std::vector<std::byte> expected(data_.size() + 8);
    for (std::size_t i = 0; i < data_.size(); ++i)
      if ((mask_[i / 8] >> (i % 8) & 1) != 0) expected[i] = data_[i];
    EXPECT_EQ(Read(stream_, block_, expected.size()), expected);
  }

  std::uint64_t block_ = 0;
  std::uint64_t stream_ = 0;
  std::vector<unsigned char> mask_ = {0xff, 0, 0x81, 0x42, 0xfe};
  std::vector<std::byte> data_ = Pattern(40, 3);
};

TEST_F(PatchTest, IsOneLaunch) {
  Post(block_);
  ExpectPatched();
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 1U);
  EXPECT_EQ(Count(gpu.Log(), "to-device 1"), 0U);
}

TEST_F(PatchTest, OfTheLargestPiece) {
  mask_.assign(kMaxPatchBytes / kPatchWordBytes, 0x55);
  data_ = Pattern(kMaxPatchBytes, 4);
  Post(block_);
  ExpectPatched();
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 1U);
}

TEST_F(PatchTest, ThatWaitsForItsTurnKeepsItsBytes) {
  client.Post(StreamWaitSignal{stream_, 5});
  Post(block_);
  client.Post(Memset{0, block_ + 2048, 0, 1, 1});  // Reuses the location of its frame.
  client.Post(Signal{5});
  ExpectPatched();
}

// A kernel waiting for the program may occupy the whole GPU.
TEST_F(PatchTest, DoesNotWaitForRoomBesideAKernel) {
  const std::uint64_t busy = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  PostAdd(busy, block_ + 2048, 1, 1);
  ASSERT_EQ(client.Call(StreamSynchronize{busy}).result, CUDA_SUCCESS);
  gpu.Hold(2);
  PostAdd(busy, block_ + 2048, 1, 1);
  ASSERT_TRUE(gpu.WaitForLog("add 2", 2));
  Post(block_);
  ExpectPatched();
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 0U);
  EXPECT_EQ(Count(gpu.Log(), "to-device 1"), 6U);
  gpu.Let(2);
  ASSERT_EQ(client.Call(StreamSynchronize{busy}).result, CUDA_SUCCESS);
  Post(block_);
  ExpectPatched();
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 1U);
}

TEST_F(PatchTest, WorksWhereTheKernelIsNotToBeHad) {
  gpu.Refuse("cuModuleLoadData", CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  Post(block_);
  Post(block_);
  ExpectPatched();
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 0U);
}

TEST_F(PatchTest, OfMemoryThatIsNotTheClientsFails) {
  Post(kWindow + kWindowBytes - 32);
  Post(8);
  EXPECT_EQ(client.Call(StreamSynchronize{stream_}).result, CUDA_SUCCESS);
  EXPECT_TRUE(client.Await([](const Received& received) { return received.failures.size() == 2; }));
  for (const PostedFailure& failure : client.Now().failures)
    EXPECT_EQ(failure.result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Count(gpu.Log(), "patch 1"), 0U);
}

}  // namespace
}  // namespace cuspan::proxy
