// Uniform numbers of four generators: their moments and bounds, seeds, offsets, and the same
// numbers from the device and the host.
#include <curand.h>

#include "library_check.h"

namespace {

struct Generator {
  // MT19937 takes no offset, since it cannot skip numbers, and its order differs on the host.
  Generator(curandRngType_t type, bool on_host, unsigned long long seed = 7,
            unsigned long long offset = 0) {
    CHECK(on_host ? curandCreateGeneratorHost(&generator, type)
                  : curandCreateGenerator(&generator, type));
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, seed));
    if (type == CURAND_RNG_PSEUDO_MT19937) return;
    // Only this order is the same on every device and in every version.
    CHECK(curandSetGeneratorOrdering(generator, CURAND_ORDERING_PSEUDO_LEGACY));
    CHECK(curandSetGeneratorOffset(generator, offset));
  }
  Generator(const Generator&) = delete;
  ~Generator() { curandDestroyGenerator(generator); }

  curandGenerator_t generator = nullptr;
};

std::vector<unsigned> Numbers(const Generator& generator, std::size_t count) {
  const DeviceVector<unsigned> there(count);
  CHECK(curandGenerate(generator.generator, there.get(), count));
  return there.Read();
}

// Checks uniform values above 0, up to 1.
template <typename T, typename Generate>
void CheckDistribution(const Generator& generator, Generate generate) {
  constexpr std::size_t kCount = 1 << 20;
  const DeviceVector<T> there(kCount);
  CHECK(generate(generator.generator, there.get(), kCount));
  double mean = 0, variance = 0;
  for (const T value : there.Read()) {
    REQUIRE(value > 0 && value <= 1);
    mean += value / kCount;
    // The known mean is 1/2.
    variance += (value - 0.5) * (value - 0.5) / kCount;
  }
  // The variance of a value is 1/12, and the variance of its squared distance from 1/2 is 1/180.
  REQUIRE(std::abs(mean - 0.5) < 5 * std::sqrt(1.0 / 12 / kCount));
  REQUIRE(std::abs(variance - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / kCount));
}

void CheckSeeds(curandRngType_t type) {
  constexpr std::size_t kCount = 20'000;
  const std::vector<unsigned> numbers = Numbers(Generator(type, false), kCount);
  REQUIRE(Numbers(Generator(type, false), kCount) == numbers);
  const std::vector<unsigned> others = Numbers(Generator(type, false, 8), kCount);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < kCount; ++i) equal += numbers[i] == others[i];
  REQUIRE(equal < 5);
}

void CheckOffsets(curandRngType_t type) {
  constexpr std::size_t kCount = 20'000;
  const std::vector<unsigned> numbers = Numbers(Generator(type, false), kCount);
  for (const std::size_t offset : {4096, 5000})
    REQUIRE(Numbers(Generator(type, false, 7, offset), kCount - offset) ==
            std::vector<unsigned>(numbers.begin() + static_cast<std::ptrdiff_t>(offset),
                                  numbers.end()));
}

void CompareWithHost(curandRngType_t type) {
  constexpr std::size_t kCount = 20'000;
  std::vector<unsigned> numbers(kCount);
  CHECK(curandGenerate(Generator(type, true).generator, numbers.data(), kCount));
  REQUIRE(Numbers(Generator(type, false), kCount) == numbers);
  std::vector<float> uniform(kCount);
  const DeviceVector<float> uniform_there(kCount);
  CHECK(curandGenerateUniform(Generator(type, true).generator, uniform.data(), kCount));
  const Generator generator(type, false);
  CHECK(curandGenerateUniform(generator.generator, uniform_there.get(), kCount));
  RequireNear(uniform_there.Read(), uniform, 1e-6);
}

}  // namespace

int main() {
  for (const curandRngType_t type : {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_MRG32K3A,
                                     CURAND_RNG_PSEUDO_PHILOX4_32_10, CURAND_RNG_PSEUDO_MT19937}) {
    CheckDistribution<float>(Generator(type, false), curandGenerateUniform);
    CheckDistribution<double>(Generator(type, false), curandGenerateUniformDouble);
    CheckSeeds(type);
    if (type == CURAND_RNG_PSEUDO_MT19937) continue;
    CheckOffsets(type);
    CompareWithHost(type);
  }
  std::puts("right");
}
