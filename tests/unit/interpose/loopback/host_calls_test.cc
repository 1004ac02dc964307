// Host functions in the order of a stream.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// A host function with its data and results.
struct Call {
  std::function<void()> body;
  static void Run(void* call) { static_cast<Call*>(call)->body(); }
};

class HostCallsTest : public LoopbackTest {
 protected:
  static std::uint32_t* NewPinned(std::size_t words) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMallocHost(&memory, words * sizeof(std::uint32_t)));
    return static_cast<std::uint32_t*>(memory);
  }
};

TEST_F(HostCallsTest, RunBehindWhatIsBeforeThem) {
  std::uint32_t* const words = NewWords(1);
  std::uint32_t* const here = NewPinned(1);
  cudaStream_t stream = NewStream();
  std::uint32_t seen = 0;
  Call look{[&] { seen = *here; }};
  Hold(stream);
  ASSERT_CUDA(Add(words, 1, 8, stream));
  ASSERT_CUDA(cudaMemcpyAsync(here, words, 4, cudaMemcpyDeviceToHost, stream));
  ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &look));
  ASSERT_TRUE(WaitForWork(stream, "record"));
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(seen, 0U);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen, 8U);
  EXPECT_CUDA(cudaFreeHost(here));
}

TEST_F(HostCallsTest, TheStreamGoesOnWhenTheyHaveReturned) {
  std::uint32_t* const words = NewWords(2);
  cudaStream_t stream = NewStream();
  cudaStream_t other = NewStream();
  std::promise<void> called;
  std::promise<void> leave;
  Call wait{[&] {
    called.set_value();
    leave.get_future().wait();
  }};
  ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &wait));
  ASSERT_CUDA(Add(words, 1, 1, stream));
  called.get_future().wait();
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(ReadWord(words, other), 0U);
  ASSERT_CUDA(Add(words + 1, 1, 2, other));
  EXPECT_EQ(ReadWord(words + 1, other), 2U);
  leave.set_value();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(ReadWord(words, other), 1U);
}

TEST_F(HostCallsTest, AreInOrder) {
  cudaStream_t stream = NewStream();
  std::vector<int> order;
  std::vector<Call> calls;
  for (int i = 0; i < 50; ++i) calls.push_back({[&order, i] { order.push_back(i); }});
  for (Call& call : calls) ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &call));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(HostCallsTest, CopiesBehindThemTakeWhatTheyWrote) {
  cudaStream_t stream = NewStream();
  for (const std::size_t count : {1UL, 10'000UL}) {
    SCOPED_TRACE(count);
    std::uint32_t* const words = NewWords(count);
    std::uint32_t* const here = NewPinned(count);
    std::fill_n(here, count, 1);
    Call write{[&] { std::fill_n(here, count, 2); }};
    ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &write));
    ASSERT_CUDA(cudaMemcpyAsync(words, here, 4 * count, cudaMemcpyHostToDevice, stream));
    EXPECT_EQ(Read(words, count), std::vector<std::uint32_t>(count, 2));
    EXPECT_CUDA(cudaFreeHost(here));
  }
}

TEST_F(HostCallsTest, MayNotCallCuda) {
  cudaError_t results[3] = {};
  void* memory = nullptr;
  Call use{[&] {
    results[0] = cudaMalloc(&memory, 16);
    results[1] = cudaDeviceSynchronize();
    results[2] = cudaStreamSynchronize(nullptr);
  }};
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &use));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (const cudaError_t result : results) EXPECT_EQ(result, cudaErrorNotPermitted);
}

TEST_F(HostCallsTest, WaitForTheLegacyStreamAsOtherWorkDoes) {
  std::uint32_t* const words = NewWords(1);
  bool called = false;
  Call call{[&] { called = true; }};
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  ASSERT_CUDA(Add(words, 1, 1, blocking));
  ASSERT_CUDA(cudaLaunchHostFunc(nullptr, &Call::Run, &call));
  ASSERT_CUDA(Add(words, 1, 1, blocking));
  ASSERT_CUDA(cudaStreamSynchronize(blocking));
  EXPECT_TRUE(called);
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{2});
}

TEST_F(HostCallsTest, EventsBehindThemAreReachedAfterThem) {
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  std::promise<void> leave;
  Call wait{[&] { leave.get_future().wait(); }};
  ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &wait));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
  leave.set_value();
  EXPECT_CUDA(cudaEventSynchronize(event));
}

// Arguments received by a callback.
struct Called {
  std::atomic<int> times = 0;
  cudaStream_t stream = nullptr;
  cudaError_t status = cudaErrorUnknown;
  static void Back(cudaStream_t stream, cudaError_t status, void* data) {
    auto* const called = static_cast<Called*>(data);
    called->stream = stream;
    called->status = status;
    ++called->times;
  }
};

TEST_F(HostCallsTest, CallbacksGetTheStreamAndItsState) {
  Called called;
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaStreamAddCallback(stream, &Called::Back, &called, 0));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(called.times.load(), 1);
  EXPECT_EQ(called.stream, stream);
  EXPECT_EQ(called.status, cudaSuccess);
}

// After a fault of the device, callbacks are called with the error. Host functions are not called.
TEST_F(HostCallsTest, OnlyCallbacksHearOfAFault) {
  static Called called;  // May be called while the test ends.
  called.times = 0;
  bool ran = false;
  Call function{[&] { ran = true; }};
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(Launch("faults", stream));
  ASSERT_CUDA(cudaLaunchHostFunc(stream, &Call::Run, &function));
  ASSERT_CUDA(cudaStreamAddCallback(stream, &Called::Back, &called, 0));
  Let(stream);
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  ASSERT_CUDA(cudaDeviceReset());
  // Both come after the earlier ones on the thread of the callbacks.
  Called last;
  cudaStream_t after = NewStream();
  ASSERT_CUDA(cudaStreamAddCallback(after, &Called::Back, &last, 0));
  ASSERT_CUDA(cudaStreamSynchronize(after));
  EXPECT_FALSE(ran);
  EXPECT_EQ(called.times.load(), 1);
  EXPECT_NE(called.status, cudaSuccess);
}

TEST_F(HostCallsTest, WrongArgumentsAreRefused) {
  Called called;
  cudaStream_t stream = NewStream();
  EXPECT_CUDA_ERROR(cudaLaunchHostFunc(stream, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaStreamAddCallback(stream, nullptr, nullptr, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaStreamAddCallback(stream, &Called::Back, &called, 1),
                    cudaErrorInvalidValue);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(called.times.load(), 0);
}

}  // namespace
}  // namespace cuspan
