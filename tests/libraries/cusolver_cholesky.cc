// Cholesky factors, solutions and inverses by them, and info for a matrix without a factor.
#include <cusolverDn.h>

#include "matrix_check.h"

namespace {

constexpr int kSize = 120, kSides = 7;

// A symmetric matrix with eigenvalues well above 0.
std::vector<double> PositiveDefinite() {
  const std::vector<double> root = RandomVector<double>(kSize * kSize, 1);
  std::vector<double> matrix = Product(root, true, root, kSize, kSize, kSize);
  for (int i = 0; i < kSize; ++i) matrix[i * kSize + i] += 10;
  return matrix;
}

// The triangle named by `fill`, with 0 in the other one.
std::vector<double> Triangle(std::vector<double> matrix, cublasFillMode_t fill) {
  for (int column = 0; column < kSize; ++column)
    for (int row = 0; row < kSize; ++row)
      if (fill == CUBLAS_FILL_MODE_LOWER ? row < column : row > column)
        matrix[column * kSize + row] = 0;
  return matrix;
}

std::vector<double> Transposed(const std::vector<double>& matrix) {
  std::vector<double> transposed(matrix.size());
  for (int column = 0; column < kSize; ++column)
    for (int row = 0; row < kSize; ++row)
      transposed[row * kSize + column] = matrix[column * kSize + row];
  return transposed;
}

// Returns potrf's info.
int Factorize(cusolverDnHandle_t handle, cublasFillMode_t fill, const DeviceVector<double>& a) {
  const DeviceVector<int> info(1);
  int size = 0;
  CHECK(cusolverDnDpotrf_bufferSize(handle, fill, kSize, a.get(), kSize, &size));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDpotrf(handle, fill, kSize, a.get(), kSize, work.get(), size, info.get()));
  return info.Read()[0];
}

void Compare(cusolverDnHandle_t handle, cublasFillMode_t fill) {
  const std::vector<double> a = PositiveDefinite();
  const DeviceVector<double> a_there(a);
  REQUIRE(Factorize(handle, fill, a_there) == 0);
  // a = upperᵀ·upper; the lower factor is the transpose of the upper one.
  const std::vector<double> factor = Triangle(a_there.Read(), fill);
  const std::vector<double> upper = fill == CUBLAS_FILL_MODE_LOWER ? Transposed(factor) : factor;
  RequireNear(Product(upper, true, upper, kSize, kSize, kSize), a, 1e-12);

  const std::vector<double> b = RandomVector<double>(kSize * kSides, 2);
  const DeviceVector<double> x_there(b);
  const DeviceVector<int> info(std::vector<int>{-1});
  CHECK(cusolverDnDpotrs(handle, fill, kSize, kSides, a_there.get(), kSize, x_there.get(), kSize,
                         info.get()));
  REQUIRE(info.Read()[0] == 0);
  RequireNear(Product(a, false, x_there.Read(), kSize, kSides, kSize), b, 1e-12);

  int size = 0;
  CHECK(cusolverDnDpotri_bufferSize(handle, fill, kSize, a_there.get(), kSize, &size));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDpotri(handle, fill, kSize, a_there.get(), kSize, work.get(), size, info.get()));
  REQUIRE(info.Read()[0] == 0);
  // The inverse is symmetric, and only one triangle of it is stored.
  std::vector<double> inverse = Triangle(a_there.Read(), fill);
  const std::vector<double> mirrored = Transposed(inverse);
  std::vector<double> identity(kSize * kSize);
  for (int i = 0; i < kSize * kSize; ++i) {
    if (i % (kSize + 1) == 0) identity[i] = 1;
    if (i % (kSize + 1) != 0) inverse[i] += mirrored[i];
  }
  RequireNear(Product(a, false, inverse, kSize, kSize, kSize), identity, 1e-12);

  // A negative diagonal element makes all leading submatrices with it indefinite. info must name
  // one of them, but not necessarily the first: on an H200 it is another.
  for (const int order : {1, 64, 77, kSize}) {
    std::vector<double> indefinite = a;
    indefinite[(order - 1) * (kSize + 1)] = -1;
    const int found = Factorize(handle, fill, DeviceVector<double>(indefinite));
    if (found >= order && found <= kSize) continue;
    std::fprintf(stderr, "the leading minor of order %d is said to be bad, which begin at %d\n",
                 found, order);
    std::exit(1);
  }
}

}  // namespace

int main() {
  cusolverDnHandle_t handle = nullptr;
  CHECK(cusolverDnCreate(&handle));
  Compare(handle, CUBLAS_FILL_MODE_LOWER);
  Compare(handle, CUBLAS_FILL_MODE_UPPER);
  CHECK(cusolverDnDestroy(handle));
  std::puts("right");
}
