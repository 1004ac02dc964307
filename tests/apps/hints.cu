// Hints to CUDA about streams and launches, without effect on results: access policy windows,
// synchronization policies, priorities, permission to begin early.
#include <cstdio>

#include "check.h"

namespace {

int failures = 0;

__global__ void Add(int* data, int what) { data[blockIdx.x * blockDim.x + threadIdx.x] += what; }

constexpr int kThreads = 64;

void StreamAttributes(int* data) {
  cudaStream_t one = nullptr, other = nullptr;
  CHECK(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, 0));
  CHECK(cudaStreamCreate(&other));
  cudaStreamAttrValue value{};
  value.syncPolicy = cudaSyncPolicyBlockingSync;
  CHECK(cudaStreamSetAttribute(one, cudaLaunchAttributeSynchronizationPolicy, &value));
  cudaStreamAttrValue window{};
  window.accessPolicyWindow.base_ptr = data;
  window.accessPolicyWindow.num_bytes = kThreads * sizeof(int);
  window.accessPolicyWindow.hitRatio = 0.5F;
  window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  // Not every device supports access policy windows.
  int most = 0;
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxAccessPolicyWindowSize, 0));
  if (most > 0) CHECK(cudaStreamSetAttribute(one, cudaLaunchAttributeAccessPolicyWindow, &window));
  CHECK(cudaStreamCopyAttributes(other, one));
  for (const cudaStream_t stream : {one, other}) {
    cudaStreamAttrValue got{};
    CHECK(cudaStreamGetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &got));
    EXPECT(got.syncPolicy == cudaSyncPolicyBlockingSync, "%d", static_cast<int>(got.syncPolicy));
    CHECK(cudaStreamGetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &got));
    EXPECT(most == 0 || got.accessPolicyWindow.base_ptr == data, "another window");
    Add<<<1, kThreads, 0, stream>>>(data, 1);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaCtxResetPersistingL2Cache());
  CHECK(cudaStreamDestroy(one));
  CHECK(cudaStreamDestroy(other));
}

void LaunchAttributes(int* data) {
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributePriority;
  attributes[0].val.priority = 0;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  attributes[2].id = cudaLaunchAttributeMemSyncDomain;
  attributes[2].val.memSyncDomain = cudaLaunchMemSyncDomainDefault;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 3;
  CHECK(cudaLaunchKernelEx(&config, Add, data, 10));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
  DeviceCount();
  int* data = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&data), kThreads * sizeof(int)));
  CHECK(cudaMemset(data, 0, kThreads * sizeof(int)));
  CHECK(cudaDeviceSynchronize());  // Some streams are non-blocking.
  StreamAttributes(data);
  LaunchAttributes(data);
  int values[kThreads] = {};
  CHECK(cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost));
  for (const int value : values) EXPECT(value == 12, "%d", value);
  CHECK(cudaFree(data));
  std::printf("hints: streams and launches: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
