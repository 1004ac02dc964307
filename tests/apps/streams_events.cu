// Streams and events: copies from pinned memory in several streams, polling, timing, and the order
// between the legacy default stream and other streams.
//
//   streams_events [STREAMS]
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kBlock = 128;
constexpr int kCount = 10000;
constexpr size_t kBytes = kCount * sizeof(unsigned);

// values = other * 3 + add, with additional work to take longer.
__global__ void Step(unsigned* values, const unsigned* other, int count, unsigned add, int work) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned value = other[i];
  // An LCG and its inverse: the value is unchanged, unknown to the compiler.
  for (int k = 0; k < work; ++k) value = value * 1664525u + 1013904223u;
  for (int k = 0; k < work; ++k) value = (value - 1013904223u) * 4276115653u;
  values[i] = value * 3u + add;
}

void LaunchStep(unsigned* values, const unsigned* other, unsigned add, int work,
                cudaStream_t stream) {
  Step<<<(kCount + kBlock - 1) / kBlock, kBlock, 0, stream>>>(values, other, kCount, add, work);
  CHECK_LAUNCH();
}

unsigned* DeviceArray() {
  unsigned* values = nullptr;
  CHECK(cudaMalloc(&values, kBytes));
  return values;
}

// Compares all values on the device with one expected value.
int ExpectAll(const unsigned* device_values, unsigned expected, const char* what) {
  std::vector<unsigned> got(kCount);
  CHECK(cudaMemcpy(got.data(), device_values, kBytes, cudaMemcpyDeviceToHost));
  int failures = 0;
  for (int i = 0; i < kCount && failures < 3; ++i) {
    EXPECT(got[i] == expected, "%s: value %d is %u, not %u", what, i, got[i], expected);
  }
  return failures;
}

// Copy in, kernel, copy out in each of several streams, all in flight together.
int SeveralStreams(int number_of_streams) {
  std::vector<cudaStream_t> streams(number_of_streams);
  std::vector<unsigned*> device(number_of_streams);
  unsigned* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, number_of_streams * kBytes));
  for (int s = 0; s < number_of_streams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&streams[s],
                                    s % 2 == 0 ? cudaStreamDefault : cudaStreamNonBlocking));
    device[s] = DeviceArray();
  }
  for (size_t i = 0; i < static_cast<size_t>(number_of_streams) * kCount; ++i) {
    pinned[i] = static_cast<unsigned>(i) * 7u;
  }
  for (int s = 0; s < number_of_streams; ++s) {
    unsigned* mine = pinned + static_cast<size_t>(s) * kCount;
    CHECK(cudaMemcpyAsync(device[s], mine, kBytes, cudaMemcpyHostToDevice, streams[s]));
    LaunchStep(device[s], device[s], s, 20, streams[s]);
    CHECK(cudaMemcpyAsync(mine, device[s], kBytes, cudaMemcpyDeviceToHost, streams[s]));
  }
  int failures = 0;
  for (int s = 0; s < number_of_streams; ++s) {
    // Half of them are polled, half waited for.
    if (s % 2 == 0) {
      CHECK(cudaStreamSynchronize(streams[s]));
    } else {
      cudaError_t state;
      while ((state = cudaStreamQuery(streams[s])) == cudaErrorNotReady) {
      }
      CHECK(state);
    }
    for (int i = 0; i < kCount && failures < 3; ++i) {
      const size_t index = static_cast<size_t>(s) * kCount + i;
      const unsigned expected = static_cast<unsigned>(index) * 21u + s;
      EXPECT(pinned[index] == expected, "stream %d, value %d is %u, not %u", s, i, pinned[index],
             expected);
    }
  }
  (void)cudaGetLastError();  // cudaErrorNotReady is no failure, but may be the last error
  for (int s = 0; s < number_of_streams; ++s) {
    CHECK(cudaFree(device[s]));
    CHECK(cudaStreamDestroy(streams[s]));
  }
  CHECK(cudaFreeHost(pinned));
  return failures;
}

// Times are positive and additive. Invalid requests are refused.
int Timing() {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t middle = nullptr;
  cudaEvent_t stop = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreateWithFlags(&middle, cudaEventBlockingSync));
  CHECK(cudaEventCreate(&stop));
  unsigned* values = DeviceArray();
  int failures = 0;
  float time = -1.0f;
  // An event never recorded is complete for queries, and has no time.
  CHECK(cudaEventQuery(start));
  CHECK(cudaEventSynchronize(start));
  EXPECT(cudaEventElapsedTime(&time, start, stop) == cudaErrorInvalidResourceHandle,
         "time between events never recorded");
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle, "and the last error");

  CHECK(cudaMemsetAsync(values, 0, kBytes, stream));
  LaunchStep(values, values, 0, 10, stream);  // loads the kernel before the clock runs
  CHECK(cudaEventRecord(start, stream));
  LaunchStep(values, values, 1, 100, stream);
  CHECK(cudaEventRecord(middle, stream));
  LaunchStep(values, values, 1, 100, stream);
  CHECK(cudaEventRecord(stop, stream));
  cudaError_t state;
  while ((state = cudaEventQuery(stop)) == cudaErrorNotReady) {
  }
  CHECK(state);
  (void)cudaGetLastError();
  CHECK(cudaEventSynchronize(middle));
  float first = 0.0f;
  float second = 0.0f;
  float both = 0.0f;
  float backwards = 0.0f;
  CHECK(cudaEventElapsedTime(&first, start, middle));
  CHECK(cudaEventElapsedTime(&second, middle, stop));
  CHECK(cudaEventElapsedTime(&both, start, stop));
  CHECK(cudaEventElapsedTime(&backwards, stop, start));
  EXPECT(first > 0.0f && second > 0.0f, "times %g ms and %g ms", first, second);
  EXPECT(both >= first && both >= second, "%g ms in all, but %g and %g", both, first, second);
  EXPECT(backwards < 0.0f, "from stop to start: %g ms", backwards);

  cudaEvent_t untimed = nullptr;
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  CHECK(cudaEventRecord(untimed, stream));
  CHECK(cudaEventSynchronize(untimed));
  EXPECT(cudaEventElapsedTime(&time, start, untimed) == cudaErrorInvalidResourceHandle,
         "time to an event without timing");
  (void)cudaGetLastError();

  failures += ExpectAll(values, 4, "timed steps");
  CHECK(cudaFree(values));
  for (const cudaEvent_t event : {start, middle, stop, untimed}) CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// The legacy default stream waits for all blocking streams, and they for it, implicitly.
int LegacyDefaultStream() {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  unsigned* a = DeviceArray();
  unsigned* b = DeviceArray();
  unsigned* c = DeviceArray();
  int failures = 0;
  for (unsigned round = 0; round < 5; ++round) {
    CHECK(cudaMemsetAsync(a, 0, kBytes, first));
    LaunchStep(a, a, round + 1, 200, first);    // a = round + 1, slowly
    LaunchStep(b, a, 2, 50, nullptr);           // b = 3a + 2, in the default stream
    LaunchStep(c, b, 3, 0, second);             // c = 3b + 3, in another blocking stream
    LaunchStep(a, c, 4, 50, cudaStreamLegacy);  // a = 3c + 4, by the default stream's other name
    const unsigned expected_c = 3 * (3 * (round + 1) + 2) + 3;
    failures += ExpectAll(c, expected_c, "after the default stream");
    failures += ExpectAll(a, 3 * expected_c + 4, "in the default stream");
  }
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
  return failures;
}

// A non-blocking stream is ordered with the default stream only by events.
int NonBlockingStream() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  unsigned flags = 0;
  int failures = 0;
  CHECK(cudaStreamGetFlags(stream, &flags));
  EXPECT(flags == cudaStreamNonBlocking, "the stream's flags are %u", flags);
  unsigned* a = DeviceArray();
  unsigned* b = DeviceArray();
  CHECK(cudaMemset(a, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  for (unsigned round = 0; round < 5; ++round) {
    LaunchStep(a, a, round, 200, stream);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(nullptr, event, 0));
    LaunchStep(b, a, 1, 0, nullptr);
    CHECK(cudaEventRecord(event));  // in the default stream now
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    LaunchStep(a, b, 2, 50, stream);
  }
  CHECK(cudaStreamSynchronize(stream));
  unsigned expected = 0;
  for (unsigned round = 0; round < 5; ++round) {
    expected = 3 * (3 * (3 * expected + round) + 1) + 2;
  }
  failures += ExpectAll(a, expected, "non-blocking stream");
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

// A wait is for the latest record at the time of the call. Later records do not matter.
int WaitTakesTheLastRecord() {
  cudaStream_t producer = nullptr;
  cudaStream_t consumer = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  unsigned* values = DeviceArray();
  unsigned* copy = DeviceArray();
  CHECK(cudaMemset(values, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamWaitEvent(consumer, event, 0));  // never recorded: no wait
  LaunchStep(values, values, 1, 200, producer);
  CHECK(cudaEventRecord(event, producer));
  CHECK(cudaStreamWaitEvent(consumer, event, 0));
  LaunchStep(copy, values, 1, 0, consumer);  // 3 * 1 + 1
  CHECK(cudaEventRecord(event, consumer));   // the same event again, in the other stream
  CHECK(cudaStreamWaitEvent(producer, event, 0));
  LaunchStep(values, copy, 5, 0, producer);  // 3 * 4 + 5
  // A stream may be destroyed with pending work: the work still completes.
  CHECK(cudaStreamDestroy(consumer));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamSynchronize(producer));
  int failures = ExpectAll(copy, 4, "the consumer's copy");
  failures += ExpectAll(values, 17, "the producer's values");
  CHECK(cudaStreamDestroy(producer));
  CHECK(cudaFree(values));
  CHECK(cudaFree(copy));
  return failures;
}

// Streams with priorities, and many small launches in one stream.
int ManyLaunches() {
  int least = 0;
  int greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  unsigned* values = nullptr;
  CHECK(cudaMalloc(&values, kBlock * sizeof(unsigned)));
  CHECK(cudaMemsetAsync(values, 0, kBlock * sizeof(unsigned), stream));
  constexpr int kLaunches = 3000;
  unsigned expected = 0;
  for (int launch = 0; launch < kLaunches; ++launch) {
    Step<<<1, kBlock, 0, stream>>>(values, values, kBlock, launch, 0);
    CHECK_LAUNCH();
    expected = expected * 3u + launch;
  }
  std::vector<unsigned> got(kBlock);
  CHECK(cudaMemcpyAsync(got.data(), values, kBlock * sizeof(unsigned), cudaMemcpyDeviceToHost,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
  int failures = 0;
  for (unsigned i = 0; i < kBlock && failures < 3; ++i) {
    EXPECT(got[i] == expected, "after %d launches value %u is %u", kLaunches, i, got[i]);
  }
  CHECK(cudaFree(values));
  CHECK(cudaStreamDestroy(stream));
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = static_cast<int>(NumberArgument(argc, argv, 1, 6, 1, 128));
  int failures = SeveralStreams(streams);
  failures += Timing();
  failures += LegacyDefaultStream();
  failures += NonBlockingStream();
  failures += WaitTakesTheLastRecord();
  failures += ManyLaunches();
  std::printf("streams_events: %d streams, polling, timing, default stream: %s\n", streams,
              Verdict(failures));
  return ExitStatus(failures);
}
