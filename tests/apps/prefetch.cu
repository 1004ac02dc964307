// Hints about managed memory: prefetching, advice, attachment to streams, and queries of them.
// Checks results, not speed.
#include <cstdio>

#include "check.h"

namespace {

constexpr int kCount = 300000;
constexpr unsigned kThreads = 256;

__global__ void Add(int* values, int count, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += add;
}

cudaMemLocation OnDevice(int device) { return {cudaMemLocationTypeDevice, device}; }
cudaMemLocation OnHost() { return {cudaMemLocationTypeHost, 0}; }

int CheckPrefetch(int devices) {
  int failures = 0;
  const size_t bytes = kCount * sizeof(int);
  int* values = nullptr;
  cudaStream_t stream;
  CHECK(cudaMallocManaged(&values, bytes));
  for (int i = 0; i < kCount; ++i) values[i] = i;
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemPrefetchAsync(values, bytes, OnDevice(device), 0, stream));
    Add<<<(kCount + kThreads - 1) / kThreads, kThreads, 0, stream>>>(values, kCount, 1);
    CHECK_LAUNCH();
    CHECK(cudaMemPrefetchAsync(values, bytes, OnHost(), 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += values[i] != i + device + 1;
    EXPECT(wrong == 0, "%d values are wrong after device %d", wrong, device);
  }
  CHECK(cudaSetDevice(0));
  int last = 77;
  CHECK(cudaMemRangeGetAttribute(&last, sizeof last, cudaMemRangeAttributeLastPrefetchLocation,
                                 values, bytes));
  EXPECT(last == cudaCpuDeviceId, "the last prefetch went to %d", last);
  int local = 0;
  cudaError_t result = cudaMemPrefetchAsync(&local, sizeof local, OnDevice(0), 0, nullptr);
  EXPECT(result == cudaErrorInvalidValue, "prefetching a local variable gives %s",
         cudaGetErrorName(result));
  result = cudaMemPrefetchAsync(values, bytes, OnDevice(999), 0, nullptr);
  EXPECT(result == cudaErrorInvalidDevice, "prefetching to device 999 gives %s",
         cudaGetErrorName(result));
  cudaGetLastError();
  CHECK(cudaFree(values));
  return failures;
}

int CheckAdvice() {
  int failures = 0;
  const size_t bytes = 8 << 20;
  char* memory = nullptr;
  CHECK(cudaMallocManaged(&memory, bytes));
  int read_mostly = 77;
  int preferred = 77;
  int accessed[2] = {77, 77};
  void* data[] = {&read_mostly, &preferred, accessed};
  size_t sizes[] = {sizeof read_mostly, sizeof preferred, sizeof accessed};
  cudaMemRangeAttribute attributes[] = {cudaMemRangeAttributeReadMostly,
                                        cudaMemRangeAttributePreferredLocation,
                                        cudaMemRangeAttributeAccessedBy};
  CHECK(cudaMemRangeGetAttributes(data, sizes, attributes, 3, memory, bytes));
  EXPECT(read_mostly == 0 && preferred == cudaInvalidDeviceId && accessed[0] == cudaInvalidDeviceId,
         "at first: %d, %d, %d", read_mostly, preferred, accessed[0]);
  CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetReadMostly, OnDevice(0)));
  CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, OnHost()));
  CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetAccessedBy, OnDevice(0)));
  CHECK(cudaMemRangeGetAttributes(data, sizes, attributes, 3, memory, bytes));
  EXPECT(read_mostly == 1 && preferred == cudaCpuDeviceId && accessed[0] == 0 &&
             accessed[1] == cudaInvalidDeviceId,
         "after advice: %d, %d, %d, %d", read_mostly, preferred, accessed[0], accessed[1]);
  CHECK(cudaMemAdvise(memory + bytes / 2, bytes / 2, cudaMemAdviseUnsetReadMostly, OnDevice(0)));
  CHECK(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly, cudaMemRangeAttributeReadMostly,
                                 memory, bytes));
  EXPECT(read_mostly == 0, "of two halves, one advised: %d", read_mostly);
  CHECK(cudaMemRangeGetAttribute(&read_mostly, sizeof read_mostly, cudaMemRangeAttributeReadMostly,
                                 memory, bytes / 2));
  EXPECT(read_mostly == 1, "of the half that is advised: %d", read_mostly);
  CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseUnsetPreferredLocation, OnDevice(0)));
  CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseUnsetAccessedBy, OnDevice(0)));
  const cudaError_t result =
      cudaMemAdvise(memory, bytes, static_cast<cudaMemoryAdvise>(99), OnDevice(0));
  EXPECT(result == cudaErrorInvalidValue, "advice 99 gives %s", cudaGetErrorName(result));
  cudaGetLastError();
  CHECK(cudaFree(memory));
  return failures;
}

// Memory of one stream, used by the host while kernels of another stream run.
int CheckAttachment() {
  int failures = 0;
  int* values = nullptr;
  int* other = nullptr;
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMallocManaged(&values, kCount * sizeof(int), cudaMemAttachHost));
  CHECK(cudaMallocManaged(&other, kCount * sizeof(int)));
  for (int i = 0; i < kCount; ++i) values[i] = other[i] = i;
  CHECK(cudaStreamAttachMemAsync(streams[0], values, 0, cudaMemAttachSingle));
  CHECK(cudaStreamAttachMemAsync(streams[1], other, 0, cudaMemAttachSingle));
  CHECK(cudaDeviceSynchronize());
  Add<<<(kCount + kThreads - 1) / kThreads, kThreads, 0, streams[0]>>>(values, kCount, 2);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(streams[0]));
  Add<<<(kCount + kThreads - 1) / kThreads, kThreads, 0, streams[1]>>>(other, kCount, 5);
  CHECK_LAUNCH();
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += values[i] != i + 2;
  for (int i = 0; i < kCount; ++i) values[i] = -i;
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) wrong += other[i] != i + 5;
  Add<<<(kCount + kThreads - 1) / kThreads, kThreads, 0, streams[0]>>>(values, kCount, 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamSynchronize(streams[0]));
  for (int i = 0; i < kCount; ++i) wrong += values[i] != 1 - i;
  EXPECT(wrong == 0, "%d values are wrong", wrong);
  const cudaError_t result = cudaStreamAttachMemAsync(streams[0], values + 1, 0, cudaMemAttachHost);
  EXPECT(result == cudaErrorInvalidValue, "attaching a part gives %s", cudaGetErrorName(result));
  cudaGetLastError();
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(values));
  CHECK(cudaFree(other));
  return failures;
}

}  // namespace

int main() {
  const int devices = DeviceCount();
  int failures = CheckPrefetch(devices);
  failures += CheckAdvice();
  failures += CheckAttachment();
  std::printf("prefetch: %d %s: %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
