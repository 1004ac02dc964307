// Matrices with vectors: general, symmetric, triangular and band matrices.
#include <cublas_v2.h>

#include <utility>

#include "library_check.h"

namespace {

constexpr int kM = 45, kN = 37, kLda = 50;
constexpr int kXStride = 2, kYStride = 3;
constexpr int kBelow = 4, kAbove = 2;  // diagonals of the band matrix beside the main one
constexpr float kAlpha = 1.5, kBeta = -0.5;
constexpr double kTolerance = 1e-5;

// alpha × matrix × x + beta × y; element(row, column) gives the matrix.
template <typename Element>
std::vector<double> Product(int rows, int columns, Element element, double alpha,
                            const std::vector<float>& x, int x_stride, double beta,
                            const std::vector<float>& y, int y_stride) {
  std::vector<double> product(y.begin(), y.end());
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int column = 0; column < columns; ++column)
      sum += static_cast<double>(element(row, column)) * x[column * x_stride];
    product[row * y_stride] = alpha * sum + beta * y[row * y_stride];
  }
  return product;
}

void CompareGeneral(cublasHandle_t handle, bool transposed, bool band) {
  // A band matrix stores its diagonals as rows, the highest first.
  const int lda = band ? kBelow + kAbove + 2 : kLda;
  const std::vector<float> a = RandomVector(lda * kN, 1);
  const auto element = [&](int row, int column) -> double {
    if (transposed) std::swap(row, column);
    if (!band) return a[column * lda + row];
    if (row > column + kBelow || column > row + kAbove) return 0;
    return a[column * lda + kAbove + row - column];
  };
  const int rows = transposed ? kN : kM, columns = transposed ? kM : kN;
  const std::vector<float> x = RandomVector(columns * kXStride, 2);
  const std::vector<float> y = RandomVector(rows * kYStride, 3);
  const DeviceVector<float> a_there(a), x_there(x), y_there(y);
  const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (band)
    CHECK(cublasSgbmv(handle, operation, kM, kN, kBelow, kAbove, &kAlpha, a_there.get(), lda,
                      x_there.get(), kXStride, &kBeta, y_there.get(), kYStride));
  else
    CHECK(cublasSgemv(handle, operation, kM, kN, &kAlpha, a_there.get(), lda, x_there.get(),
                      kXStride, &kBeta, y_there.get(), kYStride));
  RequireNear(y_there.Read(),
              Product(rows, columns, element, kAlpha, x, kXStride, kBeta, y, kYStride), kTolerance);
}

void CompareGer(cublasHandle_t handle) {
  const std::vector<float> a = RandomVector(kLda * kN, 1);
  const std::vector<float> x = RandomVector(kM * kXStride, 2);
  const std::vector<float> y = RandomVector(kN * kYStride, 3);
  const DeviceVector<float> a_there(a), x_there(x), y_there(y);
  CHECK(cublasSger(handle, kM, kN, &kAlpha, x_there.get(), kXStride, y_there.get(), kYStride,
                   a_there.get(), kLda));
  std::vector<double> expected(a.begin(), a.end());
  for (int row = 0; row < kM; ++row)
    for (int column = 0; column < kN; ++column)
      expected[column * kLda + row] +=
          static_cast<double>(kAlpha) * x[row * kXStride] * y[column * kYStride];
  RequireNear(a_there.Read(), expected, kTolerance);
}

// The other triangle has different numbers and must not be read.
void CompareTriangle(cublasHandle_t handle, bool upper) {
  const cublasFillMode_t fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  std::vector<float> a = RandomVector(kLda * kN, 1);
  // A dominant diagonal, for well-conditioned equations.
  for (float& value : a) value /= 8;
  for (int i = 0; i < kN; ++i) a[i * kLda + i] += 2;
  const std::vector<float> x = RandomVector(kN * kXStride, 2);
  const std::vector<float> y = RandomVector(kN * kYStride, 3);
  const DeviceVector<float> a_there(a), x_there(x), y_there(y);
  const auto in_triangle = [&](int row, int column) {
    return upper ? row <= column : row >= column;
  };
  CHECK(cublasSsymv(handle, fill, kN, &kAlpha, a_there.get(), kLda, x_there.get(), kXStride, &kBeta,
                    y_there.get(), kYStride));
  const auto symmetric = [&](int row, int column) {
    return in_triangle(row, column) ? a[column * kLda + row] : a[row * kLda + column];
  };
  RequireNear(y_there.Read(), Product(kN, kN, symmetric, kAlpha, x, kXStride, kBeta, y, kYStride),
              kTolerance);
  for (const bool transposed : {false, true}) {
    for (const bool unit : {false, true}) {
      const DeviceVector<float> solution_there(x);
      CHECK(cublasStrsv(handle, fill, transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                        unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, kN, a_there.get(), kLda,
                        solution_there.get(), kXStride));
      const auto triangular = [&](int row, int column) -> double {
        if (transposed) std::swap(row, column);
        if (row == column && unit) return 1;
        return in_triangle(row, column) ? a[column * kLda + row] : 0;
      };
      const std::vector<float> solution = solution_there.Read();
      RequireNear(Product(kN, kN, triangular, 1, solution, kXStride, 0, solution, kXStride), x,
                  kTolerance);
    }
  }
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  for (const bool transposed : {false, true})
    for (const bool band : {false, true}) CompareGeneral(handle, transposed, band);
  CompareGer(handle);
  for (const bool upper : {false, true}) CompareTriangle(handle, upper);
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
