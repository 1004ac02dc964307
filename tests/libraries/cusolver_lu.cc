// LU factors with pivots, solutions by them, and a singular matrix, in float and double.
#include <cusolverDn.h>

#include <utility>

#include "matrix_check.h"

namespace {

constexpr int kSize = 150, kSides = 5;

// Well conditioned, with large elements off the diagonal: LU exchanges rows.
template <typename T>
std::vector<T> RandomMatrix() {
  std::vector<T> matrix = RandomVector<T>(kSize * kSize, 1);
  for (int column = 0; column < kSize; ++column)
    matrix[column * kSize + (column + 17) % kSize] += 20;
  return matrix;
}

// L·U; the ones on L's diagonal are not stored.
template <typename T>
std::vector<double> FactorProduct(const std::vector<T>& factors) {
  std::vector<double> product(kSize * kSize);
  for (int column = 0; column < kSize; ++column) {
    for (int row = 0; row < kSize; ++row) {
      double sum = 0;
      for (int i = 0; i <= std::min(row, column); ++i)
        sum += (i == row ? 1.0 : static_cast<double>(factors[i * kSize + row])) *
               static_cast<double>(factors[column * kSize + i]);
      product[column * kSize + row] = sum;
    }
  }
  return product;
}

template <typename T, typename Size, typename Factorize, typename Solve>
void Compare(cusolverDnHandle_t handle, Size buffer_size, Factorize factorize, Solve solve,
             double tolerance) {
  const std::vector<T> a = RandomMatrix<T>();
  const DeviceVector<T> a_there(a);
  const DeviceVector<int> pivots(kSize), info(std::vector<int>{-1});
  int size = 0;
  CHECK(buffer_size(handle, kSize, kSize, a_there.get(), kSize, &size));
  const DeviceVector<T> work(size);
  CHECK(
      factorize(handle, kSize, kSize, a_there.get(), kSize, work.get(), pivots.get(), info.get()));
  REQUIRE(info.Read()[0] == 0);
  std::vector<T> exchanged = a;
  bool any = false;
  const std::vector<int> rows = pivots.Read();  // counted from 1
  for (int row = 0; row < kSize; ++row) {
    REQUIRE(rows[row] > row && rows[row] <= kSize);
    any = any || rows[row] != row + 1;
    for (int column = 0; column < kSize; ++column)
      std::swap(exchanged[column * kSize + row], exchanged[column * kSize + rows[row] - 1]);
  }
  REQUIRE(any);
  RequireNear(FactorProduct(a_there.Read()), exchanged, tolerance);

  const std::vector<T> b = RandomVector<T>(kSize * kSides, 2);
  for (const bool transposed : {false, true}) {
    const DeviceVector<T> x_there(b);
    CHECK(solve(handle, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kSize, kSides, a_there.get(), kSize,
                pivots.get(), x_there.get(), kSize, info.get()));
    REQUIRE(info.Read()[0] == 0);
    RequireNear(Product(a, transposed, x_there.Read(), kSize, kSides, kSize), b, tolerance);
  }

  // The last column stays 0, so the last diagonal element of U is 0.
  std::vector<T> singular = a;
  std::fill(singular.end() - kSize, singular.end(), static_cast<T>(0));
  const DeviceVector<T> singular_there(singular);
  CHECK(factorize(handle, kSize, kSize, singular_there.get(), kSize, work.get(), pivots.get(),
                  info.get()));
  REQUIRE(info.Read()[0] == kSize);
}

}  // namespace

int main() {
  cusolverDnHandle_t handle = nullptr;
  CHECK(cusolverDnCreate(&handle));
  Compare<float>(handle, cusolverDnSgetrf_bufferSize, cusolverDnSgetrf, cusolverDnSgetrs, 1e-4);
  Compare<double>(handle, cusolverDnDgetrf_bufferSize, cusolverDnDgetrf, cusolverDnDgetrs, 1e-12);
  CHECK(cusolverDnDestroy(handle));
  std::puts("right");
}
