// QR factors, Q as a matrix and applied to one, and least squares with cuBLAS's triangular solver.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include "matrix_check.h"

namespace {

constexpr int kRows = 160, kColumns = 60, kSides = 5;
constexpr double kTolerance = 1e-12;

// The first `count` rows of each column.
std::vector<double> FirstRows(const std::vector<double>& matrix, int count) {
  std::vector<double> rows;
  for (std::size_t first = 0; first < matrix.size(); first += kRows)
    rows.insert(rows.end(), matrix.begin() + first, matrix.begin() + first + count);
  return rows;
}

void Compare(cusolverDnHandle_t handle, cublasHandle_t blas) {
  const std::vector<double> a = RandomVector<double>(kRows * kColumns, 1);
  const std::vector<double> b = RandomVector<double>(kRows * kSides, 2);
  const DeviceVector<double> a_there(a), b_there(b), tau(kColumns);
  const DeviceVector<int> info(std::vector<int>{-1});
  int factor_size = 0, apply_size = 0, form_size = 0;
  CHECK(cusolverDnDgeqrf_bufferSize(handle, kRows, kColumns, a_there.get(), kRows, &factor_size));
  CHECK(cusolverDnDormqr_bufferSize(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, kRows, kSides, kColumns,
                                    a_there.get(), kRows, tau.get(), b_there.get(), kRows,
                                    &apply_size));
  CHECK(cusolverDnDorgqr_bufferSize(handle, kRows, kColumns, kColumns, a_there.get(), kRows,
                                    tau.get(), &form_size));
  const int size = std::max({factor_size, apply_size, form_size});
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDgeqrf(handle, kRows, kColumns, a_there.get(), kRows, tau.get(), work.get(), size,
                         info.get()));
  REQUIRE(info.Read()[0] == 0);
  std::vector<double> r = FirstRows(a_there.Read(), kColumns);
  for (int column = 0; column < kColumns; ++column)  // the elements below describe Q
    std::fill(r.begin() + column * kColumns + column + 1, r.begin() + (column + 1) * kColumns, 0.0);

  const DeviceVector<double> q_there(a_there.Read());
  CHECK(cusolverDnDorgqr(handle, kRows, kColumns, kColumns, q_there.get(), kRows, tau.get(),
                         work.get(), size, info.get()));
  REQUIRE(info.Read()[0] == 0);
  const std::vector<double> q = q_there.Read();
  std::vector<double> identity(kColumns * kColumns);
  for (int i = 0; i < kColumns; ++i) identity[i * (kColumns + 1)] = 1;
  RequireNear(Product(q, true, q, kColumns, kColumns, kRows), identity, kTolerance);
  RequireNear(Product(q, false, r, kRows, kColumns, kColumns), a, kTolerance);

  CHECK(cusolverDnDormqr(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, kRows, kSides, kColumns,
                         a_there.get(), kRows, tau.get(), b_there.get(), kRows, work.get(), size,
                         info.get()));
  REQUIRE(info.Read()[0] == 0);
  const std::vector<double> rotated = b_there.Read();
  RequireNear(FirstRows(rotated, kColumns), Product(q, true, b, kColumns, kSides, kRows),
              kTolerance);
  for (int side = 0; side < kSides; ++side) {  // remaining rows: Q preserves lengths
    double length = 0, rotated_length = 0;
    for (int i = side * kRows; i < (side + 1) * kRows; ++i) {
      length += b[i] * b[i];
      rotated_length += rotated[i] * rotated[i];
    }
    REQUIRE(std::abs(rotated_length - length) <= kTolerance * length);
  }

  const double one = 1;
  CHECK(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                    CUBLAS_DIAG_NON_UNIT, kColumns, kSides, &one, a_there.get(), kRows,
                    b_there.get(), kRows));
  const std::vector<double> x = FirstRows(b_there.Read(), kColumns);
  // The residual of b is orthogonal to the columns of a.
  const std::vector<double> fitted = Product(a, false, x, kRows, kSides, kColumns);
  RequireNear(Product(a, true, fitted, kColumns, kSides, kRows),
              Product(a, true, b, kColumns, kSides, kRows), kTolerance);
}

}  // namespace

int main() {
  cusolverDnHandle_t handle = nullptr;
  cublasHandle_t blas = nullptr;
  CHECK(cusolverDnCreate(&handle));
  CHECK(cublasCreate(&blas));
  Compare(handle, blas);
  CHECK(cublasDestroy(blas));
  CHECK(cusolverDnDestroy(handle));
  std::puts("right");
}
