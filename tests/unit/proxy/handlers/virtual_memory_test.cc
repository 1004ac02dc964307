// Tests memory mapped by the program itself.
#include "protocol/api/address_plan.h"
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kBase = kReservationsBase;
constexpr std::uint64_t kPiece = 2 << 20;

class VirtualMemoryTest : public ServerTest {
 protected:
  VirtualMemoryTest() {
    gpu.HaveOwnAddresses();
    EXPECT_EQ(client.Call(AddressReserve{kBase, 8 * kPiece}).result, CUDA_SUCCESS);
  }
  // Waits until the worker has done its work.
  void Settle() { EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS); }
  std::vector<int> Failures() {
    Settle();
    std::vector<int> results;
    for (const PostedFailure& failure : client.Now().failures) results.push_back(failure.result);
    return results;
  }
};

TEST_F(VirtualMemoryTest, IsThereFromItsMapToItsUnmap) {
  const std::uint64_t stream = loopback.NewStream();
  client.Post(AllocationMake{1, kPiece});
  client.Post(AllocationMap{kBase + kPiece, kPiece, 1});
  client.Post(AllocationAccess{kBase + kPiece, kPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  client.Post(AllocationEnd{1});
  client.Post(Memset{stream, kBase + kPiece, 3, 4, kPiece / 4});
  EXPECT_EQ(ReadWord(stream, kBase + 2 * kPiece - 4), 3U);
  client.Post(AllocationUnmap{kBase + kPiece, kPiece});
  client.Post(AddressFree{kBase});
  EXPECT_THAT(Failures(), testing::IsEmpty());
  client.Post(Memset{stream, kBase + kPiece, 3, 4, 1});
  EXPECT_EQ(client.Call(StreamSynchronize{stream}).result, CUDA_SUCCESS);
  EXPECT_THAT(Failures(), testing::ElementsAre(CUDA_ERROR_INVALID_VALUE));
}

TEST_F(VirtualMemoryTest, WorkWaitsForItsAccess) {
  const std::uint64_t stream = loopback.NewStream(CU_STREAM_NON_BLOCKING);
  client.Call(StreamSynchronize{stream});
  add();
  gpu.HoldAccess(true);
  client.Post(AllocationMake{1, kPiece});
  client.Post(AllocationMap{kBase, kPiece, 1});
  client.Post(AllocationAccess{kBase, kPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  PostAdd(stream, kBase, 1, 5);
  ASSERT_TRUE(gpu.WaitForLog("asked for access"));
  EXPECT_EQ(client.Call(StreamQuery{stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Count(gpu.Log(), "add 1"), 0U);
  gpu.HoldAccess(false);
  EXPECT_EQ(ReadWord(stream, kBase), 5U);
}

TEST_F(VirtualMemoryTest, WhatIsNotThereIsRefusedAndReported) {
  client.Post(AllocationMap{kBase, kPiece, 7});
  client.Post(AllocationUnmap{kBase, kPiece});
  client.Post(AllocationEnd{7});
  client.Post(AllocationAccess{kBase, kPiece, 3});
  client.Post(AddressFree{kBase + kPiece});
  client.Post(AllocationMake{1, kPiece});
  client.Post(AllocationMake{1, kPiece});
  client.Post(AllocationMap{kBase, kPiece, 1});
  client.Post(AllocationMap{kBase, kPiece, 1});
  client.Post(AllocationMap{kBase + 8 * kPiece, kPiece, 1});
  client.Post(AddressFree{kBase});
  EXPECT_THAT(Failures(), testing::SizeIs(9));
  EXPECT_THAT(Failures(), testing::Each(CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(client.Call(AllocationTry{1, kPiece}).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(AllocationTry{2, 128 << 20}).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(client.Call(AllocationImport{3, "nobody answers there", 1}).result,
            CUDA_ERROR_MAP_FAILED);
  gpu.HaveFree(12345);
  const AllocationTry::Reply made = client.Call(AllocationTry{2, kPiece});
  EXPECT_EQ(made.result, CUDA_SUCCESS);
  EXPECT_EQ(made.free, 12345U);
}

TEST_F(VirtualMemoryTest, OtherAddressesEndTheSession) {
  expect_end_ok_ = false;
  client.Post(AddressReserve{kWindow, kPiece});
  EXPECT_FALSE(loopback.AwaitEnd().ok());
}

TEST_F(VirtualMemoryTest, EndsWithTheSession) {
  client.Post(AllocationMake{1, kPiece});
  client.Post(AllocationMake{2, kPiece});
  client.Post(AllocationMap{kBase, kPiece, 1});
  Settle();
  EXPECT_TRUE(loopback.End().ok());
  EXPECT_EQ(Count(gpu.Log(), "unmap"), 1U);
  EXPECT_EQ(Count(gpu.Log(), "release"), 2U);
}

}  // namespace
}  // namespace cuspan::proxy
