// Tests copies of boxes in a whole session over the fake GPU. Chunks may end within a row, and
// their bytes must reach the right rows. Memory not owned by the client is refused.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using BoxTest = ServerTest;

// Rows are 100 bytes apart, in planes of 80 rows. The box is 70 × 60 × 3, not a multiple of a
// chunk.
constexpr BoxExtent kExtent = {70, 60, 3};
BoxLocation PlaceAt(std::uint64_t address) { return {0, address, 100, 80, 0, 0, 0}; }
constexpr std::size_t kSpan = (2 * 80 + 59) * 100 + 70;

std::size_t Packed(std::size_t x, std::size_t y, std::size_t z) { return (z * 60 + y) * 70 + x; }
std::size_t Spread(std::size_t x, std::size_t y, std::size_t z) { return (z * 80 + y) * 100 + x; }

TEST_F(BoxTest, ABoxIsSpreadOnTheDeviceAndPackedOnTheWayBack) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  const std::vector<std::byte> packed = Pattern(70 * 60 * 3, 5);
  client.Post(Memset{stream, block, 0xaa, 1, kSpan});
  client.Post(CopyBoxToDevice{stream, PlaceAt(block), kExtent, 1});
  ASSERT_TRUE(client.AwaitClearToSend(1));
  client.SendChunks(1, packed);
  const std::vector<std::byte> spread = Read(stream, block, kSpan);
  for (std::size_t z = 0; z < 3; ++z)
    for (std::size_t y = 0; y < 60; ++y)
      for (std::size_t x = 0; x < 70; ++x)
        ASSERT_EQ(spread[Spread(x, y, z)], packed[Packed(x, y, z)]);
  EXPECT_EQ(spread[70], std::byte{0xaa}) << "between the rows";
  EXPECT_EQ(spread[Spread(0, 60, 0)], std::byte{0xaa}) << "between the planes";

  client.Post(CopyBoxOnDevice{stream, PlaceAt(block + 50'000), PlaceAt(block), kExtent});
  std::vector<std::byte> back(packed.size());
  client.ReceiveTo(2, back.data());
  client.Post(CopyBoxFromDevice{stream, PlaceAt(block + 50'000), kExtent, 2});
  const StreamSynchronize::Reply reply = client.Call(StreamSynchronize{stream});
  EXPECT_EQ(reply.result, CUDA_SUCCESS);
  ASSERT_TRUE(client.Await(
      [&](const Received& received) { return received.chunks.size() >= reply.chunks; }));
  EXPECT_EQ(back, packed);
}

TEST_F(BoxTest, RowsAreSetAndWhatLiesBetweenThemIsNot) {
  const std::uint64_t block = loopback.Map();
  client.Post(Memset{0, block, 1, 1, 1000});
  client.Post(MemsetRows{0, block, 100, 7, 30, 10});
  const std::vector<std::byte> bytes = Read(0, block, 1000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(bytes[i], std::byte(i % 100 < 30 ? 7 : 1)) << i;
}

// Memory outside of the client's, and extents with a product exceeding 64 bits.
TEST_F(BoxTest, WhatIsNotTheClientsIsRefusedAndTheSessionLives) {
  const std::uint64_t block = loopback.Map();
  client.Post(CopyBoxOnDevice{0, PlaceAt(block), PlaceAt(block + kWindowBytes), kExtent});
  client.Post(CopyBoxOnDevice{0, PlaceAt(block), {0, block, ~0ULL, ~0ULL, 0, 0, 0}, {8, 2, 2}});
  client.Post(MemsetRows{0, block, ~0ULL / 2, 0, 8, 9});
  client.Post(MemsetRows{0, 4096, 100, 0, 8, 9});
  EXPECT_TRUE(client.Await([](const Received& received) { return received.failures.size() == 4; }));
  for (const auto& failure : client.Now().failures)
    EXPECT_EQ(failure.result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
}

TEST_F(BoxTest, NoSuchArrayEndsTheSession) {
  expect_end_ok_ = false;
  client.Post(CopyBoxOnDevice{0, {77, 0, 0, 0, 0, 0, 0}, PlaceAt(kWindow), kExtent});
  const Status end = loopback.AwaitEnd();
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.message(), ::testing::HasSubstr("array 0x4d"));
}

}  // namespace
}  // namespace cuspan::proxy
