// Reductions, counts, scans and histograms with warp collectives and atomics.
//
//   reduction [ELEMENTS]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kFullMask = 0xffffffffu;
constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kBins = 256;

template <typename T>
__device__ T WarpSum(T value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kFullMask, value, offset);
  }
  return value;  // of the whole warp, in lane 0
}

// The sum over the block, in thread 0.
template <typename T>
__device__ T BlockSum(T value) {
  __shared__ T warp_sums[kThreads / kWarp];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  value = WarpSum(value);
  if (lane == 0) warp_sums[warp] = value;
  __syncthreads();
  if (warp == 0) value = WarpSum(lane < kThreads / kWarp ? warp_sums[lane] : T{});
  return value;
}

// Sums with a grid-stride loop; one atomic addition per block.
__global__ void Sum(const unsigned* in, size_t count, unsigned long long* sum, float* float_sum) {
  unsigned long long mine = 0;
  float my_float = 0.0f;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    mine += in[i];
    my_float += static_cast<float>(in[i] % 1000) * 0.001f;
  }
  mine = BlockSum(mine);
  my_float = BlockSum(my_float);
  if (threadIdx.x == 0) {
    atomicAdd(sum, mine);
    atomicAdd(float_sum, my_float);
  }
}

// Sums in one launch without atomics on the sum: the last block adds the values of the others from
// `partial`. `finished` must be 0 and is 0 again afterwards.
__global__ void SumByLastBlock(const unsigned* in, size_t count, unsigned long long* partial,
                               unsigned* finished, unsigned long long* sum) {
  __shared__ bool is_last;
  unsigned long long mine = 0;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    mine += in[i];
  }
  mine = BlockSum(mine);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const volatile unsigned long long* others = partial;
  mine = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) mine += others[block];
  mine = BlockSum(mine);
  if (threadIdx.x == 0) *sum = mine;
}

struct Extremes {
  unsigned smallest;
  unsigned largest;
  double smallest_double;
  unsigned all_bits_or;
  unsigned all_bits_and;
  unsigned all_bits_xor;
};

// Stores the smaller of the two in *target: compare-and-swap on the bits, because CUDA has no
// atomicMin for double.
__device__ void AtomicMinDouble(double* target, double value) {
  auto* bits = reinterpret_cast<unsigned long long*>(target);
  unsigned long long seen = *bits;
  while (value < __longlong_as_double(static_cast<long long>(seen))) {
    const unsigned long long expected = seen;
    seen = atomicCAS(bits, expected, static_cast<unsigned long long>(__double_as_longlong(value)));
    if (seen == expected) break;
  }
}

// Extremes and bit operations: a butterfly of shuffles in each warp, then atomics of one lane.
__global__ void FindExtremes(const unsigned* in, size_t count, Extremes* result) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  const unsigned value = in[min(i, count - 1)];
  unsigned smallest = value;
  unsigned largest = value;
  unsigned bits_or = value;
  unsigned bits_and = value;
  unsigned bits_xor = i < count ? value : 0;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    smallest = min(smallest, __shfl_xor_sync(kFullMask, smallest, offset));
    largest = max(largest, __shfl_xor_sync(kFullMask, largest, offset));
    bits_or |= __shfl_xor_sync(kFullMask, bits_or, offset);
    bits_and &= __shfl_xor_sync(kFullMask, bits_and, offset);
    bits_xor ^= __shfl_xor_sync(kFullMask, bits_xor, offset);
  }
  if (threadIdx.x % kWarp == 0) {
    atomicMin(&result->smallest, smallest);
    atomicMax(&result->largest, largest);
    AtomicMinDouble(&result->smallest_double, static_cast<double>(smallest) * 0.5);
    atomicOr(&result->all_bits_or, bits_or);
    atomicAnd(&result->all_bits_and, bits_and);
    atomicXor(&result->all_bits_xor, bits_xor);
  }
}

struct Counts {
  unsigned odd;           // by __ballot_sync and __popc
  unsigned warps_with;    // warps with a multiple of 97
  unsigned warps_all;     // warps without a multiple of 97
  unsigned odd_by_block;  // by __syncthreads_count
};

__global__ void Count(const unsigned* in, size_t count, Counts* counts) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  const bool inside = i < count;
  const unsigned value = inside ? in[i] : 0;
  const bool odd = value % 2 == 1;
  const unsigned odd_lanes = __ballot_sync(kFullMask, odd);
  const bool multiple = inside && value % 97 == 0;
  const bool some = __any_sync(kFullMask, multiple);
  const bool none = __all_sync(kFullMask, !multiple);
  const int block_odd = __syncthreads_count(odd);
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&counts->odd, __popc(odd_lanes));
    if (some) atomicAdd(&counts->warps_with, 1u);
    if (none) atomicAdd(&counts->warps_all, 1u);
  }
  if (threadIdx.x == 0) atomicAdd(&counts->odd_by_block, static_cast<unsigned>(block_odd));
}

// Keeps the odd values, in any order. One atomic addition per warp reserves room for its lanes.
__global__ void Compact(const unsigned* in, size_t count, unsigned* out, unsigned* kept) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i >= count || in[i] % 2 == 0) return;
  // Lanes still active, possibly any subset of the warp.
  const unsigned active = __activemask();
  const int leader = __ffs(active) - 1;
  const int lane = threadIdx.x % kWarp;
  unsigned base = 0;
  if (lane == leader) base = atomicAdd(kept, __popc(active));
  base = __shfl_sync(active, base, leader);
  out[base + __popc(active & ((1u << lane) - 1))] = in[i];
}

// A histogram of the low byte: atomics in shared memory, then one per bin in global memory.
__global__ void Histogram(const unsigned* in, size_t count, unsigned* bins) {
  __shared__ unsigned block_bins[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) block_bins[bin] = 0;
  __syncthreads();
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    atomicAdd(&block_bins[in[i] % kBins], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x)
    atomicAdd(&bins[bin], block_bins[bin]);
}

// Inclusive sums within each block, by __shfl_up_sync.
__global__ void BlockScan(const unsigned* in, size_t count, unsigned* out) {
  __shared__ unsigned warp_totals[kThreads / kWarp];
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  unsigned value = i < count ? in[i] : 0;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const unsigned below = __shfl_up_sync(kFullMask, value, offset);
    if (lane >= offset) value += below;
  }
  if (lane == kWarp - 1) warp_totals[warp] = value;
  __syncthreads();
  for (int earlier = 0; earlier < warp; ++earlier) value += warp_totals[earlier];
  if (i < count) out[i] = value;
}

// Sums groups of 8 lanes by shuffles of width 8. Every lane of a group gets the sum.
__global__ void GroupSums(const unsigned* in, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = in[i];
  for (int offset = 4; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kFullMask, value, offset, 8);
  }
  out[i] = __shfl_sync(kFullMask, value, 0, 8);
}

// A device copy of a host vector, or zeroed memory; freed at the end of its scope.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    CHECK(cudaMalloc(&data_, count * sizeof(T)));
    CHECK(cudaMemset(data_, 0, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& host) : count_(host.size()) {
    CHECK(cudaMalloc(&data_, count_ * sizeof(T)));
    CHECK(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { CHECK(cudaFree(data_)); }

  T* get() { return data_; }
  std::vector<T> Fetch() const {
    std::vector<T> host(count_);
    CHECK(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

int CheckSums(const std::vector<unsigned>& in, DeviceArray<unsigned>& device_in, unsigned blocks) {
  unsigned long long expected = 0;
  double expected_float = 0.0;
  for (const unsigned value : in) {
    expected += value;
    expected_float += (value % 1000) * 0.001;
  }
  const unsigned stride_blocks = std::min(blocks, 64u);
  DeviceArray<unsigned long long> sum(2);
  DeviceArray<float> float_sum(1);
  Sum<<<stride_blocks, kThreads>>>(device_in.get(), in.size(), sum.get(), float_sum.get());
  CHECK_LAUNCH();
  DeviceArray<unsigned long long> partial(stride_blocks);
  DeviceArray<unsigned> finished(1);
  SumByLastBlock<<<stride_blocks, kThreads>>>(device_in.get(), in.size(), partial.get(),
                                              finished.get(), sum.get() + 1);
  CHECK_LAUNCH();

  int failures = 0;
  const std::vector<unsigned long long> sums = sum.Fetch();
  EXPECT(sums[0] == expected, "the sum is %llu, not %llu", sums[0], expected);
  EXPECT(sums[1] == expected, "the last block's sum is %llu, not %llu", sums[1], expected);
  EXPECT(finished.Fetch()[0] == 0, "the counter of atomicInc did not wrap");
  const double got = float_sum.Fetch()[0];
  EXPECT(std::fabs(got - expected_float) <= 1e-4 * expected_float + 1e-6,
         "the sum in float is %g, not %g", got, expected_float);
  return failures;
}

int CheckExtremes(const std::vector<unsigned>& in, DeviceArray<unsigned>& device_in,
                  unsigned blocks) {
  constexpr unsigned kLargest = std::numeric_limits<unsigned>::max();
  Extremes expected = {kLargest, 0, 0.0, 0, kLargest, 0};
  for (const unsigned value : in) {
    expected.smallest = std::min(expected.smallest, value);
    expected.largest = std::max(expected.largest, value);
    expected.all_bits_or |= value;
    expected.all_bits_and &= value;
    expected.all_bits_xor ^= value;
  }
  const Extremes start = {kLargest, 0, std::numeric_limits<double>::infinity(), 0, kLargest, 0};
  DeviceArray<Extremes> extremes(std::vector<Extremes>{start});
  FindExtremes<<<blocks, kThreads>>>(device_in.get(), in.size(), extremes.get());
  CHECK_LAUNCH();
  const Extremes got = extremes.Fetch()[0];

  int failures = 0;
  EXPECT(got.smallest == expected.smallest, "minimum %u", got.smallest);
  EXPECT(got.largest == expected.largest, "maximum %u", got.largest);
  EXPECT(got.smallest_double == expected.smallest * 0.5, "minimum %g", got.smallest_double);
  EXPECT(got.all_bits_or == expected.all_bits_or, "or %x", got.all_bits_or);
  EXPECT(got.all_bits_and == expected.all_bits_and, "and %x", got.all_bits_and);
  EXPECT(got.all_bits_xor == expected.all_bits_xor, "xor %x", got.all_bits_xor);
  return failures;
}

int CheckCounts(const std::vector<unsigned>& in, DeviceArray<unsigned>& device_in,
                unsigned blocks) {
  const auto odd = static_cast<unsigned>(
      std::count_if(in.begin(), in.end(), [](unsigned value) { return value % 2 == 1; }));
  const unsigned warps = blocks * (kThreads / kWarp);
  unsigned warps_with = 0;
  for (size_t start = 0; start < in.size(); start += kWarp) {
    const auto end = in.begin() + std::min(in.size(), start + kWarp);
    if (std::any_of(in.begin() + start, end, [](unsigned value) { return value % 97 == 0; })) {
      ++warps_with;
    }
  }
  DeviceArray<Counts> counts(1);
  Count<<<blocks, kThreads>>>(device_in.get(), in.size(), counts.get());
  CHECK_LAUNCH();
  DeviceArray<unsigned> odd_values(in.size());
  DeviceArray<unsigned> kept(1);
  Compact<<<blocks, kThreads>>>(device_in.get(), in.size(), odd_values.get(), kept.get());
  CHECK_LAUNCH();

  int failures = 0;
  const Counts got = counts.Fetch()[0];
  EXPECT(got.odd == odd, "%u odd values by ballot, not %u", got.odd, odd);
  EXPECT(got.odd_by_block == odd, "%u odd values by block, not %u", got.odd_by_block, odd);
  EXPECT(got.warps_with == warps_with, "%u warps with, not %u", got.warps_with, warps_with);
  EXPECT(got.warps_all == warps - warps_with, "%u warps without", got.warps_all);

  EXPECT(kept.Fetch()[0] == odd, "kept %u values, not %u", kept.Fetch()[0], odd);
  std::vector<unsigned> got_values = odd_values.Fetch();
  got_values.resize(odd);
  std::vector<unsigned> expected_values;
  for (const unsigned value : in) {
    if (value % 2 == 1) expected_values.push_back(value);
  }
  std::sort(got_values.begin(), got_values.end());
  std::sort(expected_values.begin(), expected_values.end());
  EXPECT(got_values == expected_values, "the values kept are not the odd ones");
  return failures;
}

int CheckHistogramAndScans(const std::vector<unsigned>& in, DeviceArray<unsigned>& device_in,
                           unsigned blocks) {
  DeviceArray<unsigned> bins(kBins);
  Histogram<<<std::min(blocks, 64u), kThreads>>>(device_in.get(), in.size(), bins.get());
  CHECK_LAUNCH();
  DeviceArray<unsigned> scan(in.size());
  BlockScan<<<blocks, kThreads>>>(device_in.get(), in.size(), scan.get());
  CHECK_LAUNCH();

  int failures = 0;
  std::vector<unsigned> expected_bins(kBins);
  for (const unsigned value : in) ++expected_bins[value % kBins];
  EXPECT(bins.Fetch() == expected_bins, "the histogram differs");
  const std::vector<unsigned> got_scan = scan.Fetch();
  unsigned running = 0;
  for (size_t i = 0; i < in.size() && failures < 5; ++i) {
    running = i % kThreads == 0 ? in[i] : running + in[i];
    EXPECT(got_scan[i] == running, "scan[%zu] is %u, not %u", i, got_scan[i], running);
  }

  const size_t whole = in.size() / kThreads * kThreads;  // GroupSums takes whole blocks only
  if (whole == 0) return failures;
  DeviceArray<unsigned> groups(whole);
  GroupSums<<<static_cast<unsigned>(whole / kThreads), kThreads>>>(device_in.get(), groups.get());
  CHECK_LAUNCH();
  const std::vector<unsigned> got_groups = groups.Fetch();
  for (size_t i = 0; i < whole && failures < 5; ++i) {
    unsigned expected = 0;
    for (size_t j = i / 8 * 8; j < i / 8 * 8 + 8; ++j) expected += in[j];
    EXPECT(got_groups[i] == expected, "group sum %zu is %u, not %u", i, got_groups[i], expected);
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = NumberArgument(argc, argv, 1, 300007, 1, 1L << 28);
  std::vector<unsigned> in(count);
  unsigned state = 12345;
  for (unsigned& value : in) {
    state = state * 1664525u + 1013904223u;
    value = (state >> 8) | 0x01000000u;  // one common bit set, so the AND of all is not 0
  }
  DeviceArray<unsigned> device_in(in);
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);

  int failures = CheckSums(in, device_in, blocks);
  failures += CheckExtremes(in, device_in, blocks);
  failures += CheckCounts(in, device_in, blocks);
  failures += CheckHistogramAndScans(in, device_in, blocks);
  std::printf("reduction: %zu elements, by shuffles, votes and atomics: %s\n", count,
              Verdict(failures));
  return ExitStatus(failures);
}
