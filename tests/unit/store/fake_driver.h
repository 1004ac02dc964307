// A CUDA driver for the engine. It remembers page-locked memory; host addresses are device
// addresses.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>

#include "store/engine/engine_driver.h"

namespace cuspan::store {

// Settings of the driver: before the threads under test start.
struct FakeDriver {
  // Results of the next calls.
  CUresult set_current = CUDA_SUCCESS;
  CUresult register_memory = CUDA_SUCCESS;
  CUresult device_pointer = CUDA_SUCCESS;
  // The same, of the pages of files.
  CUresult register_read_only = CUDA_SUCCESS;
  int can_lock_files = 1;
  int refused_calls_after = 1 << 30;  // Number of calls of cuMemHostRegister before it fails.

  std::mutex mutex;
  std::map<std::byte*, std::size_t> registered;  // First bytes, and sizes.
  int registrations = 0;                         // Calls that registered memory.
  unsigned flags = 0;                            // Those of the last registration.
};
inline FakeDriver fake_driver;
inline thread_local CUcontext fake_current = nullptr;

inline CUcontext FakeContext() { return reinterpret_cast<CUcontext>(&fake_driver); }

inline CUresult CUDAAPI FakeSetCurrent(CUcontext context) {
  if (fake_driver.set_current != CUDA_SUCCESS) return fake_driver.set_current;
  fake_current = context;
  return CUDA_SUCCESS;
}
inline CUresult CUDAAPI FakeAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = fake_driver.can_lock_files;
  return CUDA_SUCCESS;
}
inline CUresult CUDAAPI FakeRegister(void* memory, std::size_t bytes, unsigned flags) {
  const std::lock_guard lock(fake_driver.mutex);
  if (fake_current != FakeContext()) return CUDA_ERROR_INVALID_CONTEXT;
  if (fake_driver.register_memory != CUDA_SUCCESS) return fake_driver.register_memory;
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0 && fake_driver.register_read_only != CUDA_SUCCESS)
    return fake_driver.register_read_only;
  if (fake_driver.refused_calls_after-- <= 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* const first = static_cast<std::byte*>(memory);
  const auto next = fake_driver.registered.upper_bound(first);
  if (next != fake_driver.registered.end() && next->first < first + bytes)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (next != fake_driver.registered.begin() &&
      std::prev(next)->first + std::prev(next)->second > first)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  fake_driver.registered[first] = bytes;
  fake_driver.flags = flags;
  ++fake_driver.registrations;
  return CUDA_SUCCESS;
}
inline CUresult CUDAAPI FakeUnregister(void* memory) {
  const std::lock_guard lock(fake_driver.mutex);
  if (fake_current != FakeContext()) return CUDA_ERROR_INVALID_CONTEXT;
  return fake_driver.registered.erase(static_cast<std::byte*>(memory)) == 1
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
inline CUresult CUDAAPI FakeDevicePointer(CUdeviceptr* device, void* memory, unsigned) {
  const std::lock_guard lock(fake_driver.mutex);
  if (fake_driver.device_pointer != CUDA_SUCCESS) return fake_driver.device_pointer;
  if (!fake_driver.registered.contains(static_cast<std::byte*>(memory)))
    return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

inline EngineContext FakeEngine() {
  return {{FakeSetCurrent, FakeAttribute, FakeRegister, FakeUnregister, FakeDevicePointer},
          FakeContext(),
          0};
}

// Number of page-locked bytes.
inline std::size_t FakeRegisteredBytes() {
  const std::lock_guard lock(fake_driver.mutex);
  std::size_t sum = 0;
  for (const auto& piece : fake_driver.registered) sum += piece.second;
  return sum;
}

// Each test begins with a driver that does everything, and leaves nothing registered.
class FakeDriverTest : public testing::Test {
 protected:
  FakeDriverTest() {
    Works();
    const std::lock_guard lock(fake_driver.mutex);
    fake_driver.can_lock_files = 1;
    fake_driver.registered.clear();
    fake_driver.registrations = 0;
    fake_driver.flags = 0;
  }
  ~FakeDriverTest() override { EXPECT_EQ(FakeRegisteredBytes(), 0u); }

  // All calls succeed.
  static void Works() {
    const std::lock_guard lock(fake_driver.mutex);
    fake_driver.set_current = CUDA_SUCCESS;
    fake_driver.register_memory = CUDA_SUCCESS;
    fake_driver.device_pointer = CUDA_SUCCESS;
    fake_driver.register_read_only = CUDA_SUCCESS;
    fake_driver.refused_calls_after = 1 << 30;
  }
};

}  // namespace cuspan::store
