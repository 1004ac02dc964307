// Tensor maps: kernels copying boxes of tensors to shared memory and back, on devices of compute
// capability 9.0 and higher.
//
//   driver_tensor_map
#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

// --- Parts of the kernels

__device__ std::uint32_t Shared(const void* address) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(address));
}

#if __CUDA_ARCH__ >= 900
// Initialises the barrier for one arrival, and makes it visible to copies.
__device__ void Begin(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(barrier)) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Arrives. The phase ends after the arrival of this number of bytes.
__device__ void Expect(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void Wait(std::uint64_t* barrier) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(Shared(barrier))
        : "memory");
  }
}
__device__ void Load(void* to, const CUtensorMap& map, int x, int y, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(Shared(to)),
      "l"(&map), "r"(x), "r"(y), "r"(Shared(barrier))
      : "memory");
}
__device__ void Load(void* to, const CUtensorMap& map, const int (&at)[5], std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(Shared(to)),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(Shared(barrier))
      : "memory");
}
__device__ void Store(const CUtensorMap& map, int x, int y, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(x), "r"(y), "r"(Shared(from))
      : "memory");
}
__device__ void Add(const CUtensorMap& map, int x, int y, const void* from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
      "[%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(Shared(from))
      : "memory");
}
// Makes threads' writes to shared memory visible to copies.
__device__ void BeforeStore() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
__device__ void WaitForStores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#endif

constexpr int kColumns = 32, kRows = 8;  // Words of a tile: 128 bytes a row.

// Each block doubles the numbers of one tile.
__global__ void Double(const __grid_constant__ CUtensorMap from,
                       const __grid_constant__ CUtensorMap to) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float tile[kRows * kColumns];
  __shared__ std::uint64_t barrier;
  const int x = static_cast<int>(blockIdx.x) * kColumns, y = static_cast<int>(blockIdx.y) * kRows;
  if (threadIdx.x == 0) {
    Begin(&barrier);
    Expect(&barrier, sizeof tile);
    Load(tile, from, x, y, &barrier);
  }
  __syncthreads();
  Wait(&barrier);
  for (unsigned i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) tile[i] *= 2;
  BeforeStore();
  if (threadIdx.x == 0) {
    Store(to, x, y, tile);
    WaitForStores();
  }
#endif
}

// Copies out one box at (x, y) in its layout in shared memory.
__global__ void Show(const __grid_constant__ CUtensorMap map, int x, int y, unsigned* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(1024) unsigned tile[kRows * kColumns];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    Begin(&barrier);
    Expect(&barrier, sizeof tile);
    Load(tile, map, x, y, &barrier);
  }
  __syncthreads();
  Wait(&barrier);
  for (unsigned i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) out[i] = tile[i];
#endif
}

// Each block adds 1, 2, 3, … to the same tile.
__global__ void Accumulate(const __grid_constant__ CUtensorMap map) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) unsigned tile[kRows * kColumns];
  for (unsigned i = threadIdx.x; i < kRows * kColumns; i += blockDim.x) tile[i] = i + 1;
  BeforeStore();
  if (threadIdx.x == 0) {
    Add(map, 0, 0, tile);
    WaitForStores();
  }
#endif
}

constexpr int kBox5[] = {8, 3, 2, 2, 2};
constexpr int kBox5Words = 8 * 3 * 2 * 2 * 2;

__global__ void Show5(const __grid_constant__ CUtensorMap map, unsigned* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) unsigned box[kBox5Words];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    Begin(&barrier);
    Expect(&barrier, sizeof box);
    Load(box, map, {4, -1, 1, 0, 1}, &barrier);
  }
  __syncthreads();
  Wait(&barrier);
  for (unsigned i = threadIdx.x; i < kBox5Words; i += blockDim.x) out[i] = box[i];
#endif
}

// --- The host's side

// Words on the device.
template <typename T>
class Words {
 public:
  explicit Words(std::size_t count) : count_(count) {
    CHECK(cudaMalloc(&memory_, count * sizeof(T)));
    CHECK(cudaMemset(memory_, 0, count * sizeof(T)));
  }
  explicit Words(const std::vector<T>& words) : Words(words.size()) {
    CHECK(cudaMemcpy(memory_, words.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Words() { cudaFree(memory_); }
  Words(const Words&) = delete;
  T* get() const { return memory_; }
  std::vector<T> Read() const {
    std::vector<T> words(count_);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(words.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return words;
  }

 private:
  const std::size_t count_;
  T* memory_ = nullptr;
};

constexpr int kWidth = 100, kHeight = 37;  // No multiples of a tile's size.

struct MapOptions {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

CUresult Encode(CUtensorMap* map, void* address, const MapOptions& options = {},
                cuuint32_t columns = kColumns) {
  const cuuint64_t sizes[] = {kWidth, kHeight}, strides[] = {kWidth * 4};
  const cuuint32_t box[] = {columns, kRows}, steps[] = {1, 1};
  return cuTensorMapEncodeTiled(map, options.type, 2, address, sizes, strides, box, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, options.swizzle,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, options.fill);
}

template <typename T>
std::vector<T> Numbers(std::size_t count) {
  std::vector<T> numbers(count);
  std::iota(numbers.begin(), numbers.end(), T{1});
  return numbers;
}

void CheckLoadsAndStores() {
  const std::vector<float> numbers = Numbers<float>(kWidth * kHeight);
  const Words<float> from(numbers), to(numbers.size() + kWidth), other(numbers.size());
  CUtensorMap source{}, target{};
  const MapOptions floats{CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
  DRIVER(Encode(&source, from.get(), floats));
  DRIVER(Encode(&target, to.get(), floats));
  const dim3 grid((kWidth + kColumns - 1) / kColumns, (kHeight + kRows - 1) / kRows);
  Double<<<grid, 64>>>(source, target);
  auto got = to.Read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float wanted = i < numbers.size() ? 2 * numbers[i] : 0;
    EXPECT(got[i] == wanted, "number %zu is %g", i, got[i]);
  }
  // The same map for another tensor.
  DRIVER(cuTensorMapReplaceAddress(&target, other.get()));
  Double<<<grid, 64>>>(source, target);
  got = other.Read();
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT(got[i] == 2 * numbers[i], "number %zu of the other is %g", i, got[i]);
}

void CheckOutside() {
  const Words<unsigned> from(Numbers<unsigned>(kWidth * kHeight));
  const Words<unsigned> out(kRows * kColumns);
  CUtensorMap map{};
  for (const bool nan : {false, true}) {
    MapOptions options;
    if (nan) {
      options.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
      options.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    }
    DRIVER(Encode(&map, from.get(), options));
    Show<<<1, 64>>>(map, kWidth - 20, -3, out.get());
    const auto box = out.Read();
    for (int i = 0; i < kRows * kColumns; ++i) {
      const int x = kWidth - 20 + i % kColumns, y = -3 + i / kColumns;
      float value = 0;
      std::memcpy(&value, &box[i], sizeof value);
      if (x < kWidth && y >= 0)
        EXPECT(box[i] == 1U + y * kWidth + x, "(%d, %d) is %u", x, y, box[i]);
      else
        EXPECT(nan ? std::isnan(value) : box[i] == 0, "outside, (%d, %d) is %#x", x, y, box[i]);
    }
  }
}

// Chunks of 16 bytes are permuted within a row, depending on the row's number.
void CheckSwizzle() {
  const Words<unsigned> from(Numbers<unsigned>(kWidth * kHeight));
  const Words<unsigned> out(kRows * kColumns);
  CUtensorMap map{};
  DRIVER(Encode(&map, from.get(), {CU_TENSOR_MAP_DATA_TYPE_UINT32, CU_TENSOR_MAP_SWIZZLE_128B}));
  Show<<<1, 64>>>(map, 8, 5, out.get());
  const auto box = out.Read();
  for (int y = 0; y < kRows; ++y) {
    for (int x = 0; x < kColumns; ++x) {
      const int place = y * kColumns + (x ^ (y % 8) * 4);
      EXPECT(box[place] == 1U + (5 + y) * kWidth + 8 + x, "(%d, %d) is %u", x, y, box[place]);
    }
  }
}

void CheckReductions() {
  constexpr unsigned kBlocks = 24;
  const Words<unsigned> sums(Numbers<unsigned>(kWidth * kHeight));
  CUtensorMap map{};
  DRIVER(Encode(&map, sums.get()));
  Accumulate<<<kBlocks, 64>>>(map);
  const auto got = sums.Read();
  for (int i = 0; i < kWidth * kHeight; ++i) {
    const int x = i % kWidth, y = i / kWidth;
    const unsigned added = x < kColumns && y < kRows ? kBlocks * (y * kColumns + x + 1) : 0;
    EXPECT(got[i] == i + 1 + added, "sum %d is %u", i, got[i]);
  }
}

// Every second element of the third dimension, and one row outside.
void CheckFiveDimensions() {
  constexpr int kSizes[] = {16, 5, 6, 3, 4};
  const Words<unsigned> from(Numbers<unsigned>(16 * 5 * 6 * 3 * 4));
  const Words<unsigned> out(kBox5Words);
  cuuint64_t sizes[5], strides[4];
  cuuint32_t box[5], steps[5];
  std::uint64_t bytes = 4;
  for (int i = 0; i < 5; ++i) {
    sizes[i] = kSizes[i];
    bytes *= kSizes[i];
    if (i < 4) strides[i] = bytes;
    steps[i] = i == 2 ? 2 : 1;
    box[i] = kBox5[i] * steps[i];
  }
  CUtensorMap map{};
  DRIVER(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 5, from.get(), sizes, strides,
                                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  Show5<<<1, 32>>>(map, out.get());
  const auto got = out.Read();
  const int at[] = {4, -1, 1, 0, 1};
  for (int i = 0; i < kBox5Words; ++i) {
    int rest = i, place[5];
    bool inside = true;
    for (int k = 0; k < 5; ++k) {
      place[k] = at[k] + rest % kBox5[k] * static_cast<int>(steps[k]);
      rest /= kBox5[k];
      inside = inside && place[k] >= 0 && place[k] < kSizes[k];
    }
    int index = 0;
    for (int k = 4; k >= 0; --k) index = index * kSizes[k] + place[k];
    const unsigned wanted = inside ? index + 1 : 0;
    EXPECT(got[i] == wanted, "word %d of the box is %u instead of %u", i, got[i], wanted);
  }
}

void CheckRefusals() {
  const Words<unsigned> words(kWidth * kHeight);
  CUtensorMap map{};
  EXPECT_RESULT(Encode(&map, words.get() + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(Encode(&map, words.get(), {}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(Encode(&map, words.get(), {}, 257), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(Encode(&map, words.get(), {}, 30), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(
      Encode(&map, words.get(), {CU_TENSOR_MAP_DATA_TYPE_UINT32, CU_TENSOR_MAP_SWIZZLE_64B}),
      CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

int main() {
  DeviceCount();
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 9) {
    std::printf("driver_tensor_map: none before compute capability 9.0: %s\n", Verdict(failures));
    return ExitStatus(failures);
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CUdevice device = 0;
  int supported = 0;
  DRIVER(cuCtxGetDevice(&device));
  DRIVER(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device));
  EXPECT(supported == 1, "the device says %d", supported);
  CheckLoadsAndStores();
  CheckOutside();
  CheckSwizzle();
  CheckReductions();
  CheckFiveDimensions();
  CheckRefusals();
  std::printf("driver_tensor_map: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
