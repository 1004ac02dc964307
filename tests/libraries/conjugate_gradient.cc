// Conjugate gradients for a 2D Poisson problem by cuSPARSE and cuBLAS, with scalars on the device.
#include <cublas_v2.h>
#include <cusparse.h>

#include "library_check.h"

namespace {

constexpr int kWidth = 48, kSize = kWidth * kWidth;
constexpr int kMaxSteps = 400;

struct SparseMatrix {
  std::vector<int> offsets = {0}, columns;
  std::vector<double> values;
};

// Matrix of the five-point stencil: 4 for each point, -1 for each of its neighbours in the square.
SparseMatrix Poisson() {
  SparseMatrix matrix;
  for (int point = 0; point < kSize; ++point) {
    const int x = point % kWidth, y = point / kWidth;
    const auto add = [&](bool inside, int column, double value) {
      if (!inside) return;
      matrix.columns.push_back(column);
      matrix.values.push_back(value);
    };
    add(y > 0, point - kWidth, -1);
    add(x > 0, point - 1, -1);
    add(true, point, 4);
    add(x < kWidth - 1, point + 1, -1);
    add(y < kWidth - 1, point + kWidth, -1);
    matrix.offsets.push_back(static_cast<int>(matrix.columns.size()));
  }
  return matrix;
}

std::vector<double> Product(const SparseMatrix& a, const std::vector<double>& x) {
  std::vector<double> product(kSize);
  for (int row = 0; row < kSize; ++row)
    for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i)
      product[row] += a.values[i] * x[a.columns[i]];
  return product;
}

void Copy(double* to, const double* from) {
  CHECK(cudaMemcpyAsync(to, from, sizeof(double), cudaMemcpyDeviceToDevice));
}

// Divides on the device, as a triangular system of one row.
void Divide(cublasHandle_t blas, double* quotient, const double* numerator,
            const double* denominator) {
  Copy(quotient, numerator);
  CHECK(cublasDtrsv(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, 1, denominator,
                    1, quotient, 1));
}

}  // namespace

int main() {
  cusparseHandle_t sparse = nullptr;
  cublasHandle_t blas = nullptr;
  CHECK(cusparseCreate(&sparse));
  CHECK(cublasCreate(&blas));
  CHECK(cusparseSetPointerMode(sparse, CUSPARSE_POINTER_MODE_DEVICE));
  CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));

  const SparseMatrix a = Poisson();
  const std::vector<double> solution = RandomVector<double>(kSize), b = Product(a, solution);
  const DeviceVector<int> offsets(a.offsets), columns(a.columns);
  const DeviceVector<double> values(a.values);
  // Since x starts at 0, the first residual and direction are b.
  const DeviceVector<double> x(std::vector<double>(kSize, 0)), residual(b), direction(b);
  const DeviceVector<double> image(kSize);  // of the direction
  const DeviceVector<double> constants(std::vector<double>{0, 1, -1}), scalars(6);
  const double *const zero = constants.get(), *const one = zero + 1, *const minus_one = zero + 2;
  double *const norm = scalars.get(), *const next_norm = norm + 1;  // of the residual, squared
  double *const curvature = norm + 2, *const step = norm + 3, *const minus_step = norm + 4;
  double* const ratio = norm + 5;

  cusparseSpMatDescr_t matrix = nullptr;
  cusparseDnVecDescr_t direction_vector = nullptr, image_vector = nullptr;
  CHECK(cusparseCreateCsr(&matrix, kSize, kSize, static_cast<int64_t>(values.size()), offsets.get(),
                          columns.get(), values.get(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
  CHECK(cusparseCreateDnVec(&direction_vector, kSize, direction.get(), CUDA_R_64F));
  CHECK(cusparseCreateDnVec(&image_vector, kSize, image.get(), CUDA_R_64F));
  std::size_t size = 0;
  CHECK(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, one, matrix,
                                direction_vector, zero, image_vector, CUDA_R_64F,
                                CUSPARSE_SPMV_ALG_DEFAULT, &size));
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));

  CHECK(cublasDdot(blas, kSize, residual.get(), 1, residual.get(), 1, norm));
  int steps = 0;
  for (double squared = 1; squared > 1e-20; ++steps) {
    REQUIRE(steps < kMaxSteps);
    CHECK(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, one, matrix, direction_vector,
                       zero, image_vector, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, buffer.get()));
    CHECK(cublasDdot(blas, kSize, direction.get(), 1, image.get(), 1, curvature));
    Divide(blas, step, norm, curvature);
    Copy(minus_step, step);
    CHECK(cublasDscal(blas, 1, minus_one, minus_step, 1));
    CHECK(cublasDaxpy(blas, kSize, step, direction.get(), 1, x.get(), 1));
    CHECK(cublasDaxpy(blas, kSize, minus_step, image.get(), 1, residual.get(), 1));
    CHECK(cublasDdot(blas, kSize, residual.get(), 1, residual.get(), 1, next_norm));
    Divide(blas, ratio, next_norm, norm);
    CHECK(cublasDscal(blas, kSize, ratio, direction.get(), 1));
    CHECK(cublasDaxpy(blas, kSize, one, residual.get(), 1, direction.get(), 1));
    Copy(norm, next_norm);
    CHECK(cudaMemcpy(&squared, norm, sizeof squared, cudaMemcpyDeviceToHost));
  }
  REQUIRE(steps > 1);

  const std::vector<double> found = x.Read(), back = Product(a, found);
  double squared = 0;
  for (int i = 0; i < kSize; ++i) squared += (b[i] - back[i]) * (b[i] - back[i]);
  REQUIRE(std::sqrt(squared) < 1e-8);
  RequireNear(found, solution, 1e-7);
  CHECK(cusparseDestroyDnVec(direction_vector));
  CHECK(cusparseDestroyDnVec(image_vector));
  CHECK(cusparseDestroySpMat(matrix));
  CHECK(cublasDestroy(blas));
  CHECK(cusparseDestroy(sparse));
  std::puts("right");
}
