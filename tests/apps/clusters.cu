// Launches with attributes: clusters of blocks, if the device supports them, and events.
//
//   clusters
#include <vector>

#include "check.h"

namespace {

int failures = 0;
constexpr unsigned kBlocks = 8;

// Each block reports its cluster's number of blocks, and its own rank in it.
__global__ void Report(unsigned* sizes, unsigned* ranks) {
  unsigned size = 0, rank = 0;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  sizes[blockIdx.x] = size;
  ranks[blockIdx.x] = rank;
}
__global__ void AddTo(int* to, int what) { *to += what; }
__global__ void Nothing() {}
__global__ void __cluster_dims__(16, 1, 1) Compiled() {}
__global__ void __cluster_dims__(2, 1, 1) CompiledPair() {}

template <typename... Arguments>
cudaError_t Launch(const cudaLaunchConfig_t& config, void (*kernel)(Arguments...),
                   Arguments... arguments) {
  void* pointers[] = {&arguments...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
}

struct Reports {
  unsigned* sizes = nullptr;
  unsigned* ranks = nullptr;

  Reports() {
    CHECK(cudaMalloc(&sizes, kBlocks * sizeof *sizes));
    CHECK(cudaMalloc(&ranks, kBlocks * sizeof *ranks));
  }
  void Expect(unsigned cluster, const char* what) const {
    std::vector<unsigned> size(kBlocks), rank(kBlocks);
    CHECK(cudaMemcpy(size.data(), sizes, kBlocks * sizeof(unsigned), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(rank.data(), ranks, kBlocks * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < kBlocks; ++i) {
      EXPECT(size[i] == cluster && rank[i] == i % cluster, "%s: block %u has place %u of %u", what,
             i, rank[i], size[i]);
    }
  }
};

cudaLaunchConfig_t ConfigOf(cudaLaunchAttribute* attributes, unsigned count) {
  cudaLaunchConfig_t config{};
  config.gridDim = kBlocks;
  config.blockDim = 1;
  config.attrs = attributes;
  config.numAttrs = count;
  return config;
}

cudaLaunchAttribute ClusterOf(unsigned blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  return attribute;
}

void Clusters() {
  const Reports reports;
  cudaLaunchAttribute cluster = ClusterOf(1);
  CHECK(Launch(ConfigOf(&cluster, 1), Report, reports.sizes, reports.ranks));
  reports.Expect(1, "a cluster of one block");
  int has_clusters = 0;
  CHECK(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, 0));
  cluster = ClusterOf(4);
  if (has_clusters == 0) {
    EXPECT(Launch(ConfigOf(&cluster, 1), Report, reports.sizes, reports.ranks) ==
               cudaErrorNotSupported,
           "a device without clusters");
    static_cast<void>(cudaGetLastError());
    return;
  }
  CHECK(Launch(ConfigOf(&cluster, 1), Report, reports.sizes, reports.ranks));
  reports.Expect(4, "a cluster of four blocks");
  const auto* const kernel = reinterpret_cast<const void*>(Report);
  int value = 0;
  cudaLaunchConfig_t config = ConfigOf(&cluster, 1);
  CHECK(cudaOccupancyMaxActiveClusters(&value, kernel, &config));
  EXPECT(value > 0, "%d clusters at a time", value);
  config = ConfigOf(nullptr, 0);
  CHECK(cudaOccupancyMaxPotentialClusterSize(&value, kernel, &config));
  EXPECT(value == 8, "the largest cluster that is portable has %d blocks", value);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT(attributes.nonPortableClusterSizeAllowed == 1, "allowed: %d",
         attributes.nonPortableClusterSizeAllowed);
  cluster = ClusterOf(3);  // Eight blocks are no multiple.
  EXPECT(Launch(ConfigOf(&cluster, 1), Report, reports.sizes, reports.ranks) != cudaSuccess,
         "a grid that is no multiple of the cluster");
  static_cast<void>(cudaGetLastError());
  // The captured launch becomes a node of a graph.
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemset(reports.sizes, 0, kBlocks * sizeof(unsigned)));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cluster = ClusterOf(2);
  config = ConfigOf(&cluster, 1);
  config.stream = stream;
  CHECK(Launch(config, Report, reports.sizes, reports.ranks));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  reports.Expect(2, "a node with clusters of two blocks");
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
}

// Cluster sizes beyond the portable maximum need the function's permission. Sizes beyond this
// device's maximum are refused in any case, by the launch itself and not by a later call.
void TooLarge() {
  int has_clusters = 0;
  CHECK(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, 0));
  if (has_clusters == 0) return;
  const auto* const kernel = reinterpret_cast<const void*>(Nothing);
  const auto launch = [](unsigned blocks, unsigned grid, cudaStream_t stream) {
    cudaLaunchAttribute cluster = ClusterOf(blocks);
    cudaLaunchConfig_t config = ConfigOf(&cluster, 1);
    config.gridDim = grid;
    config.stream = stream;
    const cudaError_t error = Launch(config, Nothing);
    EXPECT(cudaGetLastError() == error, "the last error is not %d", error);
    return error;
  };
  const auto largest = [&](unsigned blocks, unsigned grid, int* value) {
    cudaLaunchAttribute cluster = ClusterOf(blocks);
    cudaLaunchConfig_t config = ConfigOf(&cluster, 1);
    config.gridDim = grid;
    return cudaOccupancyMaxPotentialClusterSize(value, kernel, &config);
  };
  int value = 0;
  for (const unsigned blocks : {9U, 16U, 32U}) {
    EXPECT(launch(blocks, 2 * blocks, nullptr) == cudaErrorInvalidClusterSize,
           "%u blocks in a cluster", blocks);
    EXPECT(largest(blocks, 2 * blocks, &value) == cudaErrorInvalidClusterSize,
           "the largest cluster, asked with one of %u", blocks);
  }
  EXPECT(largest(4, 6, &value) == cudaErrorInvalidClusterSize,
         "asked with a grid of one and a half");
  EXPECT(launch(4, 6, nullptr) == cudaErrorInvalidClusterSize, "a grid of one cluster and a half");
  EXPECT(launch(0, 4, nullptr) == cudaErrorInvalidClusterSize, "a cluster of no blocks");
  // No error is left for later calls.
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(launch(16, 32, stream) == cudaErrorInvalidClusterSize, "captured");
  cudaGraph_t graph = nullptr;
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated,
         "a capture outlives a launch that failed");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  CHECK(largest(1, 4, &value));
  EXPECT(value >= 8, "the largest cluster has %d blocks", value);
  CHECK(launch(static_cast<unsigned>(value), 2 * static_cast<unsigned>(value), nullptr));
  EXPECT(launch(2 * static_cast<unsigned>(value), 4 * static_cast<unsigned>(value), nullptr) ==
             cudaErrorInvalidClusterSize,
         "more blocks than the device takes");
  // Cluster sizes compiled into a kernel count too.
  Compiled<<<32, 32>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize,
         "a kernel compiled with sixteen blocks");
  CompiledPair<<<3, 32>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize,
         "a grid of one compiled pair and a half");
  CompiledPair<<<4, 32>>>();
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
}

// An event recorded by the launch itself. Another stream waits for it.
void Events() {
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  cudaStream_t first = nullptr, second = nullptr;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaDeviceSynchronize());
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticEvent;
  attributes[0].val.programmaticEvent.event = event;
  attributes[1].id = cudaLaunchAttributePriority;
  cudaLaunchConfig_t config = ConfigOf(attributes, 2);
  config.gridDim = 1;
  config.stream = first;
  CHECK(Launch(config, AddTo, sum, 1));
  CHECK(cudaStreamWaitEvent(second, event, 0));
  config = ConfigOf(nullptr, 0);
  config.gridDim = 1;
  config.stream = second;
  CHECK(Launch(config, AddTo, sum, 10));
  CHECK(cudaEventSynchronize(event));
  CHECK(cudaStreamSynchronize(second));
  int got = 0;
  CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 11, "%d", got);
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
}

}  // namespace

int main() {
  DeviceCount();
  Clusters();
  TooLarge();
  Events();
  std::printf("clusters: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
