// Stream capture.
#include <future>
#include <thread>

#include "interpose/calls/graph/capture.h"
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class CaptureTest : public LoopbackTest {
 protected:
  static void Begin(cudaStream_t stream,
                    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  }
  // Ends the capture and instantiates its graph.
  static cudaGraphExec_t End(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_CUDA(cudaGraphDestroy(graph));
    return exec;
  }
  // Ends a capture with an error.
  static void ExpectEnd(cudaStream_t stream, cudaError_t error) {
    cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), error);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }
  static cudaStreamCaptureStatus StatusOf(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
    return status;
  }
};

// A launch without a kernel is not part of the capture. The capture continues.
TEST_F(CaptureTest, KernelsThatAreNotThereLeaveIt) {
  cudaStream_t stream = NewStream();
  int none = 0;
  std::uint32_t* const words = NewWords(1);
  Begin(stream);
  EXPECT_NE(cudaLaunchKernel(&none, 1, 1, nullptr, 0, stream), cudaSuccess);
  EXPECT_NE(cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, stream), cudaSuccess);
  ASSERT_CUDA(Add(words, 1, 1, stream));
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  cudaGraphExec_t exec = End(stream);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(Read(words, 1).front(), 1U);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

// A launch of no graph counts as work unsupported in a capture.
TEST_F(CaptureTest, LaunchesOfNoGraphEndIt) {
  cudaStream_t stream = NewStream();
  EXPECT_CUDA_ERROR(cudaGraphLaunch(nullptr, stream), cudaErrorInvalidValue);
  Begin(stream);
  EXPECT_CUDA_ERROR(cudaGraphLaunch(nullptr, stream), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
  Begin(stream);
  EXPECT_CUDA_ERROR(cudaGraphUpload(nullptr, stream), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, AWaitForNoEventEndsIt) {
  cudaStream_t stream = NewStream();
  Begin(stream);
  EXPECT_CUDA_ERROR(cudaEventRecord(nullptr, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  EXPECT_CUDA_ERROR(cudaStreamWaitEvent(stream, nullptr, 0), cudaErrorInvalidResourceHandle);
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, WorkIsDoneByLaunchesAndNotBefore) {
  cudaStream_t stream = NewStream();
  std::uint32_t* const words = NewWords(1000);
  std::uint32_t* const copy = NewWords(1000);
  void* here = nullptr;
  ASSERT_CUDA(cudaMallocHost(&here, 4000));
  Begin(stream);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  ASSERT_CUDA(Add(words, 1000, 5, stream));
  ASSERT_CUDA(cudaMemcpyAsync(copy, words, 4000, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaMemsetAsync(copy, 0, 2000, stream));
  ASSERT_CUDA(cudaMemcpyAsync(here, copy, 4000, cudaMemcpyDeviceToHost, stream));
  cudaGraphExec_t exec = End(stream);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusNone);
  EXPECT_EQ(Read(words, 1000), std::vector<std::uint32_t>(1000));
  for (std::uint32_t launch = 1; launch <= 3; ++launch) {
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    std::vector<std::uint32_t> expected(1000, 5 * launch);
    std::fill_n(expected.begin(), 500, 0);
    EXPECT_EQ(std::memcmp(here, expected.data(), 4000), 0);
  }
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaFreeHost(here));
}

TEST_F(CaptureTest, HostMemoryIsReadAtEachLaunch) {
  cudaStream_t stream = NewStream();
  std::uint32_t* const words = NewWords(5000);
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocHost(&memory, 20'000));
  auto* const here = static_cast<std::uint32_t*>(memory);
  Begin(stream);
  ASSERT_CUDA(cudaMemcpyAsync(words, here, 20'000, cudaMemcpyHostToDevice, stream));
  cudaGraphExec_t exec = End(stream);
  for (const std::uint32_t value : {3U, 4U}) {
    std::fill_n(here, 5000, value);
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    EXPECT_EQ(Read(words, 5000), std::vector<std::uint32_t>(5000, value));
  }
  EXPECT_CUDA(cudaFreeHost(memory));
}

TEST_F(CaptureTest, StreamsJoinByEvents) {
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t fork = NewEvent(cudaEventDisableTiming);
  cudaEvent_t join = NewEvent(cudaEventDisableTiming);
  std::uint32_t* const words = NewWords(1);
  Begin(first);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, first));
  ASSERT_CUDA(cudaEventRecord(fork, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusActive);
  ASSERT_CUDA(Add(words, 1, 1, second));
  ASSERT_CUDA(cudaEventRecord(join, second));
  ASSERT_CUDA(cudaStreamWaitEvent(first, join, 0));
  ASSERT_CUDA(Add(words, 1, 1, first));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(first, &graph));
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusNone);
  std::size_t nodes = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3U);
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec, first));
  EXPECT_EQ(Read(words, 1).front(), 0x01010103U);
}

TEST_F(CaptureTest, ForkedStreamsMustJoin) {
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t fork = NewEvent();
  Begin(first);
  ASSERT_CUDA(cudaEventRecord(fork, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, fork, 0));
  ASSERT_CUDA(Launch("nothing", second));
  ExpectEnd(first, cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusNone);
  EXPECT_CUDA(cudaStreamSynchronize(second));
}

TEST_F(CaptureTest, EndsInTheStreamThatItBeganIn) {
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t fork = NewEvent();
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA_ERROR(cudaStreamEndCapture(first, &graph), cudaErrorIllegalState);
  Begin(first);
  ASSERT_CUDA(cudaEventRecord(fork, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, fork, 0));
  EXPECT_CUDA_ERROR(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_NE(cudaStreamEndCapture(first, &graph), cudaSuccess);
}

TEST_F(CaptureTest, EndsInTheThreadThatItBeganIn) {
  cudaStream_t stream = NewStream();
  Begin(stream, cudaStreamCaptureModeGlobal);
  std::async(std::launch::async, [&] {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
  }).get();
  EXPECT_CUDA(cudaGraphExecDestroy(End(stream)));
  // Exception: a relaxed capture.
  Begin(stream, cudaStreamCaptureModeRelaxed);
  std::async(std::launch::async, [&] { EXPECT_CUDA(cudaGraphExecDestroy(End(stream))); }).get();
}

TEST_F(CaptureTest, BeginsOnceAndNotInTheLegacyStream) {
  cudaStream_t stream = NewStream();
  EXPECT_CUDA_ERROR(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
                    cudaErrorStreamCaptureUnsupported);
  EXPECT_CUDA_ERROR(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(3)),
                    cudaErrorInvalidValue);
  Begin(stream);
  EXPECT_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                    cudaErrorIllegalState);
}

TEST_F(CaptureTest, TheThreadsOwnStreamCaptures) {
  std::uint32_t* const words = NewWords(1);
  Begin(cudaStreamPerThread);
  ASSERT_CUDA(Add(words, 1, 2, cudaStreamPerThread));
  cudaGraphExec_t exec = End(cudaStreamPerThread);
  ASSERT_CUDA(cudaGraphLaunch(exec, cudaStreamPerThread));
  EXPECT_EQ(Read(words, 1).front(), 2U);
}

// Captured work does not run, so a wait for it invalidates the capture.
TEST_F(CaptureTest, WaitingEndsIt) {
  cudaEvent_t event = NewEvent();
  const std::function<cudaError_t(cudaStream_t)> waits[] = {
      [](cudaStream_t stream) { return cudaStreamSynchronize(stream); },
      [](cudaStream_t stream) { return cudaStreamQuery(stream); },
      [](cudaStream_t) { return cudaDeviceSynchronize(); },
  };
  for (const auto& wait : waits) {
    cudaStream_t stream = NewStream();
    Begin(stream);
    ASSERT_CUDA(Launch("nothing", stream));
    EXPECT_CUDA_ERROR(wait(stream), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusInvalidated);
    EXPECT_CUDA_ERROR(Launch("nothing", stream), cudaErrorStreamCaptureInvalidated);
    ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
    EXPECT_CUDA(Launch("nothing", stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
  }
  cudaStream_t stream = NewStream();
  Begin(stream);
  ASSERT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorCapturedEvent);
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, TheLegacyStreamWouldWaitForIt) {
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  std::uint32_t* const words = NewWords(1);
  std::uint32_t word = 0;
  Begin(blocking, cudaStreamCaptureModeGlobal);
  EXPECT_CUDA_ERROR(Add(words, 1, 1, nullptr), cudaErrorStreamCaptureImplicit);
  ExpectEnd(blocking, cudaErrorStreamCaptureInvalidated);
  Begin(blocking, cudaStreamCaptureModeGlobal);
  EXPECT_CUDA_ERROR(cudaMemcpy(&word, words, 4, cudaMemcpyDeviceToHost),
                    cudaErrorStreamCaptureImplicit);
  ExpectEnd(blocking, cudaErrorStreamCaptureInvalidated);
  // It does not wait for a non-blocking stream.
  cudaStream_t free = NewStream(cudaStreamNonBlocking);
  Begin(free);
  EXPECT_CUDA(Add(words, 1, 1, nullptr));
  EXPECT_CUDA(cudaGraphExecDestroy(End(free)));
  EXPECT_EQ(Read(words, 1).front(), 1U);
}

// The capture's mode and the thread's own mode decide.
TEST_F(CaptureTest, UnsafeCallsAreRefused) {
  void* memory = nullptr;
  void* more = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, 16));
  cudaStream_t stream = NewStream();
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    Begin(stream, mode);
    EXPECT_CUDA_ERROR(cudaMalloc(&more, 16), cudaErrorStreamCaptureUnsupported);
    ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
    Begin(stream, mode);
    EXPECT_CUDA_ERROR(cudaFree(memory), cudaErrorStreamCaptureUnsupported);
    ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
    Begin(stream, mode);
    EXPECT_CUDA_ERROR(cudaFree(nullptr), cudaErrorStreamCaptureUnsupported);
    ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
  }
  Begin(stream, cudaStreamCaptureModeRelaxed);
  EXPECT_CUDA(cudaMalloc(&more, 16));
  EXPECT_CUDA(cudaFree(more));
  EXPECT_CUDA(cudaGraphExecDestroy(End(stream)));
  Begin(stream, cudaStreamCaptureModeGlobal);
  auto own = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&own));
  EXPECT_CUDA(cudaFree(memory));
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&own));
  EXPECT_CUDA(cudaGraphExecDestroy(End(stream)));
}

// The same in the thread's own default stream, a blocking stream for the legacy stream.
TEST_F(CaptureTest, WhatIsRefusedIsSoInTheThreadsOwnStream) {
  void* memory = nullptr;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    Begin(cudaStreamPerThread, mode);
    EXPECT_CUDA_ERROR(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    ExpectEnd(cudaStreamPerThread, cudaErrorStreamCaptureInvalidated);
    Begin(cudaStreamPerThread, mode);
    EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    ExpectEnd(cudaStreamPerThread, cudaErrorStreamCaptureInvalidated);
    Begin(cudaStreamPerThread, mode);
    EXPECT_CUDA_ERROR(Launch("nothing", nullptr), cudaErrorStreamCaptureImplicit);
    ExpectEnd(cudaStreamPerThread, cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(CaptureTest, EndsWithItsDevice) {
  for (const bool own : {true, false}) {
    cudaStream_t stream = own ? cudaStreamPerThread : NewStream();
    Begin(stream, cudaStreamCaptureModeGlobal);
    ASSERT_CUDA(Launch("nothing", stream));
    ASSERT_CUDA(cudaDeviceReset());
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, 16));
    EXPECT_CUDA(cudaFree(memory));
    EXPECT_FALSE(AnyCapture());
  }
}

TEST_F(CaptureTest, OnlyGlobalCapturesConcernOtherThreads) {
  cudaStream_t stream = NewStream();
  void* memory = nullptr;
  Begin(stream, cudaStreamCaptureModeThreadLocal);
  std::thread([&] { EXPECT_CUDA(cudaMalloc(&memory, 16)); }).join();
  EXPECT_CUDA(cudaGraphExecDestroy(End(stream)));
  Begin(stream, cudaStreamCaptureModeGlobal);
  std::thread([&] {
    auto mode = cudaStreamCaptureModeThreadLocal;
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_CUDA(cudaFree(memory));
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_CUDA_ERROR(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  }).join();
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, OtherStreamsGoOn) {
  cudaStream_t capturing = NewStream();
  cudaStream_t other = NewStream();
  cudaEvent_t event = NewEvent();
  std::uint32_t* const words = NewWords(1);
  Begin(capturing);
  ASSERT_CUDA(Add(words, 1, 1, other));
  ASSERT_CUDA(cudaEventRecord(event, other));
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(ReadWord(words, other), 1U);
  EXPECT_CUDA(cudaGraphExecDestroy(End(capturing)));
}

TEST_F(CaptureTest, WhatIsOutsideCanNotBeWaitedFor) {
  cudaStream_t capturing = NewStream();
  cudaStream_t other = NewStream();
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaEventRecord(event, other));
  Begin(capturing);
  EXPECT_CUDA_ERROR(cudaStreamWaitEvent(capturing, event, 0), cudaErrorStreamCaptureIsolation);
  ExpectEnd(capturing, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, TwoCapturesCanNotBecomeOne) {
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t event = NewEvent();
  Begin(first);
  Begin(second);
  ASSERT_CUDA(cudaEventRecord(event, first));
  EXPECT_CUDA_ERROR(cudaStreamWaitEvent(second, event, 0), cudaErrorStreamCaptureMerge);
  ExpectEnd(first, cudaErrorStreamCaptureInvalidated);
  ExpectEnd(second, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, TellsOfItself) {
  cudaStream_t stream = NewStream();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 99;
  EXPECT_CUDA(
      cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  Begin(stream);
  EXPECT_CUDA(
      cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, nullptr, &count));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(count, 0U);
  ASSERT_CUDA(Launch("nothing", stream));
  EXPECT_CUDA(
      cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, nullptr, &count));
  ASSERT_EQ(count, 1U);
  cudaGraphNodeType type{};
  EXPECT_CUDA(cudaGraphNodeGetType(dependencies[0], &type));
  EXPECT_EQ(type, cudaGraphNodeTypeKernel);
  cudaGraph_t ended = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &ended));
  EXPECT_EQ(ended, graph);
}

TEST_F(CaptureTest, HostFunctionsAreCapturedAndCallbacksEndIt) {
  cudaStream_t stream = NewStream();
  int calls = 0;
  const cudaHostFn_t count = [](void* number) { ++*static_cast<int*>(number); };
  Begin(stream);
  ASSERT_CUDA(cudaLaunchHostFunc(stream, count, &calls));
  cudaGraphExec_t exec = End(stream);
  EXPECT_EQ(calls, 0);
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(calls, 2);
  Begin(stream);
  EXPECT_CUDA_ERROR(cudaStreamAddCallback(
                        stream, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0),
                    cudaErrorStreamCaptureUnsupported);
  ExpectEnd(stream, cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace cuspan
