// Tests memory mapped by several processes, with handles being file descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kBytes = 4 * kMiB;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

class ShareableTest : public DriverTest {
 protected:
  static CUmemAllocationProp Properties(CUmemAllocationHandleType handles) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = handles;
    return properties;
  }
  static CUmemGenericAllocationHandle Create(CUmemAllocationHandleType handles = kDescriptor) {
    const CUmemAllocationProp properties = Properties(handles);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
    return handle;
  }
  static CUdeviceptr Map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(cuMemAddressReserve(&address, kBytes, 0, 0, 0));
    EXPECT_CUDA(cuMemMap(address, kBytes, 0, handle, 0));
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_CUDA(cuMemSetAccess(address, kBytes, &access, 1));
    return address;
  }
  static void Unmap(CUdeviceptr address) {
    EXPECT_CUDA(cuMemUnmap(address, kBytes));
    EXPECT_CUDA(cuMemAddressFree(address, kBytes));
  }
  static int Export(CUmemGenericAllocationHandle handle) {
    int descriptor = -1;
    EXPECT_CUDA(cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0));
    EXPECT_GE(descriptor, 0);
    return descriptor;
  }
  static CUresult Import(int descriptor, CUmemGenericAllocationHandle* handle) {
    return cuMemImportFromShareableHandle(
        handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)), kDescriptor);
  }
};

TEST_F(ShareableTest, AnImportedHandleIsTheSameMemory) {
  const CUmemGenericAllocationHandle own = Create();
  const CUdeviceptr address = Map(own);
  const int descriptor = Export(own);
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_CUDA(Import(descriptor, &imported));
  ::close(descriptor);
  const CUdeviceptr second = Map(imported);
  EXPECT_CUDA(Launch(Kernel("Store"), 1, 32, 0, nullptr, address, 42));
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(reinterpret_cast<const int*>(second)[31], 42);
  // Each mapping keeps the memory alive.
  EXPECT_CUDA(cuMemRelease(own));
  Unmap(address);
  EXPECT_EQ(reinterpret_cast<const int*>(second)[31], 42);
  EXPECT_CUDA(cuMemRelease(imported));
  Unmap(second);
}

TEST_F(ShareableTest, AnotherProcessSeesIt) {
  const CUmemGenericAllocationHandle own = Create();
  const CUdeviceptr address = Map(own);
  const int descriptor = Export(own);
  EXPECT_CUDA(cuMemsetD32Async(address, 11, 4, nullptr));
  EXPECT_CUDA(cuCtxSynchronize());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto* const words = static_cast<volatile int*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    const bool seen = words != MAP_FAILED && words[3] == 11 && words[4] == 0;
    if (seen) words[4] = 12;
    ::_exit(seen ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(reinterpret_cast<const volatile int*>(address)[4], 12);
  // A holder of the descriptor can not remove its pages.
  EXPECT_NE(::ftruncate(descriptor, 0), 0);
  ::close(descriptor);
  EXPECT_CUDA(cuMemRelease(own));
  Unmap(address);
}

TEST_F(ShareableTest, CountsUntilItIsFreed) {
  std::size_t before = 0, total = 0, during = 0, after = 0;
  EXPECT_CUDA(cuMemGetInfo(&before, &total));
  const CUmemGenericAllocationHandle own = Create();
  EXPECT_CUDA(cuMemGetInfo(&during, &total));
  EXPECT_EQ(before - during, kBytes);
  EXPECT_CUDA(cuMemRelease(own));
  EXPECT_CUDA(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

TEST_F(ShareableTest, OnlyWhatWasAskedForIsExported) {
  const CUmemGenericAllocationHandle own = Create(CU_MEM_HANDLE_TYPE_NONE);
  int descriptor = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, own, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, 12345, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuMemRelease(own));
}

TEST_F(ShareableTest, OtherDescriptorsAreRefused) {
  CUmemGenericAllocationHandle imported = 0;
  EXPECT_EQ(Import(-1, &imported), CUDA_ERROR_INVALID_VALUE);
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(Import(file, &imported), CUDA_ERROR_INVALID_VALUE);
  ::close(file);
  const int memory = ::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(memory, kBytes), 0);  // It could shrink while mapped.
  EXPECT_EQ(Import(memory, &imported), CUDA_ERROR_INVALID_VALUE);
  ::close(memory);
}

}  // namespace
}  // namespace cuspan::softgpu
