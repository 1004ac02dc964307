// Reads random lines of an array in a file that is in none of the GPU's memories; a program as its
// users would write it.
//
//   bench-store-served-program FILE LINE TOUCHED WARPS ROUNDS COLD
//
// Each round touches TOUCHED random lines of LINE bytes by WARPS warps; with COLD 1, after the
// system has dropped the file's pages. Prints for each round: lines fetched, seconds, and bytes
// read from the file for them.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "bench/common/check_cuda.h"
#include "bench/store/scramble.h"
#include "cuspan/store.cuh"

namespace {

namespace store = cuspan::store;
using cuspan::bench::store::Scramble;
using Word = std::uint32_t;

__global__ void TouchLines(store::View<Word> view, std::uint64_t lines, std::uint32_t words,
                           std::uint64_t touched, std::uint64_t seed, unsigned long long* sum) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned long long own = 0;
  for (std::uint64_t i = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < touched;
       i += threads / 32)
    own += view.warp(Scramble(seed + i) % lines * words + threadIdx.x % 32);
  if (own == 1) atomicAdd(sum, own);
}

void DropPages(const char* file) {
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
    std::fprintf(stderr, "the file's pages stay in memory\n");
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: bench-store-served-program FILE LINE TOUCHED WARPS ROUNDS COLD\n");
    return 2;
  }
  const auto line = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const auto touched = static_cast<std::uint64_t>(std::atoll(argv[3]));
  const int blocks = std::atoi(argv[4]) / 4;
  const int rounds = std::atoi(argv[5]);
  const bool cold = std::atoi(argv[6]) != 0;
  try {
    unsigned long long* sum = nullptr;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    cudaEvent_t begin;
    cudaEvent_t end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int round = 0; round < rounds; ++round) {
      // A new cache for each round: nothing is in it.
      const store::Cache cache({touched * line, line, 0});
      const store::Array<Word> array(argv[1], cache);
      const std::uint32_t words = line / sizeof(Word);
      if (cold) DropPages(argv[1]);
      CHECK(cudaEventRecord(begin));
      TouchLines<<<blocks, 128>>>(array.view(), array.size() / words, words, touched,
                                  round * std::uint64_t{1} << 40, sum);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      array.check();
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
      const cuspanArrayStatistics_t statistics = array.stats();
      std::printf("%llu %.6f %llu\n", static_cast<unsigned long long>(statistics.lines),
                  milliseconds / 1e3, static_cast<unsigned long long>(statistics.served_bytes));
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
  return 0;
}
