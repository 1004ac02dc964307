// Products of a CSR matrix and a dense one, stored by rows or by columns, both transposed and not.
#include <cusparse.h>

#include <type_traits>

#include "library_check.h"

namespace {

constexpr int kRows = 160, kColumns = 120, kWidth = 24;  // a is kRows × kColumns
// after each row or column of dense matrices
constexpr int kPadding = 8;
constexpr double kAlpha = 1.5, kBeta = -0.5;

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

template <typename T>
struct SparseMatrix {
  std::vector<int> offsets = {0}, columns;
  std::vector<T> values;
};

// Positions of the elements of a dense matrix.
struct Layout {
  int rows, columns;
  cusparseOrder_t order;

  int Stride() const { return (order == CUSPARSE_ORDER_COL ? rows : columns) + kPadding; }
  int Size() const { return Stride() * (order == CUSPARSE_ORDER_COL ? columns : rows); }
  int At(int row, int column) const {
    return order == CUSPARSE_ORDER_COL ? column * Stride() + row : row * Stride() + column;
  }
};

template <typename T>
SparseMatrix<T> RandomMatrix() {
  SparseMatrix<T> matrix;
  std::mt19937 generator(7);
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column)
      if (generator() % 10 == 0) matrix.columns.push_back(column);
    matrix.offsets.push_back(static_cast<int>(matrix.columns.size()));
  }
  matrix.values = RandomVector<T>(matrix.columns.size(), 1);
  return matrix;
}

// The padding must stay unchanged.
template <typename T>
std::vector<double> Product(const SparseMatrix<T>& a, bool a_transposed, const std::vector<T>& b,
                            const Layout& b_layout, bool b_transposed, const std::vector<T>& c,
                            const Layout& c_layout) {
  std::vector<double> product(c.begin(), c.end());
  for (int column = 0; column < kWidth; ++column) {
    for (int row = 0; row < c_layout.rows; ++row) product[c_layout.At(row, column)] *= kBeta;
    for (int row = 0; row < kRows; ++row) {
      for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i) {
        const int from = a_transposed ? row : a.columns[i];
        const int to = a_transposed ? a.columns[i] : row;
        const int at = b_transposed ? b_layout.At(column, from) : b_layout.At(from, column);
        product[c_layout.At(to, column)] += kAlpha * a.values[i] * b[at];
      }
    }
  }
  return product;
}

template <typename T>
void Compare(cusparseHandle_t handle, bool a_transposed, bool b_transposed, cusparseOrder_t order,
             double tolerance) {
  const int inner = a_transposed ? kRows : kColumns;
  const Layout b_layout = {b_transposed ? kWidth : inner, b_transposed ? inner : kWidth, order};
  const Layout c_layout = {a_transposed ? kColumns : kRows, kWidth, order};
  const SparseMatrix<T> a = RandomMatrix<T>();
  const auto b = RandomVector<T>(b_layout.Size(), 2), c = RandomVector<T>(c_layout.Size(), 3);
  const DeviceVector<int> offsets(a.offsets), columns(a.columns);
  const DeviceVector<T> values(a.values), b_there(b), c_there(c);
  cusparseSpMatDescr_t a_matrix = nullptr;
  cusparseDnMatDescr_t b_matrix = nullptr, c_matrix = nullptr;
  CHECK(cusparseCreateCsr(&a_matrix, kRows, kColumns, static_cast<int64_t>(values.size()),
                          offsets.get(), columns.get(), values.get(), CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kType<T>));
  CHECK(cusparseCreateDnMat(&b_matrix, b_layout.rows, b_layout.columns, b_layout.Stride(),
                            b_there.get(), kType<T>, order));
  CHECK(cusparseCreateDnMat(&c_matrix, c_layout.rows, c_layout.columns, c_layout.Stride(),
                            c_there.get(), kType<T>, order));
  const T alpha = static_cast<T>(kAlpha), beta = static_cast<T>(kBeta);
  const auto call = [&](auto function, auto last) {
    CHECK(function(
        handle, a_transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE,
        b_transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha,
        a_matrix, b_matrix, &beta, c_matrix, kType<T>, CUSPARSE_SPMM_ALG_DEFAULT, last));
  };
  std::size_t size = 0;
  call(cusparseSpMM_bufferSize, &size);
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  call(cusparseSpMM, buffer.get());
  RequireNear(c_there.Read(), Product(a, a_transposed, b, b_layout, b_transposed, c, c_layout),
              tolerance);
  CHECK(cusparseDestroyDnMat(b_matrix));
  CHECK(cusparseDestroyDnMat(c_matrix));
  CHECK(cusparseDestroySpMat(a_matrix));
}

}  // namespace

int main() {
  cusparseHandle_t handle = nullptr;
  CHECK(cusparseCreate(&handle));
  for (const cusparseOrder_t order : {CUSPARSE_ORDER_COL, CUSPARSE_ORDER_ROW}) {
    for (const int transposed : {0, 1, 2, 3}) {  // a: bit 0, b: bit 1
      Compare<float>(handle, transposed & 1, transposed & 2, order, 1e-5);
      Compare<double>(handle, transposed & 1, transposed & 2, order, 1e-13);
    }
  }
  CHECK(cusparseDestroy(handle));
  std::puts("right");
}
