// Lower triangular systems in CSR: one right-hand side after another, and several at a time.
#include <cusparse.h>

#include "library_check.h"

namespace {

constexpr int kSize = 240, kSides = 6;
constexpr double kAlpha = 1.5;

struct SparseMatrix {
  std::vector<int> offsets = {0}, columns;
  std::vector<double> values;
};

// The diagonal dominates its row and column; solutions therefore stay small.
SparseMatrix RandomTriangle() {
  SparseMatrix matrix;
  std::mt19937 generator(7);
  for (int row = 0; row < kSize; ++row) {
    for (int column = 0; column <= row; ++column)
      if (column == row || generator() % 12 == 0) matrix.columns.push_back(column);
    matrix.offsets.push_back(static_cast<int>(matrix.columns.size()));
  }
  matrix.values = RandomVector<double>(matrix.columns.size(), 1);
  for (int row = 0; row < kSize; ++row) {
    for (int i = matrix.offsets[row]; i < matrix.offsets[row + 1] - 1; ++i) matrix.values[i] *= 0.1;
    double& diagonal = matrix.values[matrix.offsets[row + 1] - 1];
    diagonal += diagonal < 0 ? -2 : 2;
  }
  return matrix;
}

// Requires op(a)·x = kAlpha·b, column by column, by multiplying x back.
void RequireSolved(const SparseMatrix& a, cusparseOperation_t operation,
                   const std::vector<double>& x, std::vector<double> b) {
  std::vector<double> product(x.size());
  for (std::size_t first = 0; first < x.size(); first += kSize) {
    for (int row = 0; row < kSize; ++row) {
      for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i) {
        const bool transposed = operation == CUSPARSE_OPERATION_TRANSPOSE;
        const int from = transposed ? row : a.columns[i], to = transposed ? a.columns[i] : row;
        product[first + to] += a.values[i] * x[first + from];
      }
    }
  }
  for (double& value : b) value *= kAlpha;
  RequireNear(product, b, 1e-12);
}

void SolveOneByOne(cusparseHandle_t handle, cusparseSpMatDescr_t matrix, const SparseMatrix& a,
                   cusparseOperation_t operation) {
  const DeviceVector<double> b_there(kSize), x_there(kSize);
  cusparseDnVecDescr_t b_vector = nullptr, x_vector = nullptr;
  CHECK(cusparseCreateDnVec(&b_vector, kSize, b_there.get(), CUDA_R_64F));
  CHECK(cusparseCreateDnVec(&x_vector, kSize, x_there.get(), CUDA_R_64F));
  cusparseSpSVDescr_t solver = nullptr;
  CHECK(cusparseSpSV_createDescr(&solver));
  const auto call = [&](auto function, auto... last) {
    CHECK(function(handle, operation, &kAlpha, matrix, b_vector, x_vector, CUDA_R_64F,
                   CUSPARSE_SPSV_ALG_DEFAULT, solver, last...));
  };
  std::size_t size = 0;
  call(cusparseSpSV_bufferSize, &size);
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  call(cusparseSpSV_analysis, buffer.get());
  for (unsigned side = 0; side < kSides; ++side) {
    const std::vector<double> b = RandomVector<double>(kSize, 2 + side);
    CHECK(cudaMemcpy(b_there.get(), b.data(), kSize * sizeof(double), cudaMemcpyHostToDevice));
    call(cusparseSpSV_solve);
    RequireSolved(a, operation, x_there.Read(), b);
  }
  CHECK(cusparseSpSV_destroyDescr(solver));
  CHECK(cusparseDestroyDnVec(b_vector));
  CHECK(cusparseDestroyDnVec(x_vector));
}

void SolveTogether(cusparseHandle_t handle, cusparseSpMatDescr_t matrix, const SparseMatrix& a,
                   cusparseOperation_t operation) {
  const std::vector<double> b = RandomVector<double>(kSize * kSides, 20);
  const DeviceVector<double> b_there(b), x_there(b.size());
  cusparseDnMatDescr_t b_matrix = nullptr, x_matrix = nullptr;
  CHECK(cusparseCreateDnMat(&b_matrix, kSize, kSides, kSize, b_there.get(), CUDA_R_64F,
                            CUSPARSE_ORDER_COL));
  CHECK(cusparseCreateDnMat(&x_matrix, kSize, kSides, kSize, x_there.get(), CUDA_R_64F,
                            CUSPARSE_ORDER_COL));
  cusparseSpSMDescr_t solver = nullptr;
  CHECK(cusparseSpSM_createDescr(&solver));
  const auto call = [&](auto function, auto... last) {
    CHECK(function(handle, operation, CUSPARSE_OPERATION_NON_TRANSPOSE, &kAlpha, matrix, b_matrix,
                   x_matrix, CUDA_R_64F, CUSPARSE_SPSM_ALG_DEFAULT, solver, last...));
  };
  std::size_t size = 0;
  call(cusparseSpSM_bufferSize, &size);
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  call(cusparseSpSM_analysis, buffer.get());
  call(cusparseSpSM_solve);
  RequireSolved(a, operation, x_there.Read(), b);
  CHECK(cusparseSpSM_destroyDescr(solver));
  CHECK(cusparseDestroyDnMat(b_matrix));
  CHECK(cusparseDestroyDnMat(x_matrix));
}

}  // namespace

int main() {
  cusparseHandle_t handle = nullptr;
  CHECK(cusparseCreate(&handle));
  const SparseMatrix a = RandomTriangle();
  const DeviceVector<int> offsets(a.offsets), columns(a.columns);
  const DeviceVector<double> values(a.values);
  cusparseSpMatDescr_t matrix = nullptr;
  CHECK(cusparseCreateCsr(&matrix, kSize, kSize, static_cast<int64_t>(values.size()), offsets.get(),
                          columns.get(), values.get(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
  cusparseFillMode_t lower = CUSPARSE_FILL_MODE_LOWER;
  cusparseDiagType_t stored = CUSPARSE_DIAG_TYPE_NON_UNIT;
  CHECK(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_FILL_MODE, &lower, sizeof lower));
  CHECK(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_DIAG_TYPE, &stored, sizeof stored));
  for (const auto operation : {CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE}) {
    SolveOneByOne(handle, matrix, a, operation);
    SolveTogether(handle, matrix, a, operation);
  }
  CHECK(cusparseDestroySpMat(matrix));
  CHECK(cusparseDestroy(handle));
  std::puts("right");
}
