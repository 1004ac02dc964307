// Stream-ordered memory, and pools: blocks are usable at once, and their contents are safe until
// the stream has passed their free. Also attributes, the program's own pools, and refusals of CUDA.
#include <vector>

#include "check.h"

namespace {

int failures = 0;

__global__ void Fill(int* data, int count, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = value + i;
}
__global__ void Add(int* to, const int* from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

constexpr int kCount = 40000;
constexpr int kBlocks = (kCount + 255) / 256;
constexpr std::size_t kBytes = kCount * sizeof(int);

// Temporary blocks in two streams, allocated, used and freed without a wait on the host.
void Temporaries(int rounds) {
  cudaStream_t streams[2];
  int* sums[2];
  for (int s = 0; s < 2; ++s) {
    CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    CHECK(cudaMallocAsync(&sums[s], kBytes, streams[s]));
    CHECK(cudaMemsetAsync(sums[s], 0, kBytes, streams[s]));
  }
  for (int round = 0; round < rounds; ++round)
    for (int s = 0; s < 2; ++s) {
      int* block = nullptr;
      CHECK(cudaMallocAsync(&block, kBytes, streams[s]));
      Fill<<<kBlocks, 256, 0, streams[s]>>>(block, kCount, round * (s + 1));
      Add<<<kBlocks, 256, 0, streams[s]>>>(sums[s], block, kCount);
      CHECK_LAUNCH();
      CHECK(cudaFreeAsync(block, streams[s]));
    }
  for (int s = 0; s < 2; ++s) {
    std::vector<int> result(kCount);
    CHECK(cudaMemcpyAsync(result.data(), sums[s], kBytes, cudaMemcpyDeviceToHost, streams[s]));
    CHECK(cudaFreeAsync(sums[s], streams[s]));
    CHECK(cudaStreamSynchronize(streams[s]));
    long wrong = 0;
    for (int i = 0; i < kCount; ++i)
      wrong += result[i] != rounds * i + (s + 1) * (rounds * (rounds - 1) / 2);
    EXPECT(wrong == 0, "%ld of the sums of stream %d are wrong", wrong, s);
    CHECK(cudaStreamDestroy(streams[s]));
  }
}

unsigned long long Number(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  unsigned long long value = 0;
  CHECK(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void OwnPool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  unsigned long long threshold = 1 << 20;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT(Number(pool, cudaMemPoolAttrReleaseThreshold) == threshold, "another threshold");
  int follow = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &follow));
  follow = 1;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &follow));
  EXPECT(follow == 0, "a switch did not stay");
  cudaMemLocation here{};
  here.type = cudaMemLocationTypeDevice;
  here.id = 0;
  cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
  CHECK(cudaMemPoolGetAccess(&access, pool, &here));
  EXPECT(access == cudaMemAccessFlagsProtReadWrite, "a device may not use its own pool");
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  int* block = nullptr;
  CHECK(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&block), kBytes, pool, stream));
  EXPECT(Number(pool, cudaMemPoolAttrUsedMemCurrent) >= kBytes, "less in use than was allocated");
  Fill<<<kBlocks, 256, 0, stream>>>(block, kCount, 3);
  CHECK_LAUNCH();
  std::vector<int> result(kCount);
  CHECK(cudaMemcpyAsync(result.data(), block, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(block, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(result[0] == 3 && result[kCount - 1] == kCount + 2, "%d %d", result[0],
         result[kCount - 1]);
  EXPECT(Number(pool, cudaMemPoolAttrUsedMemCurrent) == 0, "in use after the last free");
  EXPECT(Number(pool, cudaMemPoolAttrUsedMemHigh) >= kBytes, "no high-water mark");
  unsigned long long none = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &none));
  EXPECT(Number(pool, cudaMemPoolAttrUsedMemHigh) == 0, "the mark was not reset");
  CHECK(cudaMemPoolTrimTo(pool, 0));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaMemPoolDestroy(pool));
}

// A pool keeps memory for its next allocations, up to its threshold, until it is trimmed.
void KeptMemory() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  for (const unsigned long long threshold : {0ULL, ~0ULL}) {
    unsigned long long value = threshold;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    void* block = nullptr;
    CHECK(cudaMallocFromPoolAsync(&block, 1 << 20, pool, nullptr));
    EXPECT(Number(pool, cudaMemPoolAttrReservedMemCurrent) >= 1 << 20, "less than is in use");
    CHECK(cudaFreeAsync(block, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    const unsigned long long reserved = Number(pool, cudaMemPoolAttrReservedMemCurrent);
    EXPECT((reserved != 0) == (threshold != 0), "%llu reserved with threshold %llu", reserved,
           threshold);
    EXPECT(Number(pool, cudaMemPoolAttrReservedMemHigh) >= 1 << 20, "no high-water mark");
  }
  CHECK(cudaMemPoolTrimTo(pool, 0));
  EXPECT(Number(pool, cudaMemPoolAttrReservedMemCurrent) == 0, "reserved when trimmed");
  CHECK(cudaMemPoolDestroy(pool));
}

// Memory of cudaMalloc can be freed in stream order too.
void OtherMemory() {
  int* values = nullptr;
  CHECK(cudaMalloc(&values, kBytes));
  Fill<<<kBlocks, 256>>>(values, kCount, 7);
  CHECK_LAUNCH();
  std::vector<int> result(kCount);
  CHECK(cudaMemcpyAsync(result.data(), values, kBytes, cudaMemcpyDeviceToHost, nullptr));
  EXPECT(cudaFreeAsync(values + 1, nullptr) == cudaErrorInvalidValue, "the middle was freed");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaFreeAsync(values, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  EXPECT(result[0] == 7 && result[kCount - 1] == kCount + 6, "%d %d", result[0],
         result[kCount - 1]);
  CHECK(cudaMallocManaged(&values, kBytes));
  EXPECT(cudaFreeAsync(values, nullptr) == cudaErrorNotSupported, "managed memory");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaFree(values));
}

// The device's current pool is the default one until another is set.
void CurrentPool() {
  cudaMemPool_t first = nullptr, now = nullptr, other = nullptr;
  CHECK(cudaDeviceGetDefaultMemPool(&first, 0));
  CHECK(cudaDeviceGetMemPool(&now, 0));
  EXPECT(first != nullptr && now == first, "the default pool is not the current one");
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&other, &properties));
  CHECK(cudaDeviceSetMemPool(0, other));
  void* block = nullptr;
  CHECK(cudaMallocAsync(&block, 1000, nullptr));
  EXPECT(Number(other, cudaMemPoolAttrUsedMemCurrent) >= 1000, "the current pool is not used");
  // Memory from a pool may also be freed by cudaFree, after its last use. Then the number of bytes
  // in use is unreliable: a driver still counts them (seen on an H200 with driver 580), even after
  // synchronisations.
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(block));
  CHECK(cudaMallocAsync(&block, 1000, nullptr));
  CHECK(cudaFreeAsync(block, nullptr));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceSetMemPool(0, first));
  CHECK(cudaMemPoolDestroy(other));
  EXPECT(cudaMemPoolDestroy(first) == cudaErrorInvalidValue, "a default pool was destroyed");
  static_cast<void>(cudaGetLastError());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = static_cast<int>(NumberArgument(argc, argv, 1, 50, 1, 10000));
  DeviceCount();
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  EXPECT(supported == 1, "no memory pools");
  Temporaries(rounds);
  OwnPool();
  KeptMemory();
  OtherMemory();
  CurrentPool();
  std::printf("memory_pools: %d rounds: %s\n", rounds, Verdict(failures));
  return ExitStatus(failures);
}
