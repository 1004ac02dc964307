// Products of two CSR matrices in float and double: values, offsets and columns of the elements.
#include <cusparse.h>

#include <type_traits>

#include "library_check.h"

namespace {

constexpr int kM = 130, kN = 110, kK = 90;
constexpr double kAlpha = 1.5;

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

struct Pattern {
  std::vector<int> offsets = {0}, columns;
};

Pattern RandomPattern(int row_count, int column_count, unsigned seed) {
  Pattern pattern;
  std::mt19937 generator(seed);
  for (int row = 0; row < row_count; ++row) {
    for (int column = 0; column < column_count; ++column)
      if (generator() % 15 == 0) pattern.columns.push_back(column);
    pattern.offsets.push_back(static_cast<int>(pattern.columns.size()));
  }
  return pattern;
}

// A CSR matrix, on the host and on the device.
template <typename T>
struct SparseMatrix : Pattern {
  const std::vector<T> values;
  const DeviceVector<int> offsets_there, columns_there;
  const DeviceVector<T> values_there;
  cusparseSpMatDescr_t matrix = nullptr;

  SparseMatrix(int row_count, int column_count, unsigned seed)
      : Pattern(RandomPattern(row_count, column_count, seed)),
        values(RandomVector<T>(columns.size(), seed)),
        offsets_there(offsets),
        columns_there(columns),
        values_there(values) {
    CHECK(cusparseCreateCsr(&matrix, row_count, column_count, static_cast<int64_t>(values.size()),
                            offsets_there.get(), columns_there.get(), values_there.get(),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                            kType<T>));
  }
  ~SparseMatrix() { cusparseDestroySpMat(matrix); }
};

template <typename T>
void Compare(cusparseHandle_t handle, double tolerance) {
  const SparseMatrix<T> a(kM, kK, 1), b(kK, kN, 2);
  std::vector<double> expected(kM * kN);  // row by row
  for (int row = 0; row < kM; ++row) {
    for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i) {
      for (int j = b.offsets[a.columns[i]]; j < b.offsets[a.columns[i] + 1]; ++j)
        expected[row * kN + b.columns[j]] += kAlpha * a.values[i] * b.values[j];
    }
  }

  const DeviceVector<int> offsets(kM + 1);
  cusparseSpMatDescr_t c = nullptr;
  CHECK(cusparseCreateCsr(&c, kM, kN, 0, offsets.get(), nullptr, nullptr, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kType<T>));
  cusparseSpGEMMDescr_t product = nullptr;
  CHECK(cusparseSpGEMM_createDescr(&product));
  const T alpha = static_cast<T>(kAlpha), beta = 0;
  const auto step = [&](auto function, auto... buffer) {
    CHECK(function(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                   &alpha, a.matrix, b.matrix, &beta, c, kType<T>, CUSPARSE_SPGEMM_DEFAULT, product,
                   buffer...));
  };
  // Without a buffer, a step returns the required size.
  std::size_t estimation_size = 0, size = 0;
  step(cusparseSpGEMM_workEstimation, &estimation_size, nullptr);
  const DeviceVector<char> estimation_buffer(std::max<std::size_t>(estimation_size, 1));
  step(cusparseSpGEMM_workEstimation, &estimation_size, estimation_buffer.get());
  step(cusparseSpGEMM_compute, &size, nullptr);
  const DeviceVector<char> buffer(std::max<std::size_t>(size, 1));
  step(cusparseSpGEMM_compute, &size, buffer.get());
  int64_t row_count = 0, column_count = 0, count = 0;
  CHECK(cusparseSpMatGetSize(c, &row_count, &column_count, &count));
  REQUIRE(row_count == kM && column_count == kN);
  REQUIRE(count == kM * kN - std::count(expected.begin(), expected.end(), 0.0));
  const DeviceVector<int> columns(count);
  const DeviceVector<T> values(count);
  CHECK(cusparseCsrSetPointers(c, offsets.get(), columns.get(), values.get()));
  step(cusparseSpGEMM_copy);

  // The order within a row is unspecified.
  const std::vector<int> offsets_found = offsets.Read(), columns_found = columns.Read();
  const std::vector<T> values_found = values.Read();
  REQUIRE(offsets_found.front() == 0 && offsets_found.back() == count);
  std::vector<double> found(kM * kN);
  for (int row = 0; row < kM; ++row) {
    REQUIRE(offsets_found[row] <= offsets_found[row + 1] && offsets_found[row + 1] <= count);
    for (int i = offsets_found[row]; i < offsets_found[row + 1]; ++i) {
      REQUIRE(columns_found[i] >= 0 && columns_found[i] < kN);
      found[row * kN + columns_found[i]] += static_cast<double>(values_found[i]);
    }
  }
  RequireNear(found, expected, tolerance);
  CHECK(cusparseSpGEMM_destroyDescr(product));
  CHECK(cusparseDestroySpMat(c));
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
