// Thrust's sorts, scans and reductions on device vectors, compared with the standard library's.
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include <functional>
#include <numeric>
#include <utility>

#include "library_check.h"

namespace {

constexpr int kCount = 100'003;

struct Square {
  __host__ __device__ double operator()(float x) const { return static_cast<double>(x) * x; }
};

template <typename T>
std::vector<T> Here(const thrust::device_vector<T>& values) {
  std::vector<T> here(values.size());
  thrust::copy(values.begin(), values.end(), here.begin());
  return here;
}

// Every key occurs often: the order of equal keys and their sums matter.
std::vector<int> RandomKeys() {
  std::mt19937 generator(5);
  std::vector<int> keys(kCount);
  for (int& key : keys) key = static_cast<int>(generator() % 1000) - 500;
  return keys;
}

void CompareSort() {
  std::vector<float> values = RandomVector(kCount);
  thrust::device_vector<float> there(values);
  thrust::sort(there.begin(), there.end());
  std::sort(values.begin(), values.end());
  REQUIRE(Here(there) == values);
  thrust::sort(there.begin(), there.end(), thrust::greater<float>());
  std::sort(values.begin(), values.end(), std::greater<>());
  REQUIRE(Here(there) == values);
}

void CompareByKey() {
  const std::vector<int> keys = RandomKeys();
  thrust::device_vector<int> keys_there(keys), found_keys(kCount);
  thrust::device_vector<long long> places_there(kCount), found_sums(kCount);
  thrust::sequence(places_there.begin(), places_there.end());
  thrust::stable_sort_by_key(keys_there.begin(), keys_there.end(), places_there.begin());
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < kCount; ++i) pairs.emplace_back(keys[i], i);
  std::sort(pairs.begin(), pairs.end());
  const std::vector<int> sorted_keys = Here(keys_there);
  const std::vector<long long> sorted_places = Here(places_there);
  std::vector<int> unique_keys;
  std::vector<long long> sums;
  for (int i = 0; i < kCount; ++i) {
    const auto [key, place] = pairs[i];
    REQUIRE(sorted_keys[i] == key && sorted_places[i] == place);
    if (unique_keys.empty() || unique_keys.back() != key) {
      unique_keys.push_back(key);
      sums.push_back(0);
    }
    sums.back() += place;
  }

  const auto ends =
      thrust::reduce_by_key(keys_there.begin(), keys_there.end(), places_there.begin(),
                            found_keys.begin(), found_sums.begin());
  found_keys.erase(ends.first, found_keys.end());
  found_sums.erase(ends.second, found_sums.end());
  REQUIRE(Here(found_keys) == unique_keys);
  REQUIRE(Here(found_sums) == sums);
  keys_there.erase(thrust::unique(keys_there.begin(), keys_there.end()), keys_there.end());
  REQUIRE(Here(keys_there) == unique_keys);
}

void CompareScanAndReduce() {
  const std::vector<int> numbers = RandomKeys();
  const thrust::device_vector<int> there(numbers);
  thrust::device_vector<int> sums(kCount);
  thrust::inclusive_scan(there.begin(), there.end(), sums.begin());
  std::vector<int> expected(kCount);
  std::partial_sum(numbers.begin(), numbers.end(), expected.begin());
  REQUIRE(Here(sums) == expected);

  const std::vector<float> values = RandomVector(kCount);
  const thrust::device_vector<float> values_there(values);
  double sum = 0;
  for (const float value : values) sum += Square()(value);
  const double found = thrust::transform_reduce(values_there.begin(), values_there.end(), Square(),
                                                0.0, thrust::plus<double>());
  REQUIRE(std::abs(found - sum) < 1e-12 * sum);
}

}  // namespace

int main() {
  CompareSort();
  CompareByKey();
  CompareScanAndReduce();
  std::puts("right");
}
