// Conversions: dense by rows or columns to CSR and back, and CSR to CSC, in float and double.
#include <cusparse.h>

#include <type_traits>

#include "library_check.h"

namespace {

constexpr int kRows = 150, kColumns = 70;

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

int At(cusparseOrder_t order, int row, int column) {
  return order == CUSPARSE_ORDER_COL ? column * kRows + row : row * kColumns + column;
}

// The dense matrix described by CSR, or by CSC if `transposed`, stored by `order`.
template <typename T>
std::vector<T> ToDense(const std::vector<int>& offsets, const std::vector<int>& indices,
                       const std::vector<T>& values, cusparseOrder_t order, bool transposed) {
  REQUIRE(offsets.front() == 0 && offsets.back() == static_cast<int>(values.size()));
  std::vector<T> dense(kRows * kColumns);
  for (int outer = 0; outer < (transposed ? kColumns : kRows); ++outer) {
    REQUIRE(offsets[outer] <= offsets[outer + 1] && offsets[outer + 1] <= offsets.back());
    for (int i = offsets[outer]; i < offsets[outer + 1]; ++i) {
      REQUIRE(0 <= indices[i] && indices[i] < (transposed ? kRows : kColumns));
      dense[transposed ? At(order, indices[i], outer) : At(order, outer, indices[i])] = values[i];
    }
  }
  return dense;
}

template <typename T>
void Compare(cusparseHandle_t handle, cusparseOrder_t order) {
  std::vector<T> dense = RandomVector<T>(kRows * kColumns, 1);
  std::mt19937 generator(7);
  for (T& value : dense)
    if (generator() % 9 != 0) value = 0;

  const DeviceVector<T> dense_there(dense);
  const DeviceVector<int> offsets(kRows + 1);
  cusparseDnMatDescr_t dense_matrix = nullptr;
  cusparseSpMatDescr_t sparse_matrix = nullptr;
  CHECK(cusparseCreateDnMat(&dense_matrix, kRows, kColumns,
                            order == CUSPARSE_ORDER_COL ? kRows : kColumns, dense_there.get(),
                            kType<T>, order));
  CHECK(cusparseCreateCsr(&sparse_matrix, kRows, kColumns, 0, offsets.get(), nullptr, nullptr,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                          kType<T>));
  std::size_t size = 0;
  CHECK(cusparseDenseToSparse_bufferSize(handle, dense_matrix, sparse_matrix,
                                         CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, &size));
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  CHECK(cusparseDenseToSparse_analysis(handle, dense_matrix, sparse_matrix,
                                       CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.get()));
  int64_t row_count = 0, column_count = 0, count = 0;
  CHECK(cusparseSpMatGetSize(sparse_matrix, &row_count, &column_count, &count));
  REQUIRE(row_count == kRows && column_count == kColumns);
  REQUIRE(count == kRows * kColumns - std::count(dense.begin(), dense.end(), 0));
  const DeviceVector<int> columns(count);
  const DeviceVector<T> values(count);
  CHECK(cusparseCsrSetPointers(sparse_matrix, offsets.get(), columns.get(), values.get()));
  CHECK(cusparseDenseToSparse_convert(handle, dense_matrix, sparse_matrix,
                                      CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.get()));
  REQUIRE(ToDense(offsets.Read(), columns.Read(), values.Read(), order, false) == dense);

  // Zeros must be written too: the memory held other values.
  CHECK(cudaMemset(dense_there.get(), 0xff, dense.size() * sizeof(T)));
  CHECK(cusparseSparseToDense_bufferSize(handle, sparse_matrix, dense_matrix,
                                         CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &size));
  const DeviceVector<char> back_buffer(std::max<std::size_t>(size, 1));
  CHECK(cusparseSparseToDense(handle, sparse_matrix, dense_matrix,
                              CUSPARSE_SPARSETODENSE_ALG_DEFAULT, back_buffer.get()));
  REQUIRE(dense_there.Read() == dense);
  CHECK(cusparseDestroyDnMat(dense_matrix));
  CHECK(cusparseDestroySpMat(sparse_matrix));

  const DeviceVector<int> csc_offsets(kColumns + 1), csc_rows(count);
  const DeviceVector<T> csc_values(count);
  const auto call = [&](auto function, auto last) {
    CHECK(function(handle, kRows, kColumns, static_cast<int>(count), values.get(), offsets.get(),
                   columns.get(), csc_values.get(), csc_offsets.get(), csc_rows.get(), kType<T>,
                   CUSPARSE_ACTION_NUMERIC, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG_DEFAULT,
                   last));
  };
  call(cusparseCsr2cscEx2_bufferSize, &size);
  const DeviceVector<char> csc_buffer(std::max<std::size_t>(size, 1));
  call(cusparseCsr2cscEx2, csc_buffer.get());
  REQUIRE(ToDense(csc_offsets.Read(), csc_rows.Read(), csc_values.Read(), order, true) == dense);
}

}  // namespace

int main() {
  cusparseHandle_t handle = nullptr;
  CHECK(cusparseCreate(&handle));
  for (const cusparseOrder_t order : {CUSPARSE_ORDER_COL, CUSPARSE_ORDER_ROW}) {
    Compare<float>(handle, order);
    Compare<double>(handle, order);
  }
  CHECK(cusparseDestroy(handle));
  std::puts("right");
}
