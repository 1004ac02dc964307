// Guarantee of a completion: if an event, a stream or a device is reported as done, host memory has
// the bytes of every earlier copy to the host. This holds for every stream or device queried.
//
//   completions [MEBIBYTES]       size of each copy, default 16
#include <cstdio>
#include <cstring>

#include "check.h"

namespace {

__global__ void Fill(unsigned* values, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x)
    values[i] = seed + static_cast<unsigned>(i);
}

// Number of values different from Fill's with `seed`.
size_t Wrong(const unsigned* values, size_t count, unsigned seed) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != seed + static_cast<unsigned>(i)) ++wrong;
  return wrong;
}

// Ways to wait for the end of one stream's copy.
enum class Ask { kEvent, kPolledEvent, kOtherStream, kDevice, kOtherDevice, kLast = kOtherDevice };

void LearnOfTheEnd(Ask ask, cudaEvent_t copied, cudaStream_t other, cudaStream_t far,
                   int far_device) {
  switch (ask) {
    case Ask::kEvent:
      CHECK(cudaEventSynchronize(copied));
      break;
    case Ask::kPolledEvent:
      for (;;) {
        const cudaError_t state = cudaEventQuery(copied);
        if (state == cudaSuccess) break;
        if (state != cudaErrorNotReady) CHECK(state);
      }
      break;
    case Ask::kOtherStream:
      CHECK(cudaStreamWaitEvent(other, copied, 0));
      CHECK(cudaStreamSynchronize(other));
      break;
    case Ask::kDevice:
      CHECK(cudaDeviceSynchronize());
      break;
    case Ask::kOtherDevice:
      CHECK(cudaStreamWaitEvent(far, copied, 0));
      CHECK(cudaSetDevice(far_device));
      CHECK(cudaStreamSynchronize(far));
      break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto mebibytes = static_cast<size_t>(NumberArgument(argc, argv, 1, 16, 1, 4096));
  const size_t count = mebibytes * (1 << 20) / sizeof(unsigned);
  const size_t bytes = count * sizeof(unsigned);
  const int devices = DeviceCount();
  int failures = 0;
  unsigned* host = nullptr;
  CHECK(cudaMallocHost(&host, bytes));
  for (int device = 0; device < devices; ++device) {
    // The next device, cyclically.
    const int far_device = (device + 1) % devices;
    CHECK(cudaSetDevice(far_device));
    cudaStream_t far;
    CHECK(cudaStreamCreateWithFlags(&far, cudaStreamNonBlocking));
    CHECK(cudaSetDevice(device));
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t copied;
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    unsigned* values = nullptr;
    CHECK(cudaMalloc(&values, bytes));
    for (int way = 0; way <= static_cast<int>(Ask::kLast); ++way) {
      CHECK(cudaSetDevice(device));
      const unsigned seed = 1000u * static_cast<unsigned>(device) + static_cast<unsigned>(way) + 1;
      std::memset(host, 0, bytes);
      Fill<<<64, 256, 0, stream>>>(values, count, seed);
      CHECK_LAUNCH();
      CHECK(cudaMemcpyAsync(host, values, bytes, cudaMemcpyDeviceToHost, stream));
      CHECK(cudaEventRecord(copied, stream));
      LearnOfTheEnd(static_cast<Ask>(way), copied, other, far, far_device);
      const size_t wrong = Wrong(host, count, seed);
      EXPECT(wrong == 0, "device %d, way %d: %zu of %zu values are not there", device, way, wrong,
             count);
    }
    CHECK(cudaSetDevice(device));
    CHECK(cudaFree(values));
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaStreamDestroy(far));
  }
  CHECK(cudaFreeHost(host));
  std::printf("completions: copies of %zu MiB on %d %s: %s\n", mebibytes, devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
