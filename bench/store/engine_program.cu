// Reads an array in a file by kernels, through a cache and by plain loads; a program as its users
// would write it.
//
//   bench-store-engine-program FILE ROUNDS
//
// FILE has 32-bit words, at least 2 MiB of them. Prints a line for each figure and round:
// NAME VALUE PLAIN, rates of the array and of plain loads of the same bytes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "bench/common/check_cuda.h"
#include "bench/store/scramble.h"
#include "cuspan/store.cuh"

namespace {

namespace store = cuspan::store;
using cuspan::bench::store::Scramble;
using Word = std::uint32_t;
using View = store::View<Word>;

constexpr int kThreads = 256;

// Each warp touches random lines of `words` words.
__global__ void FetchLines(View view, std::uint64_t lines, std::uint32_t words, int each,
                           std::uint64_t seed, unsigned long long* sum) {
  const std::uint64_t warp = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  unsigned long long own = 0;
  for (int i = 0; i < each; ++i) {
    const std::uint64_t line = Scramble(seed + warp * each + i) % lines;
    own += view.warp(line * words + threadIdx.x % 32);
  }
  if (own == 1) atomicAdd(sum, own);
}

// The same lines of the plain mapping, all of their words.
__global__ void ReadLines(const uint4* all, std::uint64_t lines, std::uint32_t words, int each,
                          std::uint64_t seed, unsigned long long* sum) {
  const std::uint64_t warp = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const std::uint32_t parts = words / 4;
  unsigned long long own = 0;
  for (int i = 0; i < each; ++i) {
    const std::uint64_t line = Scramble(seed + warp * each + i) % lines;
    for (std::uint32_t first = threadIdx.x % 32; first < parts; first += 4 * 32) {
      uint4 part[4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (first + 32 * k < parts) part[k] = __ldcs(all + line * parts + first + 32 * k);
#pragma unroll
      for (int k = 0; k < 4; ++k) own += part[k].x + part[k].w;
    }
  }
  if (own == 1) atomicAdd(sum, own);
}

template <typename Source>
__global__ void RandomWords(Source source, std::uint64_t count, int each, unsigned long long* sum) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long own = 0;
  for (int i = 0; i < each; ++i) own += source[Scramble(thread * each + i) % count];
  if (own == 1) atomicAdd(sum, own);
}

// Each warp sums whole lines, one after the other. Registers for at least 4 blocks of an SM: loads
// in flight hide the latency.
__global__ void __launch_bounds__(kThreads, 4)
    PinnedLines(View view, std::uint64_t lines, std::uint32_t words, unsigned long long* sum) {
  const std::uint64_t warps = std::uint64_t{gridDim.x} * blockDim.x / 32;
  unsigned long long own = 0;
  for (std::uint64_t line = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
       line < lines; line += warps) {
    const store::Pin<Word> held = view.pin(line * words);
    const Word* const elements = held.data();  // Not null: the cache has place for all lines.
    for (std::uint32_t i = threadIdx.x % 32; i < held.count(); i += 32) own += elements[i];
  }
  if (own == 1) atomicAdd(sum, own);
}
__global__ void PlainLines(const Word* all, std::uint64_t lines, std::uint32_t words,
                           unsigned long long* sum) {
  const std::uint64_t warps = std::uint64_t{gridDim.x} * blockDim.x / 32;
  unsigned long long own = 0;
  for (std::uint64_t line = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
       line < lines; line += warps)
    for (std::uint32_t i = threadIdx.x % 32; i < words; i += 32) own += all[line * words + i];
  if (own == 1) atomicAdd(sum, own);
}

class Bench {
 public:
  Bench() {
    CHECK(cudaMalloc(&sum_, sizeof *sum_));
    CHECK(cudaMemset(sum_, 0, sizeof *sum_));
    for (cudaEvent_t& event : events_) CHECK(cudaEventCreate(&event));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    blocks_ = properties.multiProcessorCount * 8;
  }
  unsigned blocks() const { return blocks_; }
  unsigned long long* sum() const { return sum_; }
  std::uint64_t warps() const { return std::uint64_t{blocks_} * kThreads / 32; }

  // Seconds of a launch on the device.
  template <typename Launch>
  double Time(Launch&& launch) {
    CHECK(cudaEventRecord(events_[0]));
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(events_[1]));
    CHECK(cudaEventSynchronize(events_[1]));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]));
    return milliseconds / 1e3;
  }

 private:
  unsigned long long* sum_ = nullptr;
  cudaEvent_t events_[2] = {};
  unsigned blocks_ = 0;
};

void Print(const char* name, double value, double plain) {
  std::printf("%s %.4f %.4f\n", name, value, plain);
}

// Misses: a cache of a quarter of the file, and as many lines touched as the file has.
void Fetch(Bench& bench, const char* file, std::uint32_t line, int rounds) {
  const std::uint64_t bytes = std::filesystem::file_size(file);
  const store::Cache cache({std::max<std::uint64_t>(bytes / 4, 4 * line), line, 0});
  const store::Array<Word> array(file, cache, store::Backing::kHostCached);
  const store::Array<Word> mapping(file, cache, store::Backing::kHost);
  const std::uint32_t words = line / sizeof(Word);
  const std::uint64_t lines = array.size() / words;
  const int each = static_cast<int>(std::max<std::uint64_t>(1, lines / bench.warps()));
  const double touched = static_cast<double>(bench.warps()) * each;
  const bool small = line < 4096;
  for (int round = 0; round <= rounds; ++round) {
    const std::uint64_t seed = round * std::uint64_t{1} << 40;
    const cuspanArrayStatistics_t before = array.stats();
    const double own = bench.Time([&] {
      FetchLines<<<bench.blocks(), kThreads>>>(array.view(), lines, words, each, seed, bench.sum());
    });
    const cuspanArrayStatistics_t after = array.stats();
    const double plain = bench.Time([&] {
      ReadLines<<<bench.blocks(), kThreads>>>(
          reinterpret_cast<const uint4*>(mapping.view().data.all_), lines, words, each, seed,
          bench.sum());
    });
    if (round == 0) continue;
    const double fetched = static_cast<double>(after.lines - before.lines);
    if (small)
      Print("lines of 512 B", fetched / own / 1e6, touched / plain / 1e6);
    else
      Print(line == 4096 ? "lines of 4 KiB" : "lines of 64 KiB", fetched * line / own / 1e9,
            touched * line / plain / 1e9);
    if (after.past != before.past)
      std::fprintf(stderr, "%llu values were read past the cache\n",
                   static_cast<unsigned long long>(after.past - before.past));
  }
  array.check();
}

// Hits: a cache with place for all lines.
void Hits(Bench& bench, const char* file, std::uint32_t line, int rounds) {
  const std::uint32_t words = line / sizeof(Word);
  const store::Cache few({4 * std::uint64_t{line}, line, 0});
  const store::Array<Word> plain_array(file, few, store::Backing::kDevice);
  const store::Cache cache({plain_array.size() * sizeof(Word), line, 0});
  const store::Array<Word> array(file, cache, store::Backing::kHostCached);
  const std::uint64_t lines = array.size() / words;
  const std::uint64_t count = lines * words;
  const Word* const all = reinterpret_cast<const Word*>(plain_array.view().data.all_);
  const int each = 64;
  const double reads = static_cast<double>(bench.blocks()) * kThreads * each;
  for (int round = 0; round <= rounds; ++round) {
    const double pinned = bench.Time([&] {
      PinnedLines<<<bench.blocks(), kThreads>>>(array.view(), lines, words, bench.sum());
    });
    const double sequential = bench.Time(
        [&] { PlainLines<<<bench.blocks(), kThreads>>>(all, lines, words, bench.sum()); });
    const double random = bench.Time(
        [&] { RandomWords<<<bench.blocks(), kThreads>>>(array.view(), count, each, bench.sum()); });
    const double plain = bench.Time(
        [&] { RandomWords<<<bench.blocks(), kThreads>>>(all, count, each, bench.sum()); });
    if (round == 0) continue;  // It fills the cache.
    const double bytes = static_cast<double>(count) * sizeof(Word);
    Print("hits, whole lines pinned", bytes / pinned / 1e9, bytes / sequential / 1e9);
    Print("hits, random words", reads / random / 1e9, reads / plain / 1e9);
  }
  array.check();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench-store-engine-program FILE ROUNDS\n");
    return 2;
  }
  const int rounds = std::atoi(argv[2]);
  try {
    Bench bench;
    for (const std::uint32_t line : {4096u, 512u, 65536u}) Fetch(bench, argv[1], line, rounds);
    Hits(bench, argv[1], 4096, rounds);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
  return 0;
}
