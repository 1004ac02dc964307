// Products of a sparse matrix and a vector: CSR, transposed and not, and COO, in float and double.
#include <cusparse.h>

#include <type_traits>

#include "library_check.h"

namespace {

constexpr int kRows = 301, kColumns = 199;
constexpr double kAlpha = 1.5, kBeta = -0.5;

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

// Elements row by row: COO uses `rows`, CSR `offsets`.
template <typename T>
struct SparseMatrix {
  std::vector<int> offsets = {0}, rows, columns;
  std::vector<T> values;
};

// Row 5 is empty and row 9 is full, for different work per row.
template <typename T>
SparseMatrix<T> RandomMatrix() {
  SparseMatrix<T> matrix;
  std::mt19937 generator(7);
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const bool present = generator() % 12 == 0;
      if (row == 5 || (row != 9 && !present)) continue;
      matrix.rows.push_back(row);
      matrix.columns.push_back(column);
    }
    matrix.offsets.push_back(static_cast<int>(matrix.columns.size()));
  }
  matrix.values = RandomVector<T>(matrix.columns.size(), 1);
  return matrix;
}

template <typename T>
std::vector<double> Product(const SparseMatrix<T>& a, bool transposed, const std::vector<T>& x,
                            const std::vector<T>& y) {
  std::vector<double> product(y.begin(), y.end());
  for (double& value : product) value *= kBeta;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const int from = transposed ? a.rows[i] : a.columns[i];
    const int to = transposed ? a.columns[i] : a.rows[i];
    product[to] += kAlpha * a.values[i] * x[from];
  }
  return product;
}

// A buffer belongs to one descriptor and one operation, so each call has a new `matrix`.
template <typename T>
void Multiply(cusparseHandle_t handle, cusparseSpMatDescr_t matrix, const SparseMatrix<T>& a,
              bool transposed, cusparseSpMVAlg_t algorithm, bool preprocess, double tolerance) {
  const DeviceVector<T> x(transposed ? kRows : kColumns);
  const DeviceVector<T> y(RandomVector<T>(transposed ? kColumns : kRows, 2));
  cusparseDnVecDescr_t x_vector = nullptr, y_vector = nullptr;
  CHECK(cusparseCreateDnVec(&x_vector, static_cast<int64_t>(x.size()), x.get(), kType<T>));
  CHECK(cusparseCreateDnVec(&y_vector, static_cast<int64_t>(y.size()), y.get(), kType<T>));
  const auto operation =
      transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
  const T alpha = static_cast<T>(kAlpha), beta = static_cast<T>(kBeta);
  const auto call = [&](auto function, auto last) {
    CHECK(function(handle, operation, &alpha, matrix, x_vector, &beta, y_vector, kType<T>,
                   algorithm, last));
  };
  std::size_t size = 0;
  call(cusparseSpMV_bufferSize, &size);
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  if (preprocess) call(cusparseSpMV_preprocess, buffer.get());
  for (const unsigned seed : {3, 4}) {  // the preprocessing is valid for any vectors
    const std::vector<T> values = RandomVector<T>(x.size(), seed);
    CHECK(cudaMemcpy(x.get(), values.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice));
    const std::vector<double> expected = Product(a, transposed, values, y.Read());
    call(cusparseSpMV, buffer.get());
    RequireNear(y.Read(), expected, tolerance);
  }
  CHECK(cusparseDestroyDnVec(x_vector));
  CHECK(cusparseDestroyDnVec(y_vector));
  CHECK(cusparseDestroySpMat(matrix));
}

template <typename T>
void Compare(cusparseHandle_t handle, double tolerance) {
  const SparseMatrix<T> a = RandomMatrix<T>();
  const DeviceVector<int> offsets(a.offsets), rows(a.rows), columns(a.columns);
  const DeviceVector<T> values(a.values);
  const int64_t count = static_cast<int64_t>(values.size());
  cusparseSpMatDescr_t matrix = nullptr;
  for (const bool transposed : {false, true}) {
    CHECK(cusparseCreateCsr(&matrix, kRows, kColumns, count, offsets.get(), columns.get(),
                            values.get(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                            CUSPARSE_INDEX_BASE_ZERO, kType<T>));
    Multiply(handle, matrix, a, transposed, CUSPARSE_SPMV_ALG_DEFAULT, true, tolerance);
  }
  for (const cusparseSpMVAlg_t algorithm : {CUSPARSE_SPMV_COO_ALG1, CUSPARSE_SPMV_COO_ALG2}) {
    CHECK(cusparseCreateCoo(&matrix, kRows, kColumns, count, rows.get(), columns.get(),
                            values.get(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kType<T>));
    Multiply(handle, matrix, a, false, algorithm, false, tolerance);
  }
}

}  // namespace

int main() {
  cusparseHandle_t handle = nullptr;
  CHECK(cusparseCreate(&handle));
  Compare<float>(handle, 1e-5);
  Compare<double>(handle, 1e-13);
  CHECK(cusparseDestroy(handle));
  std::puts("right");
}
