// Small applications, timed end to end: transfer to the device, computation, transfer back. An
// ordinary CUDA program, run by `cuspan bench apps` in several placements. Each argument yields one
// line of output:
//   matmul:N   the product of two N × N matrices of float
//   fft:N      N Fourier transforms of 1,024 complex points of double
//   walk:N     host and kernel alternately change N MiB of managed memory
//   copies:N   the transfers and kernel of a walk, with N MiB of pinned memory
//     APPLICATION N SECONDS…
//
//   program [--repetitions R] APPLICATION:N…
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/common/check_cuda.h"

namespace {

using Clock = std::chrono::steady_clock;

int repetitions = 5;

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile* kTile)
    Multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < n; start += kTile) {
    const int i = start + threadIdx.x;
    const int j = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < n && i < n ? a[size_t(row) * n + i] : 0;
    tile_b[threadIdx.y][threadIdx.x] = j < n && column < n ? b[size_t(j) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[size_t(row) * n + column] = sum;
}

constexpr int kLogPoints = 10;
constexpr int kPoints = 1 << kLogPoints;

// Each block transforms kPoints points, in place.
__global__ void __launch_bounds__(kPoints / 2) Transform(double2* data) {
  __shared__ double2 points[kPoints];
  double2* const own = data + size_t(blockIdx.x) * kPoints;
  for (int i = threadIdx.x; i < kPoints; i += blockDim.x)
    points[__brev(i) >> (32 - kLogPoints)] = own[i];
  __syncthreads();
  for (int half = 1; half < kPoints; half *= 2) {
    const int position = threadIdx.x & (half - 1);
    const int even = 2 * (threadIdx.x - position) + position;
    double sine, cosine;
    sincospi(-double(position) / half, &sine, &cosine);
    const double2 a = points[even];
    const double2 b = points[even + half];
    const double2 turned = make_double2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    points[even] = make_double2(a.x + turned.x, a.y + turned.y);
    points[even + half] = make_double2(a.x - turned.x, a.y - turned.y);
    __syncthreads();
  }
  for (int i = threadIdx.x; i < kPoints; i += blockDim.x) own[i] = points[i];
}

__global__ void Increment(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) ++values[i];
}

template <typename T>
struct HostArray {
  explicit HostArray(size_t count) { CHECK(cudaMallocHost(&data, count * sizeof(T))); }
  ~HostArray() { CHECK(cudaFreeHost(data)); }
  T* data = nullptr;
};

template <typename T>
struct DeviceArray {
  explicit DeviceArray(size_t count) { CHECK(cudaMalloc(&data, count * sizeof(T))); }
  ~DeviceArray() { CHECK(cudaFree(data)); }
  T* data = nullptr;
};

template <typename Run>
std::vector<double> Time(Run&& run) {
  run();  // Warm-up.
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = Clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

std::vector<double> MatrixProduct(int n, bool* right) {
  const size_t count = size_t(n) * n;
  const size_t bytes = count * sizeof(float);
  HostArray<float> a(count), b(count), c(count);
  DeviceArray<float> da(count), db(count), dc(count);
  for (size_t i = 0; i < count; ++i) {
    a.data[i] = float(i % 7) - 3;
    b.data[i] = float(i % 5) - 2;
  }
  const unsigned blocks = unsigned(n + kTile - 1) / kTile;
  const std::vector<double> seconds = Time([&] {
    CHECK(cudaMemcpyAsync(da.data, a.data, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(db.data, b.data, bytes, cudaMemcpyHostToDevice));
    Multiply<<<dim3(blocks, blocks), dim3(kTile, kTile)>>>(da.data, db.data, dc.data, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(c.data, dc.data, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
  });
  // Small integers: exact in any order of addition.
  double expected = 0;
  for (int k = 0; k < n; ++k)
    expected += a.data[size_t(n - 1) * n + k] * b.data[size_t(k) * n + n / 2];
  *right = c.data[size_t(n - 1) * n + n / 2] == float(expected);
  return seconds;
}

std::vector<double> Fourier(int transforms, bool* right) {
  const size_t count = size_t(transforms) * kPoints;
  const size_t bytes = count * sizeof(double2);
  HostArray<double2> in(count), out(count);
  DeviceArray<double2> data(count);
  // Each transform gets a wave with its own frequency: its spectrum is a single point.
  for (size_t i = 0; i < count; ++i) {
    const double angle =
        2 * M_PI * double((i % kPoints) * (i / kPoints % kPoints) % kPoints) / kPoints;
    in.data[i] = make_double2(std::cos(angle), std::sin(angle));
  }
  const std::vector<double> seconds = Time([&] {
    CHECK(cudaMemcpyAsync(data.data, in.data, bytes, cudaMemcpyHostToDevice));
    Transform<<<unsigned(transforms), kPoints / 2>>>(data.data);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(out.data, data.data, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
  });
  const size_t last = size_t(transforms - 1);
  const double2 peak = out.data[last * kPoints + last % kPoints];
  *right = std::abs(peak.x - kPoints) < 1e-6 && std::abs(peak.y) < 1e-6;
  return seconds;
}

constexpr int kIntsPerMebibyte = (1 << 20) / sizeof(int);

void LaunchIncrement(int* values, int count) {
  constexpr int kThreads = 256;
  Increment<<<(count + kThreads - 1) / kThreads, kThreads>>>(values, count);
  CHECK(cudaGetLastError());
}

std::vector<double> Walk(int mebibytes, bool* right) {
  const int count = mebibytes * kIntsPerMebibyte;
  int* values = nullptr;
  CHECK(cudaMallocManaged(&values, count * sizeof(int)));
  int turn = 0;
  long wrong = 0;
  const std::vector<double> seconds = Time([&] {
    ++turn;
    for (int i = 0; i < count; ++i) values[i] = i + turn;
    LaunchIncrement(values, count);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; ++i) wrong += values[i] != i + turn + 1;
  });
  CHECK(cudaFree(values));
  *right = wrong == 0;
  return seconds;
}

std::vector<double> CopyBothWays(int mebibytes, bool* right) {
  const int count = mebibytes * kIntsPerMebibyte;
  const size_t bytes = count * sizeof(int);
  HostArray<int> in(count), out(count);
  DeviceArray<int> values(count);
  for (int i = 0; i < count; ++i) in.data[i] = i;
  const std::vector<double> seconds = Time([&] {
    CHECK(cudaMemcpyAsync(values.data, in.data, bytes, cudaMemcpyHostToDevice));
    LaunchIncrement(values.data, count);
    CHECK(cudaMemcpyAsync(out.data, values.data, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
  });
  *right = out.data[0] == 1 && out.data[count - 1] == count;
  return seconds;
}

struct Application {
  const char* name;
  std::vector<double> (*run)(int n, bool* right);
};
constexpr Application kApplications[] = {
    {"matmul", MatrixProduct}, {"fft", Fourier}, {"walk", Walk}, {"copies", CopyBothWays}};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--repetitions") == 0 && i + 1 < argc) {
      repetitions = std::max(std::atoi(argv[++i]), 1);
      continue;
    }
    char name[16] = {};
    int n = 0;
    const Application* application = nullptr;
    if (std::sscanf(argv[i], "%15[^:]:%d", name, &n) == 2 && n >= 1) {
      for (const Application& one : kApplications)
        if (std::strcmp(name, one.name) == 0) application = &one;
    }
    if (application == nullptr) {
      std::fprintf(stderr, "'%s' is not APPLICATION:N\n", argv[i]);
      return 2;
    }
    bool right = false;
    const std::vector<double> seconds = application->run(n, &right);
    if (!right) {
      std::fprintf(stderr, "%s of %d: the result is wrong\n", name, n);
      return 3;
    }
    std::printf("%s %d", name, n);
    for (const double time : seconds) std::printf(" %.9g", time);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
