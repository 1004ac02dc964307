// Tests swapping device memory out and in, with real drivers.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "protocol/api/address_plan.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/mappings.h"
#include "proxy/gpu/reservations.h"
#include "proxy/gpu/swap_copies.h"

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kSwapPiece = 4 << 20;
constexpr std::uint64_t kAll = ~std::uint64_t{0};
constexpr std::uint64_t kWindowBytes = 64 << 20;
constexpr AddressWindow kSwapWindow{kWindowsBase, kWindowBytes, kWindowBytes};
constexpr std::uint64_t kReserved = kReservationsBase;

class SwapTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Result<LoadedDriver> loaded = LoadDriver(GetParam());
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().message();
    driver_ = *loaded;
    Result<Device> opened = Device::Open(driver_.functions, 0, kSwapWindow);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    device_.emplace(std::move(*opened));
    copies_.emplace(driver_.functions);
    mappings_.emplace(driver_.functions, *device_);
    mappings_->MaySwap(*copies_, kSwapPiece);
    reservations_.emplace(driver_.functions, *device_);
    reservations_->MaySwap(*copies_);
  }
  std::uint64_t Free() const {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(driver_.functions.cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    return free;
  }
  void Fill(std::uint64_t address, int first) {
    std::vector<int> values(kSwapPiece / sizeof(int));
    std::iota(values.begin(), values.end(), first);
    ASSERT_EQ(driver_.functions.cuMemcpyHtoDAsync(address, values.data(), kSwapPiece, nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(driver_.functions.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }
  void ExpectFilled(std::uint64_t address, int first) {
    std::vector<int> values(kSwapPiece / sizeof(int)), expected(values.size());
    std::iota(expected.begin(), expected.end(), first);
    ASSERT_EQ(driver_.functions.cuMemcpyDtoHAsync(values.data(), address, kSwapPiece, nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(driver_.functions.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    EXPECT_TRUE(values == expected);
  }

  LoadedDriver driver_;
  std::optional<Device> device_;
  std::optional<SwapCopies> copies_;
  std::optional<Mappings> mappings_;
  std::optional<Reservations> reservations_;
};

TEST_P(SwapTest, MemoryIsGivenBackAndComesBackWithItsContent) {
  const std::uint64_t a = kWindowsBase, b = a + 2 * kSwapPiece;
  ASSERT_EQ(mappings_->Map(a, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(mappings_->Map(b, kSwapPiece), CUDA_SUCCESS);
  Fill(a, 1), Fill(b, -7);
  const std::uint64_t free = Free();
  // A later swap-out must save the current content, not keep an older copy.
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(mappings_->SwapOut(kAll), CUDA_SUCCESS);
    EXPECT_EQ(mappings_->swapped_bytes(), 2 * kSwapPiece);
    EXPECT_GE(Free(), free + 2 * kSwapPiece);
    ASSERT_EQ(mappings_->SwapIn(), CUDA_SUCCESS);
    EXPECT_EQ(mappings_->swapped_bytes(), 0U);
    ExpectFilled(a, round + 1), ExpectFilled(b, -7);
    Fill(a, round + 2);
  }
}

TEST_P(SwapTest, OnlySoMuchGoesAsIsWanted) {
  const std::uint64_t a = kWindowsBase, b = a + 3 * kSwapPiece;
  ASSERT_EQ(mappings_->Map(a, 3 * kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(mappings_->Map(b, kSwapPiece / 2), CUDA_SUCCESS);
  for (const std::uint64_t piece : {0, 1, 2}) Fill(a + piece * kSwapPiece, static_cast<int>(piece));
  ASSERT_EQ(mappings_->SwapOut(kSwapPiece + 1), CUDA_SUCCESS);
  EXPECT_EQ(mappings_->swapped_bytes(), 2 * kSwapPiece) << "whole pieces";
  ASSERT_EQ(mappings_->SwapOut(kSwapPiece), CUDA_SUCCESS);
  EXPECT_EQ(mappings_->swapped_bytes(), 3 * kSwapPiece);
  ASSERT_EQ(mappings_->SwapOut(kAll), CUDA_SUCCESS);
  EXPECT_EQ(mappings_->swapped_bytes(), 3 * kSwapPiece + kSwapPiece / 2);
  ASSERT_EQ(mappings_->SwapIn(), CUDA_SUCCESS);
  for (const std::uint64_t piece : {0, 1, 2})
    ExpectFilled(a + piece * kSwapPiece, static_cast<int>(piece));
  // Memory is unmapped in the size it was mapped, regardless of its pieces.
  EXPECT_EQ(mappings_->Unmap(a, kSwapPiece), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(mappings_->SwapOut(kSwapPiece), CUDA_SUCCESS);
  const std::uint64_t free = Free();
  EXPECT_EQ(mappings_->Unmap(a, 3 * kSwapPiece), CUDA_SUCCESS);
  EXPECT_GE(Free(), free + 2 * kSwapPiece);
  EXPECT_EQ(mappings_->swapped_bytes(), 0U);
}

TEST_P(SwapTest, WhatIsOutCanBeUnmapped) {
  const std::uint64_t a = kWindowsBase, b = a + kSwapPiece;
  ASSERT_EQ(mappings_->Map(a, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(mappings_->Map(b, kSwapPiece), CUDA_SUCCESS);
  Fill(b, 3);
  ASSERT_EQ(mappings_->SwapOut(kAll), CUDA_SUCCESS);
  EXPECT_EQ(mappings_->Unmap(a, kSwapPiece), CUDA_SUCCESS);
  EXPECT_EQ(mappings_->swapped_bytes(), kSwapPiece);
  ASSERT_EQ(mappings_->SwapIn(), CUDA_SUCCESS);
  ExpectFilled(b, 3);
  // The addresses are free again.
  EXPECT_EQ(mappings_->Map(a, kSwapPiece), CUDA_SUCCESS);
}

TEST_P(SwapTest, WhatIsThereStays) {
  ASSERT_EQ(mappings_->Map(kWindowsBase, kSwapPiece), CUDA_SUCCESS);
  Fill(kWindowsBase, 5);
  EXPECT_EQ(mappings_->SwapIn(), CUDA_SUCCESS);
  ExpectFilled(kWindowsBase, 5);
  ASSERT_EQ(mappings_->SwapOut(kAll), CUDA_SUCCESS);
  ASSERT_EQ(mappings_->SwapOut(kAll), CUDA_SUCCESS);
  ASSERT_EQ(mappings_->SwapIn(), CUDA_SUCCESS);
  ExpectFilled(kWindowsBase, 5);
}

TEST_P(SwapTest, NothingOfItIsExported) {
  ASSERT_EQ(mappings_->Map(kWindowsBase, kSwapPiece), CUDA_SUCCESS);
  UniqueFd file;
  EXPECT_EQ(mappings_->Export(kWindowsBase, kSwapPiece, &file), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_P(SwapTest, ReservedAddressesComeBackWithTheSameMemory) {
  ASSERT_EQ(reservations_->Reserve(kReserved, 4 * kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->Make(1, kSwapPiece), CUDA_SUCCESS);
  // The same memory at two addresses, the first of them read-only.
  const std::uint64_t a = kReserved, b = a + 2 * kSwapPiece;
  for (const std::uint64_t at : {a, b})
    ASSERT_EQ(reservations_->Map(at, kSwapPiece, 1), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->SetAccess(b, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
            CUDA_SUCCESS);
  ASSERT_EQ(reservations_->SetAccess(a, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  Fill(b, 11);
  const std::uint64_t free = Free();
  ASSERT_EQ(reservations_->SwapOut(kAll), CUDA_SUCCESS);
  EXPECT_EQ(reservations_->swapped_bytes(), kSwapPiece);
  EXPECT_GE(Free(), free + kSwapPiece);
  ASSERT_EQ(reservations_->SwapIn(), CUDA_SUCCESS);
  ExpectFilled(a, 11), ExpectFilled(b, 11);
  Fill(b, 12);
  ExpectFilled(a, 12);
  // The allocation's number can be released and used again.
  EXPECT_EQ(reservations_->End(1), CUDA_SUCCESS);
  EXPECT_EQ(reservations_->Make(1, kSwapPiece), CUDA_SUCCESS);
}

TEST_P(SwapTest, MemoryWithoutANumberComesBackAsWell) {
  ASSERT_EQ(reservations_->Reserve(kReserved, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->Make(1, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->Map(kReserved, kSwapPiece, 1), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->SetAccess(kReserved, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
            CUDA_SUCCESS);
  ASSERT_EQ(reservations_->End(1), CUDA_SUCCESS);
  Fill(kReserved, 2);
  const std::uint64_t free = Free();
  ASSERT_EQ(reservations_->SwapOut(kAll), CUDA_SUCCESS);
  EXPECT_GE(Free(), free + kSwapPiece);
  ASSERT_EQ(reservations_->SwapIn(), CUDA_SUCCESS);
  ExpectFilled(kReserved, 2);
  EXPECT_EQ(reservations_->Unmap(kReserved, kSwapPiece), CUDA_SUCCESS);
  EXPECT_GE(Free(), free + kSwapPiece) << "it has gone with its last address";
}

TEST_P(SwapTest, MemoryThatNothingCanReadComesBack) {
  ASSERT_EQ(reservations_->Reserve(kReserved, 2 * kSwapPiece), CUDA_SUCCESS);
  // One allocation was unmapped, the other is mapped without access.
  const auto map = [&](std::uint64_t at, std::uint64_t number) {
    ASSERT_EQ(reservations_->Map(at, kSwapPiece, number), CUDA_SUCCESS);
    ASSERT_EQ(reservations_->SetAccess(at, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
              CUDA_SUCCESS);
  };
  const std::uint64_t a = kReserved, b = kReserved + kSwapPiece;
  ASSERT_EQ(reservations_->Make(1, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->Make(2, kSwapPiece), CUDA_SUCCESS);
  map(a, 1), map(b, 2);
  Fill(a, 21), Fill(b, 22);
  ASSERT_EQ(reservations_->Unmap(a, kSwapPiece), CUDA_SUCCESS);
  ASSERT_EQ(reservations_->SetAccess(b, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
  const std::uint64_t free = Free();
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(reservations_->SwapOut(kAll), CUDA_SUCCESS);
    EXPECT_EQ(reservations_->swapped_bytes(), 2 * kSwapPiece);
    EXPECT_GE(Free(), free + 2 * kSwapPiece);
    ASSERT_EQ(reservations_->SwapIn(), CUDA_SUCCESS);
    EXPECT_EQ(reservations_->swapped_bytes(), 0U);
  }
  map(a, 1);
  ASSERT_EQ(reservations_->SetAccess(b, kSwapPiece, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
            CUDA_SUCCESS);
  ExpectFilled(a, 21), ExpectFilled(b, 22);
}

INSTANTIATE_TEST_SUITE_P(Drivers, SwapTest, ::testing::Values(CUSPAN_TEST_DRIVERS));

}  // namespace
}  // namespace cuspan::proxy
