// Tests virtual memory management, registered memory, copies and fills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kGranule = 2 * kMiB;

class MemoryTest : public DriverTest {
 protected:
  static CUmemAllocationProp Properties(int device = 0) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return properties;
  }
  static CUmemAccessDesc Access(CUmemAccess_flags flags, int device = 0) {
    CUmemAccessDesc access = {};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = flags;
    return access;
  }
  static std::size_t Free() {
    std::size_t free = 0, total = 0;
    EXPECT_CUDA(cuMemGetInfo(&free, &total));
    EXPECT_LE(free, total);
    return free;
  }
};

TEST_F(MemoryTest, ReservationsHonourAFreeHint) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer leaves no room at these addresses";
#endif
  const CUdeviceptr hint = 0x1900'0000'0000;
  CUdeviceptr first = 0, second = 0;
  ASSERT_CUDA(cuMemAddressReserve(&first, 8 * kGranule, 0, hint, 0));
  EXPECT_EQ(first, hint);
  ASSERT_CUDA(cuMemAddressReserve(&second, 8 * kGranule, 0, hint, 0));
  EXPECT_NE(second, hint);
  EXPECT_EQ(second % kGranule, 0u);
  EXPECT_CUDA(cuMemAddressFree(first, 8 * kGranule));
  EXPECT_CUDA(cuMemAddressFree(second, 8 * kGranule));
  CUdeviceptr aligned = 0;
  ASSERT_CUDA(cuMemAddressReserve(&aligned, kGranule, 64 * kGranule, 0, 0));
  EXPECT_EQ(aligned % (64 * kGranule), 0u);
  EXPECT_CUDA(cuMemAddressFree(aligned, kGranule));
}

TEST_F(MemoryTest, ReservationsCheckTheirArguments) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 0, 0x1900'0000'0001, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(nullptr, kGranule, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(0x1900'0000'0000, kGranule), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, LargeWindowsCostNothing) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer leaves no room at these addresses";
#endif
  CUdeviceptr window = 0;
  ASSERT_CUDA(cuMemAddressReserve(&window, std::size_t{256} << 30, 0, 0x1800'0000'0000, 0));
  EXPECT_EQ(window, 0x1800'0000'0000u);
  EXPECT_CUDA(cuMemAddressFree(window, std::size_t{256} << 30));
}

TEST_F(MemoryTest, AllocationsCountAgainstTheDevice) {
  const std::size_t before = Free();
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_CUDA(cuMemCreate(&handle, 64 * kMiB, &properties, 0));
  EXPECT_EQ(Free(), before - 64 * kMiB);
  CUmemGenericAllocationHandle too_much = 0;
  std::size_t total = 0;
  ASSERT_CUDA(cuDeviceTotalMem(&total, 0));
  EXPECT_EQ(cuMemCreate(&too_much, total, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CUDA(cuMemRelease(handle));
  EXPECT_EQ(Free(), before);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 100, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  const CUmemAllocationProp nowhere = Properties(999);
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &nowhere, 0), CUDA_ERROR_INVALID_DEVICE);
  std::size_t granularity = 0;
  EXPECT_CUDA(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, kGranule);
}

// Holes left by earlier allocations are used together.
TEST_F(MemoryTest, FragmentedMemoryIsStillMemory) {
  const CUmemAllocationProp properties = Properties();
  const std::size_t pieces = Free() / kGranule;
  std::vector<CUmemGenericAllocationHandle> handles(pieces);
  for (auto& handle : handles) ASSERT_CUDA(cuMemCreate(&handle, kGranule, &properties, 0));
  std::size_t given_back = 0;
  for (std::size_t i = 0; i < pieces; i += 2) {
    ASSERT_CUDA(cuMemRelease(handles[i]));
    given_back += kGranule;
  }
  {
    DeviceMemory all(given_back);
    ASSERT_CUDA(cuMemsetD8Async(all.address(), 0x5a, given_back, nullptr));
    const auto bytes = all.Read<std::uint8_t>(given_back);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0x5a), static_cast<long>(given_back));
  }
  for (std::size_t i = 1; i < pieces; i += 2) EXPECT_CUDA(cuMemRelease(handles[i]));
}

TEST_F(MemoryTest, MappingFollowsTheDriversRules) {
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  ASSERT_CUDA(cuMemCreate(&handle, 4 * kGranule, &properties, 0));
  ASSERT_CUDA(cuMemAddressReserve(&base, 16 * kGranule, 0, 0, 0));
  EXPECT_EQ(cuMemMap(base, 4 * kGranule, kGranule, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(base, 2 * kGranule, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(base + 1, 4 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, 4 * kGranule, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, 4 * kGranule, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(0x1234'0000'0000, 4 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CUDA(cuMemMap(base, 4 * kGranule, 0, handle, 0));
  EXPECT_EQ(cuMemMap(base, 4 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base + 2 * kGranule, 4 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);

  // No access is allowed before cuMemSetAccess.
  EXPECT_EQ(cuMemsetD8Async(base, 1, 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  auto access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(cuMemSetAccess(base, 2 * kGranule, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(base, 8 * kGranule, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(base, 4 * kGranule, &access, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuMemSetAccess(base, 4 * kGranule, &access, 1));
  EXPECT_CUDA(cuMemsetD8Async(base, 1, 16, nullptr));
  EXPECT_CUDA(cuCtxSynchronize());
  access = Access(CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_CUDA(cuMemSetAccess(base, 4 * kGranule, &access, 1));
  access = Access(static_cast<CUmemAccess_flags>(7));
  EXPECT_EQ(cuMemSetAccess(base, 4 * kGranule, &access, 1), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(cuMemAddressFree(base, 16 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuMemRelease(handle));            // The mapping keeps the memory alive.
  EXPECT_CUDA(cuMemUnmap(base, 8 * kGranule));  // Gaps do not matter.
  EXPECT_CUDA(cuMemAddressFree(base, 16 * kGranule));
}

TEST_F(MemoryTest, OneAllocationMayBeMappedTwice) {
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  ASSERT_CUDA(cuMemCreate(&handle, kGranule, &properties, 0));
  ASSERT_CUDA(cuMemAddressReserve(&base, 2 * kGranule, 0, 0, 0));
  const auto access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (int i = 0; i < 2; ++i) {
    ASSERT_CUDA(cuMemMap(base + i * kGranule, kGranule, 0, handle, 0));
  }
  ASSERT_CUDA(cuMemSetAccess(base, 2 * kGranule, &access, 1));
  ASSERT_CUDA(cuMemsetD32Async(base, 77, 1, nullptr));
  int value = 0;
  ASSERT_CUDA(cuMemcpyDtoHAsync(&value, base + kGranule, 4, nullptr));
  EXPECT_EQ(value, 77);
  // Memory keeps its contents while it is not mapped.
  ASSERT_CUDA(cuMemUnmap(base, 2 * kGranule));
  ASSERT_CUDA(cuMemMap(base, kGranule, 0, handle, 0));
  ASSERT_CUDA(cuMemSetAccess(base, kGranule, &access, 1));
  value = 0;
  ASSERT_CUDA(cuMemcpyDtoHAsync(&value, base, 4, nullptr));
  EXPECT_EQ(value, 77);
  ASSERT_CUDA(cuMemUnmap(base, kGranule));
  ASSERT_CUDA(cuMemRelease(handle));
  ASSERT_CUDA(cuMemAddressFree(base, 2 * kGranule));
}

TEST_F(MemoryTest, CopiesOfAllSizesArrive) {
  // Sizes around the limits of snapshots (64 KiB) and of pieces (4 MiB).
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, 64 * kMiB / 1024,
                                  64 * kMiB / 1024 + 1, 4 * kMiB, 9 * kMiB + 3}) {
    SCOPED_TRACE(bytes);
    std::vector<std::uint8_t> data(bytes), back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    DeviceMemory from(bytes), to(bytes);
    ASSERT_CUDA(cuMemcpyHtoDAsync(from.address(), data.data(), bytes, nullptr));
    ASSERT_CUDA(cuMemcpyDtoDAsync(to.address(), from.address(), bytes, nullptr));
    ASSERT_CUDA(cuMemcpyDtoHAsync(back.data(), to.address(), bytes, nullptr));
    // Pageable memory: complete when the call returns.
    EXPECT_EQ(back, data);
  }
}

// Pageable memory may be reused once the call returns. Registered memory is read when the copy
// runs.
TEST_F(MemoryTest, WhenSourcesAreRead) {
  TestStream stream;
  DeviceMemory device(8192);
  std::vector<int> pageable(1, 1);
  auto* registered = static_cast<int*>(std::aligned_alloc(4096, 4096));
  *registered = 1;
  ASSERT_CUDA(cuMemHostRegister(registered, 4096, 0));
  {
    Gate gate(Kernel("WaitFor"), stream);
    ASSERT_CUDA(cuMemcpyHtoDAsync(device.address(), pageable.data(), 4, stream));
    ASSERT_CUDA(cuMemcpyHtoDAsync(device.address() + 4, registered, 4, stream));
    pageable[0] = 2;
    *registered = 2;
    gate.Open();
    ASSERT_CUDA(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(device.Read<int>(2), (std::vector<int>{1, 2}));
  // The same into registered memory: not before the stream is done.
  {
    Gate gate(Kernel("WaitFor"), stream);
    *registered = 0;
    ASSERT_CUDA(cuMemcpyDtoHAsync(registered, device.address() + 4, 4, stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate.Open();
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(*registered, 2);
  }
  EXPECT_CUDA(cuMemHostUnregister(registered));
  std::free(registered);
}

TEST_F(MemoryTest, FillsOfAllWidths) {
  DeviceMemory memory(64);
  ASSERT_CUDA(cuMemsetD8Async(memory.address(), 0xee, 64, nullptr));
  ASSERT_CUDA(cuMemsetD8Async(memory.address(), 1, 3, nullptr));
  ASSERT_CUDA(cuMemsetD16Async(memory.address() + 8, 0x0203, 2, nullptr));
  ASSERT_CUDA(cuMemsetD32Async(memory.address() + 16, 0x04050607, 2, nullptr));
  std::vector<std::uint8_t> expected(64, 0xee);
  std::fill_n(expected.begin(), 3, 1);
  for (int i = 0; i < 2; ++i) {
    expected[8 + 2 * i] = 3;
    expected[9 + 2 * i] = 2;
    for (int byte = 0; byte < 4; ++byte) expected[16 + 4 * i + byte] = 7 - byte;
  }
  EXPECT_EQ(memory.Read<std::uint8_t>(64), expected);
}

TEST_F(MemoryTest, RangesOutsideDeviceMemoryAreInvalid) {
  DeviceMemory memory(kGranule);
  const CUdeviceptr base = memory.address();
  std::vector<char> host(64);
  EXPECT_EQ(cuMemsetD32Async(base + 2, 1, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD16Async(base + 1, 1, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8Async(base, 1, kGranule + 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(base, 1, SIZE_MAX / 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8Async(0, 1, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoDAsync(base, nullptr, 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoDAsync(0, host.data(), 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(host.data()), host.data(), 16, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoHAsync(host.data(), base + kGranule - 8, 16, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoDAsync(base, base + kGranule, 16, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuMemsetD8Async(base, 1, 0, nullptr));
  EXPECT_CUDA(cuMemcpyHtoDAsync(base, host.data(), 0, nullptr));
}

TEST_F(MemoryTest, RegistrationsDoNotOverlap) {
  auto* memory = static_cast<char*>(std::aligned_alloc(4096, kMiB));
  std::memset(memory, 0, kMiB);
  ASSERT_CUDA(cuMemHostRegister(memory, kMiB, 0));
  EXPECT_EQ(cuMemHostRegister(memory, kMiB, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(memory + 4096, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(memory + 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuMemHostUnregister(memory));
  EXPECT_EQ(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(nullptr, 1000, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(memory, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(memory, 4096, 0x100), CUDA_ERROR_INVALID_VALUE);
  void* const gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, 4096);
  EXPECT_EQ(cuMemHostRegister(gone, 4096, 0), CUDA_ERROR_INVALID_VALUE);
  std::free(memory);
}

TEST_F(MemoryTest, APeerNeedsAccess) {
  int count = 0;
  ASSERT_CUDA(cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "one device";
  DeviceMemory peer(kGranule, 1), own(kGranule, 0);
  EXPECT_EQ(cuMemcpyDtoDAsync(own.address(), peer.address(), 16, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  const auto access = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 0);
  ASSERT_CUDA(cuMemSetAccess(peer.address(), kGranule, &access, 1));
  EXPECT_CUDA(cuMemsetD32Async(peer.address(), 5, 4, nullptr));
  EXPECT_CUDA(cuMemcpyDtoDAsync(own.address(), peer.address(), 16, nullptr));
  EXPECT_EQ(own.Read<int>(4), (std::vector<int>{5, 5, 5, 5}));
}

}  // namespace
}  // namespace cuspan::softgpu
