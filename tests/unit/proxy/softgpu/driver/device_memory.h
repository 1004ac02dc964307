// Devices and memory for tests using a CUDA driver.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace cuspan::softgpu {

#define EXPECT_CUDA(expression) EXPECT_EQ((expression), CUDA_SUCCESS)
#define ASSERT_CUDA(expression) ASSERT_EQ((expression), CUDA_SUCCESS)

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// Configures two devices of 512 MiB, unless the caller of the test has set others.
inline void ConfigureTestDevices() {
  setenv("CUSPAN_SOFT_GPUS", "2", 0);
  setenv("CUSPAN_SOFT_MEMORY", "512M", 0);
}

// Memory on one device, allocated like by the proxy.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes, int device = 0) {
    bytes_ = (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    EXPECT_CUDA(cuMemCreate(&handle_, bytes_, &properties, 0));
    EXPECT_CUDA(cuMemAddressReserve(&address_, bytes_, 0, 0, 0));
    EXPECT_CUDA(cuMemMap(address_, bytes_, 0, handle_, 0));
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(cuMemSetAccess(address_, bytes_, &access, 1));
  }
  ~DeviceMemory() {
    EXPECT_CUDA(cuMemUnmap(address_, bytes_));
    EXPECT_CUDA(cuMemRelease(handle_));
    EXPECT_CUDA(cuMemAddressFree(address_, bytes_));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

  template <typename T>
  void Write(const std::vector<T>& values) const {
    EXPECT_CUDA(cuMemcpyHtoDAsync(address_, values.data(), values.size() * sizeof(T), nullptr));
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
  }
  template <typename T>
  std::vector<T> Read(std::size_t count) const {
    std::vector<T> values(count);
    EXPECT_CUDA(cuMemcpyDtoHAsync(values.data(), address_, count * sizeof(T), nullptr));
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
    return values;
  }

 private:
  std::size_t bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
};

}  // namespace cuspan::softgpu
