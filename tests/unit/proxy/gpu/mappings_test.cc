// Tests a proxy's mappings of the client's shared region.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "common/shared_memory.h"
#include "proxy/gpu/mappings.h"
#include "tests/unit/proxy/loopback/fake_gpu.h"

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kHalf = 4 << 20;
constexpr std::uint64_t kPiece = 2 << 20;
// Amid unused addresses. They differ between sanitizers.
const std::uint64_t kBase = [] {
  constexpr std::uint64_t kRoom = std::uint64_t{64} << 30;
  void* const room =
      ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(room, MAP_FAILED);
  ::munmap(room, kRoom);
  return (reinterpret_cast<std::uint64_t>(room) + kRoom / 2) / kPiece * kPiece;
}();
const AddressWindow kRegion{kBase, 2 * kHalf, 0};

class SharedRegionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Device> opened = Device::Open(gpu_.driver(), 0, {kBase + (1 << 30), kHalf, kHalf});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    device_ = std::make_unique<Device>(std::move(*opened));
  }
  UniqueFd File() {
    Result<UniqueFd> file = CreateSharedMemory("shared-region-test", kRegion.bytes);
    EXPECT_TRUE(file.ok());
    return file.ok() ? std::move(*file) : UniqueFd();
  }

  FakeGpu gpu_;
  std::unique_ptr<Device> device_;
};

// Addresses of this process occupied by another mapping.
class Taken {
 public:
  explicit Taken(std::uint64_t address)
      : place_(::mmap(reinterpret_cast<void*>(address), kHalf, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0)) {
    EXPECT_EQ(place_, reinterpret_cast<void*>(address));
  }
  ~Taken() { ::munmap(place_, kHalf); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

 private:
  void* const place_;
};

TEST_F(SharedRegionTest, HasTheFileAndMemoryOfTheDevice) {
  ASSERT_TRUE(device_->ReserveShared(kRegion, File(), kHalf).ok());
  Mappings mappings(gpu_.driver(), *device_);
  EXPECT_EQ(mappings.Map(kBase, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(mappings.Map(kBase + kHalf, kPiece), CUDA_SUCCESS);
}

TEST_F(SharedRegionTest, WithoutAddressesForTheDeviceItHasTheFileAndNoRoom) {
  const Taken taken(kBase + kHalf);
  ASSERT_TRUE(device_->ReserveShared(kRegion, File(), kHalf).ok());
  Mappings mappings(gpu_.driver(), *device_);
  EXPECT_EQ(mappings.Map(kBase, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(mappings.Map(kBase + kHalf, kPiece), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(SharedRegionTest, WithoutAddressesForTheFileThereIsNone) {
  const Taken taken(kBase);
  EXPECT_FALSE(device_->ReserveShared(kRegion, File(), kHalf).ok());
}

TEST_F(SharedRegionTest, WithoutAFileAllIsTheDevices) {
  ASSERT_TRUE(device_->ReserveShared(kRegion, UniqueFd(), kHalf).ok());
  Mappings mappings(gpu_.driver(), *device_);
  EXPECT_EQ(mappings.Map(kBase, kPiece), CUDA_SUCCESS);
  EXPECT_FALSE(device_->InFile(kBase, kPiece));
}

TEST_F(SharedRegionTest, WithoutAFileAndAddressesThereIsNone) {
  const Taken taken(kBase + kHalf);
  EXPECT_FALSE(device_->ReserveShared(kRegion, UniqueFd(), kHalf).ok());
}

}  // namespace
}  // namespace cuspan::proxy
