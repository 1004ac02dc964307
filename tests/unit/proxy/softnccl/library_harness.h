// Uses libnccl.so.2 for software GPUs like a proxy: ranks are threads, each with a context.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "proxy/softnccl/nccl_api.h"
#include "tests/unit/proxy/softgpu/driver/device_memory.h"

namespace cuspan::softnccl {

// Data type of Integers.
inline constexpr int kInts = nccl::kInt32;

#define EXPECT_NCCL(expression) EXPECT_EQ((expression), nccl::kSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(expression) ASSERT_EQ((expression), nccl::kSuccess) << ncclGetLastError(nullptr)

// Device of the calling thread's context.
inline thread_local int current_device = 0;

// Makes the device's primary context current.
inline CUcontext UseDevice(int device) {
  CUcontext context = nullptr;
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  current_device = device;
  return context;
}

// Device memory of 32-bit integers in the current context.
class Integers {
 public:
  explicit Integers(const std::vector<int>& values)
      : memory_(values.size() * sizeof(int), current_device), count_(values.size()) {
    memory_.Write(values);
  }

  void* get(std::size_t index = 0) const {
    return reinterpret_cast<void*>(memory_.address() + index * sizeof(int));
  }
  std::vector<int> Read() const { return memory_.Read<int>(count_); }

 private:
  softgpu::DeviceMemory memory_;
  std::size_t count_;
};

// One rank. Its thread's context is on one of two devices.
class Rank {
 public:
  Rank(nccl::UniqueId id, int rank, int size) : rank_(rank), size_(size) {
    UseDevice(rank % 2);
    EXPECT_EQ(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    EXPECT_NCCL(ncclCommInitRankConfig(&communicator_, size, id, rank, nullptr));
  }
  Rank(const Rank&) = delete;
  ~Rank() {
    EXPECT_NCCL(ncclCommDestroy(communicator_));
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    cuStreamDestroy(stream_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  CUstream stream() const { return stream_; }
  Handle* communicator() const { return communicator_; }
  Handle* Release() { return std::exchange(communicator_, nullptr); }
  void Wait() const { EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS); }

 private:
  int rank_, size_;
  CUstream stream_ = nullptr;
  Handle* communicator_ = nullptr;
};

inline void ConfigureDevices() {
  softgpu::ConfigureTestDevices();
  ASSERT_CUDA(cuInit(0));
}

inline void RunRanks(int size, const std::function<void(Rank& rank)>& body) {
  ConfigureDevices();
  nccl::UniqueId id{};
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank mine(id, rank, size);
      if (mine.communicator() != nullptr) body(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cuspan::softnccl
