// Multiplies two square matrices with tiles in shared memory. Each device computes a slab of rows.
// Runs once with 16x16 and once with 32x32 tiles.
//
//   matmul [SIZE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

// c = a * b for `rows` rows of a and c; a and c have rows of n elements, b is n by n.
template <int kTile>
__global__ void __launch_bounds__(kTile* kTile)
    Multiply(const float* a, const float* b, float* c, int rows, int n) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;

  float sum = 0.0f;
  for (int start = 0; start < n; start += kTile) {
    const int a_column = start + threadIdx.x;
    const int b_row = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] =
        row < rows && a_column < n ? a[static_cast<size_t>(row) * n + a_column] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] =
        b_row < n && column < n ? b[static_cast<size_t>(b_row) * n + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      sum = fmaf(tile_a[threadIdx.y][k], tile_b[k][threadIdx.x], sum);
    }
    __syncthreads();
  }
  if (row < rows && column < n) c[static_cast<size_t>(row) * n + column] = sum;
}

// One device's part of the work.
struct Slab {
  int device;
  int first_row;
  int rows;
  float* a;
  float* b;
  float* c;
};

template <int kTile>
void Launch(const Slab& slab, int n) {
  const dim3 threads(kTile, kTile);
  const dim3 blocks((n + kTile - 1) / kTile, (slab.rows + kTile - 1) / kTile);
  Multiply<kTile><<<blocks, threads>>>(slab.a, slab.b, slab.c, slab.rows, n);
  CHECK_LAUNCH();
}

std::vector<Slab> Distribute(const std::vector<float>& a, const std::vector<float>& b, int n) {
  const int devices = DeviceCount();
  const int rows_each = (n + devices - 1) / devices;
  std::vector<Slab> slabs;
  for (int device = 0; device < devices; ++device) {
    Slab slab{device, std::min(n, device * rows_each), 0, nullptr, nullptr, nullptr};
    slab.rows = std::min(rows_each, n - slab.first_row);
    if (slab.rows == 0) continue;
    const size_t slab_bytes = static_cast<size_t>(slab.rows) * n * sizeof(float);
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&slab.a, slab_bytes));
    CHECK(cudaMalloc(&slab.b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&slab.c, slab_bytes));
    CHECK(cudaMemcpy(slab.a, &a[static_cast<size_t>(slab.first_row) * n], slab_bytes,
                     cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(slab.b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    slabs.push_back(slab);
  }
  return slabs;
}

// Multiplies on all devices at once and returns the product.
template <int kTile>
std::vector<float> Run(const std::vector<Slab>& slabs, int n) {
  std::vector<float> c(static_cast<size_t>(n) * n, NAN);
  for (const Slab& slab : slabs) {
    CHECK(cudaSetDevice(slab.device));
    // NaN in every element: an element not written by any thread counts as wrong.
    CHECK(cudaMemset(slab.c, 0xff, static_cast<size_t>(slab.rows) * n * sizeof(float)));
    Launch<kTile>(slab, n);
  }
  for (const Slab& slab : slabs) {
    CHECK(cudaSetDevice(slab.device));
    CHECK(cudaMemcpy(&c[static_cast<size_t>(slab.first_row) * n], slab.c,
                     static_cast<size_t>(slab.rows) * n * sizeof(float), cudaMemcpyDeviceToHost));
  }
  return c;
}

// Compares with sums in double: all elements of a small product, some of a large one.
int Compare(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c,
            int n, int tile) {
  const int step = n <= 512 ? 1 : n / 61;
  int failures = 0;
  for (int row = 0; row < n && failures < 5; row += step) {
    std::vector<double> expected(n, 0.0);
    for (int k = 0; k < n; ++k) {
      const double factor = a[static_cast<size_t>(row) * n + k];
      for (int column = 0; column < n; ++column) {
        expected[column] += factor * b[static_cast<size_t>(k) * n + column];
      }
    }
    for (int column = 0; column < n && failures < 5; ++column) {
      const float got = c[static_cast<size_t>(row) * n + column];
      // |a|, |b| <= 1, so each of n roundings is at most n times half an ulp of 1.
      EXPECT(std::fabs(got - expected[column]) <= 1e-6 * n,
             "%d x %d tiles, c[%d][%d] is %g, not %g", tile, tile, row, column, got,
             expected[column]);
    }
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const int n = static_cast<int>(NumberArgument(argc, argv, 1, 256, 1, 16384));
  std::vector<float> a(static_cast<size_t>(n) * n);
  std::vector<float> b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i * 7919 % 2001) * 1e-3f - 1.0f;
    b[i] = static_cast<float>(i * 6421 % 1999) * 1e-3f - 1.0f;
  }

  const std::vector<Slab> slabs = Distribute(a, b, n);
  int failures = Compare(a, b, Run<16>(slabs, n), n, 16);
  failures += Compare(a, b, Run<32>(slabs, n), n, 32);
  for (const Slab& slab : slabs) {
    CHECK(cudaSetDevice(slab.device));
    CHECK(cudaFree(slab.a));
    CHECK(cudaFree(slab.b));
    CHECK(cudaFree(slab.c));
  }

  const int devices = static_cast<int>(slabs.size());
  std::printf("matmul: %d x %d, tiles of 16 and 32, on %d %s: %s\n", n, n, devices,
              Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
