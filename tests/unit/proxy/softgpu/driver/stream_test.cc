// Tests order within and between streams, and events.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

using StreamTest = DriverTest;

TEST_F(StreamTest, WorkOfOneStreamRunsInOrder) {
  DeviceMemory value(4);
  TestStream stream;
  const CUfunction increment = Kernel("Increment");
  ASSERT_CUDA(cuMemsetD32Async(value.address(), 0, 1, stream));
  // One thread reads, adds and writes: concurrent kernels would lose counts.
  for (int i = 0; i < 5000; ++i) {
    ASSERT_CUDA(Launch(increment, 1, 1, 0, stream, value.address()));
  }
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(value.Read<int>(1)[0], 5000);
}

TEST_F(StreamTest, StreamsDoNotWaitForEachOther) {
  TestStream busy, free;
  DeviceMemory value(4);
  Gate gate(Kernel("WaitFor"), busy);
  EXPECT_EQ(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
  ASSERT_CUDA(Launch(Kernel("Store"), 1, 1, 0, free, value.address(), 5));
  ASSERT_CUDA(cuStreamSynchronize(free));
  EXPECT_CUDA(cuStreamQuery(free));
  EXPECT_EQ(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
  gate.Open();
  ASSERT_CUDA(cuStreamSynchronize(busy));
  EXPECT_CUDA(cuStreamQuery(busy));
}

// CUDA Runtime API, "Stream synchronization behavior".
TEST_F(StreamTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  TestStream blocking(CU_STREAM_DEFAULT), other(CU_STREAM_DEFAULT), apart(CU_STREAM_NON_BLOCKING);
  {
    Gate gate(Kernel("WaitFor"), blocking);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuStreamQuery(CU_STREAM_PER_THREAD));
    EXPECT_CUDA(cuStreamQuery(other));
    DeviceMemory value(4);
    ASSERT_CUDA(Launch(Kernel("Store"), 1, 1, 0, nullptr, value.address(), 1));
    // After the legacy stream's launch, and thus after the gate.
    ASSERT_CUDA(Launch(Kernel("Increment"), 1, 1, 0, other, value.address()));
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    // A non-blocking stream is not affected.
    EXPECT_CUDA(cuStreamSynchronize(apart));
    gate.Open();
    ASSERT_CUDA(cuStreamSynchronize(other));
    EXPECT_EQ(value.Read<int>(1)[0], 2);
  }
  Gate gate(Kernel("WaitFor"), apart);
  EXPECT_CUDA(cuStreamQuery(nullptr));
  EXPECT_CUDA(cuStreamSynchronize(nullptr));
}

TEST_F(StreamTest, EachThreadHasItsOwnDefaultStream) {
  Gate gate(Kernel("WaitFor"), CU_STREAM_PER_THREAD);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  std::thread([&] {
    EXPECT_CUDA(cuCtxSetCurrent(context_));
    EXPECT_CUDA(cuStreamQuery(CU_STREAM_PER_THREAD));
  }).join();
  gate.Open();
  EXPECT_CUDA(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

TEST_F(StreamTest, ABusyStreamMayBeDestroyed) {
  DeviceMemory value(4);
  value.Write<int>({0});
  CUstream stream = nullptr;
  ASSERT_CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0));
  Gate gate(Kernel("WaitFor"), stream);
  ASSERT_CUDA(Launch(Kernel("Store"), 1, 1, 0, stream, value.address(), 9));
  ASSERT_CUDA(cuStreamDestroy(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  // Its work continues, and the legacy stream still waits for it.
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(value.Read<int>(1)[0], 9);
}

TEST_F(StreamTest, CreationChecksItsArguments) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, 2, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreateWithPriority(nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
  int least = 1, greatest = 1;
  EXPECT_CUDA(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
  // Priorities beyond the range are clamped.
  EXPECT_CUDA(cuStreamCreateWithPriority(&stream, 0, greatest - 100));
  EXPECT_CUDA(cuStreamDestroy(stream));
  EXPECT_EQ(cuStreamDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
  // Handles are looked up, never dereferenced.
  EXPECT_EQ(cuStreamQuery(reinterpret_cast<CUstream>(0x123456)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, EventsOrderStreams) {
  TestStream first, second;
  DeviceMemory value(4);
  value.Write<int>({0});
  CUevent event = nullptr;
  ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_CUDA(cuEventQuery(event));  // Never recorded counts as done.
  EXPECT_CUDA(cuEventSynchronize(event));
  EXPECT_CUDA(cuStreamWaitEvent(second, event, 0));
  Gate gate(Kernel("WaitFor"), first);
  ASSERT_CUDA(Launch(Kernel("Store"), 1, 1, 0, first, value.address(), 10));
  ASSERT_CUDA(cuEventRecord(event, first));
  ASSERT_CUDA(cuStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(Launch(Kernel("Increment"), 1, 1, 0, second, value.address()));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  // The wait keeps its record, although the event is destroyed.
  EXPECT_CUDA(cuEventDestroy(event));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  gate.Open();
  ASSERT_CUDA(cuStreamSynchronize(second));
  EXPECT_EQ(value.Read<int>(1)[0], 11);
}

TEST_F(StreamTest, AWaitHoldsToTheRecordThatWasThere) {
  TestStream first, second, third;
  CUevent event = nullptr;
  ASSERT_CUDA(cuEventCreate(&event, 0));
  ASSERT_CUDA(cuEventRecord(event, second));
  ASSERT_CUDA(cuStreamSynchronize(second));
  ASSERT_CUDA(cuStreamWaitEvent(third, event, 0));
  Gate gate(Kernel("WaitFor"), first);
  ASSERT_CUDA(cuEventRecord(event, first));  // After the wait, so without effect on it.
  EXPECT_CUDA(cuStreamSynchronize(third));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_CUDA(cuEventSynchronize(event));
  EXPECT_CUDA(cuEventDestroy(event));
}

TEST_F(StreamTest, ElapsedTimeNeedsTwoTimedRecords) {
  TestStream stream;
  CUevent start = nullptr, end = nullptr, untimed = nullptr;
  ASSERT_CUDA(cuEventCreate(&start, CU_EVENT_DEFAULT));
  ASSERT_CUDA(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
  ASSERT_CUDA(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_CUDA(cuEventRecord(start, stream));
  ASSERT_CUDA(cuEventRecord(untimed, stream));
  ASSERT_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  {
    Gate gate(Kernel("WaitFor"), stream);
    ASSERT_CUDA(cuEventRecord(end, stream));
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  }
  ASSERT_CUDA(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GT(milliseconds, 0);
  ASSERT_CUDA(cuEventElapsedTime(&milliseconds, end, start));
  EXPECT_LT(milliseconds, 0);
  CUevent refused = nullptr;
  EXPECT_EQ(cuEventCreate(&refused, 8), CUDA_ERROR_INVALID_VALUE);
  for (const CUevent event : {start, end, untimed}) EXPECT_CUDA(cuEventDestroy(event));
}

TEST_F(StreamTest, HandlesWorkWithoutACurrentContext) {
  TestStream stream;
  DeviceMemory value(4);
  CUevent event = nullptr;
  ASSERT_CUDA(cuEventCreate(&event, 0));
  const CUfunction store = Kernel("Store");
  std::thread([&] {
    EXPECT_CUDA(Launch(store, 1, 1, 0, stream, value.address(), 3));
    EXPECT_CUDA(cuEventRecord(event, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_CUDA(cuEventQuery(event));
    // The default streams belong to the current context; here it is null.
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(Launch(store, 1, 1, 0, nullptr, value.address(), 3), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT_CUDA(cuEventDestroy(event));
}

TEST_F(StreamTest, EventsOfAnotherDeviceMayBeWaitedFor) {
  int count = 0;
  ASSERT_CUDA(cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "one device";
  TestStream first;
  CUcontext other = nullptr;
  ASSERT_CUDA(cuDevicePrimaryCtxRetain(&other, 1));
  CUevent event = nullptr;
  ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  {
    Gate gate(Kernel("WaitFor"), first);
    ASSERT_CUDA(cuEventRecord(event, first));
    ASSERT_CUDA(cuCtxSetCurrent(other));
    TestStream second;
    ASSERT_CUDA(cuStreamWaitEvent(second, event, 0));
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventRecord(event, second), CUDA_ERROR_INVALID_HANDLE);
    gate.Open();
    EXPECT_CUDA(cuStreamSynchronize(second));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
  }
  EXPECT_CUDA(cuEventDestroy(event));
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(1));
}

}  // namespace
}  // namespace cuspan::softgpu
