#include "store/engine/resident_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace cuspan::store {
namespace {

// A driver that remembers registered memory.
struct FakeDriver {
  std::mutex mutex;
  std::map<void*, std::size_t> registered;
  unsigned flags = 0;
  int can_lock_files = 1;
  int refused_calls_after = 1 << 30;  // Number of calls of cuMemHostRegister before it fails.
} fake;

CUresult CUDAAPI SetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult CUDAAPI Attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = fake.can_lock_files;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI Register(void* memory, std::size_t bytes, unsigned flags) {
  const std::lock_guard lock(fake.mutex);
  if (fake.refused_calls_after-- <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
  fake.flags = flags;
  fake.registered[memory] = bytes;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI Unregister(void* memory) {
  const std::lock_guard lock(fake.mutex);
  return fake.registered.erase(memory) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI DevicePointer(CUdeviceptr* device, void* memory, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

class ResidentFileTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPiece = std::uint64_t{128} << 20;

  ResidentFileTest() {
    fake.registered.clear();
    fake.can_lock_files = 1;
    fake.refused_calls_after = 1 << 30;
  }
  ~ResidentFileTest() override { EXPECT_TRUE(fake.registered.empty()); }

  // A file of this size, with a text at each offset.
  FileBytes Make(std::uint64_t bytes) {
    char path[] = "/var/tmp/resident_file_XXXXXX";
    UniqueFd file(::mkstemp(path));
    ::unlink(path);
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    for (const std::uint64_t offset : {std::uint64_t{0}, kPiece, bytes - 5})
      if (offset + 5 <= bytes) {
        EXPECT_EQ(::pwrite(file.get(), "bytes", 5, static_cast<off_t>(offset)), 5);
      }
    return FileBytes(std::move(file), {true, true, false, false});
  }
  Result<std::unique_ptr<ResidentFile>> Lock(const FileBytes& file, std::uint64_t bytes,
                                             ResidentWay way) {
    const EngineContext context{
        {SetCurrent, Attribute, Register, Unregister, DevicePointer}, {}, 0};
    return ResidentFile::Make(context, file, bytes, way, 3, budget_, stop_);
  }

  MemoryBudget budget_{std::uint64_t{1} << 30};
  std::atomic<bool> stop_ = false;
};

TEST_F(ResidentFileTest, BothWays) {
  for (const std::uint64_t bytes :
       {std::uint64_t{5}, std::uint64_t{4097}, kPiece, kPiece + 4096 + 5})
    for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
      const FileBytes file = Make(bytes);
      const auto resident = Lock(file, bytes, way);
      ASSERT_TRUE(resident.ok()) << resident.status().message();
      EXPECT_EQ((*resident)->copied(), way == ResidentWay::kCopied);
      EXPECT_EQ((fake.flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0, way == ResidentWay::kMapped);
      const auto* const memory = reinterpret_cast<const char*>((*resident)->address());
      EXPECT_EQ(std::memcmp(memory, "bytes", 5), 0);
      EXPECT_EQ(std::memcmp(memory + bytes - 5, "bytes", 5), 0);
      std::uint64_t locked = 0;
      for (const auto& piece : fake.registered) locked += piece.second;
      EXPECT_EQ(locked, (bytes + 4095) / 4096 * 4096);
    }
}

TEST_F(ResidentFileTest, FilesThatTheDriverCanNotLockAreCopied) {
  const FileBytes file = Make(4096);
  fake.can_lock_files = 0;
  EXPECT_TRUE((*Lock(file, 4096, ResidentWay::kAuto))->copied());
  // A refusal for the file's pages, and none for the copy.
  EXPECT_EQ(Lock(file, 4096, ResidentWay::kOff).status().code(), StatusCode::kUnsupported);
}

TEST_F(ResidentFileTest, RefusedMemory) {
  const FileBytes file = Make(3 * kPiece);
  fake.refused_calls_after = 1;
  const auto refused = Lock(file, 3 * kPiece, ResidentWay::kCopied);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  // All of the budget is there again.
  EXPECT_TRUE(budget_.Take(budget_.limit()).valid());
}

TEST_F(ResidentFileTest, FilesThatBecomeShorter) {
  const FileBytes file = Make(4096);
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const auto shorter = Lock(file, 3 * 4096, way);
    EXPECT_EQ(shorter.status().code(), StatusCode::kInternal) << shorter.status().message();
  }
}

TEST_F(ResidentFileTest, LargerThanTheBudget) {
  const FileBytes file = Make(4096);
  EXPECT_EQ(Lock(file, budget_.limit() + 1, ResidentWay::kMapped).status().code(),
            StatusCode::kExhausted);
}

TEST_F(ResidentFileTest, EndsWithTheSession) {
  const FileBytes file = Make(4096);
  stop_ = true;
  EXPECT_FALSE(Lock(file, 4096, ResidentWay::kCopied).ok());
}

}  // namespace
}  // namespace cuspan::store
