// CUB's device-wide sorts, scans, reductions, histograms and selections, each after a query of its
// temporary memory size.
#include <cub/cub.cuh>

#include <climits>
#include <functional>
#include <iterator>
#include <numeric>

#include "library_check.h"

namespace {

constexpr int kCount = 100'003;

struct Larger {
  __host__ __device__ int operator()(int a, int b) const { return a < b ? b : a; }
};

struct IsOdd {
  __host__ __device__ bool operator()(int value) const { return value % 2 != 0; }
};

// Calls a function first without temporary memory, to get the size, then with it.
#define RUN(function, ...)                                                        \
  do {                                                                            \
    std::size_t run_size = 0;                                                     \
    CHECK(function(static_cast<void*>(nullptr), run_size, __VA_ARGS__));          \
    const DeviceVector<char> run_memory(std::max<std::size_t>(run_size, 1));      \
    CHECK(function(static_cast<void*>(run_memory.get()), run_size, __VA_ARGS__)); \
  } while (false)

std::vector<int> RandomNumbers() {
  std::mt19937 generator(9);
  std::vector<int> numbers(kCount);
  for (int& number : numbers) number = static_cast<int>(generator() % 2000) - 1000;
  return numbers;
}

void CompareSorts() {
  std::vector<float> values = RandomVector(kCount);
  const DeviceVector<float> values_there(values), sorted(kCount);
  RUN(cub::DeviceRadixSort::SortKeysDescending, values_there.get(), sorted.get(), kCount);
  std::sort(values.begin(), values.end(), std::greater<>());
  REQUIRE(sorted.Read() == values);

  const std::vector<int> keys = RandomNumbers();
  std::vector<int> places(kCount);
  std::iota(places.begin(), places.end(), 0);
  const DeviceVector<int> keys_there(keys), places_there(places), sorted_keys(kCount),
      sorted_places(kCount);
  RUN(cub::DeviceRadixSort::SortPairs, keys_there.get(), sorted_keys.get(), places_there.get(),
      sorted_places.get(), kCount);
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  REQUIRE(sorted_places.Read() == places);
  for (int& place : places) place = keys[place];
  REQUIRE(sorted_keys.Read() == places);
}

void CompareScansAndReductions() {
  const std::vector<int> numbers = RandomNumbers();
  const DeviceVector<int> there(numbers), scanned(kCount), result(1);
  std::vector<int> expected(kCount);
  RUN(cub::DeviceScan::ExclusiveSum, there.get(), scanned.get(), kCount);
  std::exclusive_scan(numbers.begin(), numbers.end(), expected.begin(), 0);
  REQUIRE(scanned.Read() == expected);
  RUN(cub::DeviceScan::InclusiveScan, there.get(), scanned.get(), Larger(), kCount);
  std::inclusive_scan(numbers.begin(), numbers.end(), expected.begin(), Larger());
  REQUIRE(scanned.Read() == expected);
  RUN(cub::DeviceReduce::Sum, there.get(), result.get(), kCount);
  REQUIRE(result.Read()[0] == std::accumulate(numbers.begin(), numbers.end(), 0));
  RUN(cub::DeviceReduce::Reduce, there.get(), result.get(), kCount, Larger(), INT_MIN);
  REQUIRE(result.Read()[0] == *std::max_element(numbers.begin(), numbers.end()));
}

void CompareHistograms() {
  // Numbers outside the levels are not counted.
  const std::vector<int> numbers = RandomNumbers();
  const std::vector<int> levels = {-900, -899, -500, -20, 0, 7, 450, 451};
  constexpr int kLow = -800, kHigh = 800, kBins = 20;
  std::vector<unsigned> even(kBins), ranges(levels.size() - 1);
  for (const int number : numbers) {
    if (number >= kLow && number < kHigh) ++even[(number - kLow) / ((kHigh - kLow) / kBins)];
    for (std::size_t i = 0; i < ranges.size(); ++i)
      ranges[i] += number >= levels[i] && number < levels[i + 1];
  }
  const DeviceVector<int> there(numbers), levels_there(levels);
  const DeviceVector<unsigned> even_there(even.size()), ranges_there(ranges.size());
  RUN(cub::DeviceHistogram::HistogramEven, there.get(), even_there.get(), kBins + 1, kLow, kHigh,
      kCount);
  REQUIRE(even_there.Read() == even);
  RUN(cub::DeviceHistogram::HistogramRange, there.get(), ranges_there.get(),
      static_cast<int>(levels.size()), levels_there.get(), kCount);
  REQUIRE(ranges_there.Read() == ranges);
}

void CompareSelection() {
  const std::vector<int> numbers = RandomNumbers();
  const DeviceVector<int> there(numbers), selected(kCount), count(1);
  RUN(cub::DeviceSelect::If, there.get(), selected.get(), count.get(), kCount, IsOdd());
  std::vector<int> odd, found = selected.Read();
  std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(odd), IsOdd());
  REQUIRE(count.Read()[0] == static_cast<int>(odd.size()));
  found.resize(odd.size());
  REQUIRE(found == odd);
}

}  // namespace

int main() {
  CompareSorts();
  CompareScansAndReductions();
  CompareHistograms();
  CompareSelection();
  std::puts("right");
}
