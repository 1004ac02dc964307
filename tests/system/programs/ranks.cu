// A typical MPI program: each rank integrates its part of 4 / (1 + x²) over 0 … 1 on a device, and
// all parts are added. Then each rank passes its result to the next, from and to device memory by
// way of the host. Prints the first device of each rank.
//
//   ranks [DEVICES]     number of devices expected by each rank

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

namespace {

constexpr int kSteps = 1 << 20;
constexpr int kThreads = 256;
constexpr int kBlocks = 64;

// sums[block] is the sum over the block's steps from `first` to `last`.
__global__ void Integrate(int first, int last, double* sums) {
  __shared__ double parts[kThreads];
  double sum = 0;
  for (int i = first + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < last;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    const double x = (i + 0.5) / kSteps;
    sum += 4 / (1 + x * x);
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half != 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int failures = 0;

  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  if (argc > 1) EXPECT(devices == std::atoi(argv[1]), "rank %d sees %d devices", rank, devices);
  CHECK(cudaSetDevice(rank % devices));
  double* sums = nullptr;
  CHECK(cudaMalloc(&sums, kBlocks * sizeof(double)));
  const int each = kSteps / size;
  Integrate<<<kBlocks, kThreads>>>(rank * each, rank == size - 1 ? kSteps : (rank + 1) * each,
                                   sums);
  CHECK_LAUNCH();
  std::vector<double> parts(kBlocks);
  CHECK(cudaMemcpy(parts.data(), sums, kBlocks * sizeof(double), cudaMemcpyDeviceToHost));
  double mine = 0;
  for (const double part : parts) mine += part;
  double pi = 0;
  MPI_Allreduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  pi /= kSteps;
  EXPECT(std::fabs(pi - 3.14159265358979) < 1e-9, "rank %d: pi is %.12f", rank, pi);

  std::vector<double> theirs(kBlocks);
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  MPI_Sendrecv(parts.data(), kBlocks, MPI_DOUBLE, next, 0, theirs.data(), kBlocks, MPI_DOUBLE,
               previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(cudaMemcpy(sums, theirs.data(), kBlocks * sizeof(double), cudaMemcpyHostToDevice));
  std::vector<double> back(kBlocks);
  CHECK(cudaMemcpy(back.data(), sums, kBlocks * sizeof(double), cudaMemcpyDeviceToHost));
  EXPECT(back == theirs, "rank %d: what came from rank %d is damaged", rank, previous);
  CHECK(cudaFree(sums));

  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::vector<cudaUUID_t> firsts(size);
  MPI_Gather(&properties.uuid, sizeof(cudaUUID_t), MPI_BYTE, firsts.data(), sizeof(cudaUUID_t),
             MPI_BYTE, 0, MPI_COMM_WORLD);
  for (int other = 0; rank == 0 && other < size; ++other) {
    std::printf("rank %d: ", other);
    for (const char byte : firsts[other].bytes) std::printf("%02x", byte & 0xff);
    std::printf("\n");
  }

  int all_failures = 0;
  MPI_Allreduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("world size %d, devices a rank %d, pi %.10f: %s\n", size, devices, pi,
                all_failures == 0 ? "PASS" : "FAIL");
  MPI_Finalize();
  return all_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
