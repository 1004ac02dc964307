// Generators inside kernels, one state per thread: pi by random points, starts at an offset, and
// Philox's numbers compared with its definition.
#include <curand_kernel.h>

#include <array>
#include <cstdint>

#include "library_check.h"

namespace {

constexpr unsigned long long kSeed = 0x123456789;
constexpr int kBlocks = 64, kThreads = 128, kPointsEach = 256;

template <typename State>
__global__ void CountPoints(unsigned* inside) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  State state;
  curand_init(kSeed, thread, 0, &state);
  unsigned count = 0;
  for (int i = 0; i < kPointsEach; ++i) {
    const double x = curand_uniform_double(&state);
    const double y = curand_uniform_double(&state);
    count += x * x + y * y <= 1;
  }
  inside[thread] = count;
}

// Each thread writes `count` numbers of its subsequence, from `offset` on.
template <typename State>
__global__ void WriteNumbers(unsigned long long offset, unsigned count, unsigned* numbers) {
  State state;
  curand_init(kSeed, threadIdx.x, offset, &state);
  for (unsigned i = 0; i < count; ++i) numbers[threadIdx.x * count + i] = curand(&state);
}

template <typename State>
void CheckPi() {
  const DeviceVector<unsigned> inside(kBlocks * kThreads);
  CountPoints<State><<<kBlocks, kThreads>>>(inside.get());
  CHECK(cudaGetLastError());
  double count = 0;
  for (const unsigned each : inside.Read()) count += each;
  constexpr double kPoints = 1.0 * kBlocks * kThreads * kPointsEach;
  const double expected = std::acos(-1.0) / 4;
  REQUIRE(std::abs(count / kPoints - expected) <
          5 * std::sqrt(expected * (1 - expected) / kPoints));
}

template <typename State>
std::vector<unsigned> Numbers(unsigned threads, unsigned long long offset, unsigned count) {
  const DeviceVector<unsigned> numbers(threads * count);
  WriteNumbers<State><<<1, threads>>>(offset, count, numbers.get());
  CHECK(cudaGetLastError());
  return numbers.Read();
}

template <typename State>
void CheckOffsets() {
  constexpr unsigned kAll = 100, kOffset = 37, kRest = kAll - kOffset;
  const std::vector<unsigned> all = Numbers<State>(kThreads, 0, kAll);
  const std::vector<unsigned> rest = Numbers<State>(kThreads, kOffset, kRest);
  for (unsigned thread = 0; thread < kThreads; ++thread)
    for (unsigned i = 0; i < kRest; ++i)
      REQUIRE(rest[thread * kRest + i] == all[thread * kAll + kOffset + i]);
}

// Four numbers at a time from a counter: the low half is their group, the high half the
// subsequence.
std::array<std::uint32_t, 4> Philox(std::uint32_t group, std::uint32_t subsequence) {
  std::array<std::uint32_t, 4> value = {group, 0, subsequence, 0};
  std::uint32_t low_key = static_cast<std::uint32_t>(kSeed), high_key = kSeed >> 32;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * value[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * value[2];
    value = {static_cast<std::uint32_t>(second >> 32) ^ value[1] ^ low_key,
             static_cast<std::uint32_t>(second),
             static_cast<std::uint32_t>(first >> 32) ^ value[3] ^ high_key,
             static_cast<std::uint32_t>(first)};
    low_key += 0x9E3779B9;
    high_key += 0xBB67AE85;
  }
  return value;
}

void ComparePhilox() {
  constexpr unsigned kCount = 100;
  const std::vector<unsigned> numbers = Numbers<curandStatePhilox4_32_10_t>(kThreads, 0, kCount);
  for (unsigned i = 0; i < numbers.size(); ++i)
    REQUIRE(numbers[i] == Philox(i % kCount / 4, i / kCount)[i % 4]);
}

}  // namespace

int main() {
  CheckPi<curandStateXORWOW_t>();
  CheckPi<curandStateMRG32k3a_t>();
  CheckPi<curandStatePhilox4_32_10_t>();
  CheckOffsets<curandStateXORWOW_t>();
  CheckOffsets<curandStateMRG32k3a_t>();
  CheckOffsets<curandStatePhilox4_32_10_t>();
  ComparePhilox();
  std::puts("right");
}
