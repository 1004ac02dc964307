// Normal, log-normal and Poisson numbers by their moments and frequencies, and Sobol points by
// their direction vectors and by how evenly they fill the cube.
#include <curand.h>

#include "library_check.h"

namespace {

constexpr std::size_t kCount = 1 << 20;
constexpr float kMean = 0.75, kDeviation = 0.5;

// Requires the mean of `values`, made from independent numbers of this mean and variance.
void RequireMean(const std::vector<double>& values, double mean, double variance) {
  double sum = 0;
  for (const double value : values) sum += value;
  const double count = static_cast<double>(values.size());
  REQUIRE(std::abs(sum / count - mean) < 5 * std::sqrt(variance / count));
}

std::vector<double> Powers(const std::vector<double>& values, int exponent) {
  std::vector<double> powers;
  for (const double value : values) powers.push_back(std::pow(value, exponent));
  return powers;
}

template <typename T, typename Generate>
void CheckNormal(curandGenerator_t generator, Generate generate, bool of_logarithms) {
  const DeviceVector<T> there(kCount);
  CHECK(generate(generator, there.get(), kCount, kMean, kDeviation));
  std::vector<double> values;
  for (const T value : there.Read())
    values.push_back(((of_logarithms ? std::log(static_cast<double>(value)) : value) - kMean) /
                     kDeviation);
  // The variance of zⁿ is the moment 2n less the square of the moment n; the moments are 1, 3, 15
  // and 105 for 2, 4, 6 and 8.
  RequireMean(values, 0, 1);
  RequireMean(Powers(values, 2), 1, 2);
  RequireMean(Powers(values, 3), 0, 15);
  RequireMean(Powers(values, 4), 3, 96);
}

void CheckPoisson(curandGenerator_t generator, double lambda) {
  const DeviceVector<unsigned> there(kCount);
  CHECK(curandGeneratePoisson(generator, there.get(), kCount, lambda));
  const std::vector<unsigned> numbers = there.Read();
  std::vector<double> values;
  for (const unsigned number : numbers) values.push_back(number - lambda);
  RequireMean(values, 0, lambda);
  RequireMean(Powers(values, 2), lambda, lambda + 2 * lambda * lambda);
  RequireMean(Powers(values, 3), lambda,
              lambda + 24 * lambda * lambda + 15 * lambda * lambda * lambda);
  if (lambda > 10) return;
  double probability = std::exp(-lambda);
  for (unsigned k = 0; k < 10; probability *= lambda / ++k) {
    std::vector<double> found;
    for (const unsigned number : numbers) found.push_back(number == k);
    RequireMean(found, probability, probability * (1 - probability));
  }
}

void CheckSobol() {
  constexpr unsigned kDimensions = 3, kPoints = 1 << 15;
  curandDirectionVectors32_t* vectors = nullptr;
  CHECK(curandGetDirectionVectors32(&vectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
  curandGenerator_t generator = nullptr;
  CHECK(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32));
  CHECK(curandSetQuasiRandomGeneratorDimensions(generator, kDimensions));
  const DeviceVector<unsigned> there(kDimensions * kPoints);
  CHECK(curandGenerate(generator, there.get(), there.size()));
  const std::vector<unsigned> points = there.Read();
  for (unsigned dimension = 0; dimension < kDimensions; ++dimension) {
    std::vector<unsigned> counts(64);
    for (unsigned i = 0; i < kPoints; ++i) {
      const unsigned gray_code = i ^ (i >> 1);
      unsigned expected = 0;
      for (int bit = 0; bit < 32; ++bit)
        if (gray_code >> bit & 1) expected ^= vectors[dimension][bit];
      const unsigned found = points[dimension * kPoints + i];
      REQUIRE(found == expected);
      ++counts[found >> 26];
    }
    for (const unsigned count : counts) REQUIRE(count == kPoints / 64);
  }
  CHECK(curandDestroyGenerator(generator));
}

}  // namespace

int main() {
  for (const curandRngType_t type : {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10}) {
    curandGenerator_t generator = nullptr;
    CHECK(curandCreateGenerator(&generator, type));
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, 1234));
    CheckNormal<float>(generator, curandGenerateNormal, false);
    CheckNormal<double>(generator, curandGenerateNormalDouble, false);
    CheckNormal<float>(generator, curandGenerateLogNormal, true);
    CheckNormal<double>(generator, curandGenerateLogNormalDouble, true);
    for (const double lambda : {3.5, 64.0, 1000.0}) CheckPoisson(generator, lambda);
    CHECK(curandDestroyGenerator(generator));
  }
  CheckSobol();
  std::puts("right");
}
