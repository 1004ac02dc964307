// Triangular solutions, symmetric products, sums of transposed matrices, and diagonal products.
#include <cublas_v2.h>

#include <utility>

#include "library_check.h"

namespace {

constexpr int kM = 53, kN = 41, kK = 29, kLda = 60;
constexpr float kAlpha = 1.5, kBeta = -0.5;
constexpr double kTolerance = 1e-5;

// alpha × left × right + beta × c, column by column; left(row, column) and right(row, column) give
// elements.
template <typename Left, typename Right>
std::vector<double> Product(int rows, int columns, int inner, Left left, Right right, double alpha,
                            double beta, const std::vector<float>& c) {
  std::vector<double> product(rows * columns);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      double sum = 0;
      for (int k = 0; k < inner; ++k) sum += left(row, k) * right(k, column);
      const int at = column * rows + row;
      product[at] = alpha * sum + beta * c[at];
    }
  }
  return product;
}

// Element access to a matrix, or to its transpose. Keeps a reference to `matrix`.
auto Elements(const std::vector<float>& matrix, int leading_dimension, bool transposed = false) {
  return [&matrix, leading_dimension, transposed](int row, int column) {
    const int at = transposed ? row * leading_dimension + column : column * leading_dimension + row;
    return static_cast<double>(matrix[at]);
  };
}

// The unused triangle has different numbers and must not be read.
void CompareSides(cublasHandle_t handle, bool left, bool upper) {
  const cublasSideMode_t side = left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  const cublasFillMode_t fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const int order = left ? kM : kN;
  std::vector<float> a = RandomVector(kLda * order, 1);
  // A dominant diagonal, for well-conditioned equations.
  for (float& value : a) value /= 8;
  for (int i = 0; i < order; ++i) a[i * kLda + i] += 2;
  const std::vector<float> b = RandomVector(kM * kN, 2), c = RandomVector(kM * kN, 3);
  const DeviceVector<float> a_there(a), b_there(b), c_there(c);
  const auto stored = [&](int row, int column) { return upper ? row <= column : row >= column; };
  const auto multiply = [&](auto square, const std::vector<float>& other, double alpha,
                            double beta) {
    return left ? Product(kM, kN, kM, square, Elements(other, kM), alpha, beta, c)
                : Product(kM, kN, kN, Elements(other, kM), square, alpha, beta, c);
  };

  CHECK(cublasSsymm(handle, side, fill, kM, kN, &kAlpha, a_there.get(), kLda, b_there.get(), kM,
                    &kBeta, c_there.get(), kM));
  const auto symmetric = [&](int row, int column) {
    return Elements(a, kLda, !stored(row, column))(row, column);
  };
  RequireNear(c_there.Read(), multiply(symmetric, b, kAlpha, kBeta), kTolerance);

  std::vector<double> right_side(b.begin(), b.end());
  for (double& value : right_side) value *= kAlpha;
  for (const bool transposed : {false, true}) {
    for (const bool unit : {false, true}) {
      const DeviceVector<float> x_there(b);
      CHECK(cublasStrsm(handle, side, fill, transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                        unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, kM, kN, &kAlpha,
                        a_there.get(), kLda, x_there.get(), kM));
      const auto triangular = [&](int row, int column) -> double {
        if (transposed) std::swap(row, column);
        if (row == column && unit) return 1;
        return stored(row, column) ? a[column * kLda + row] : 0;
      };
      RequireNear(multiply(triangular, x_there.Read(), 1, 0), right_side, kTolerance);
    }
  }
}

void CompareSyrk(cublasHandle_t handle, bool upper, bool transposed) {
  const std::vector<float> a = RandomVector(kLda * (transposed ? kN : kK), 1);
  const std::vector<float> c = RandomVector(kN * kN, 2);
  const DeviceVector<float> a_there(a), c_there(c);
  CHECK(cublasSsyrk(handle, upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                    transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kN, kK, &kAlpha, a_there.get(), kLda,
                    &kBeta, c_there.get(), kN));
  std::vector<double> expected = Product(kN, kN, kK, Elements(a, kLda, transposed),
                                         Elements(a, kLda, !transposed), kAlpha, kBeta, c);
  for (int row = 0; row < kN; ++row)
    for (int column = 0; column < kN; ++column)
      if (upper ? row > column : row < column) expected[column * kN + row] = c[column * kN + row];
  RequireNear(c_there.Read(), expected, kTolerance);
}

// Sums of matrices, and a matrix with scaled rows (left) or columns.
void CompareElements(cublasHandle_t handle, bool a_transposed, bool b_transposed, bool left) {
  constexpr int kStride = 2;
  const std::vector<float> a = RandomVector(kLda * kM, 1), b = RandomVector(kLda * kM, 2);
  const DeviceVector<float> a_there(a), b_there(b), sum_there(kM * kN), scaled_there(kM * kN);
  CHECK(cublasSgeam(handle, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                    b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kM, kN, &kAlpha, a_there.get(), kLda,
                    &kBeta, b_there.get(), kLda, sum_there.get(), kM));
  CHECK(cublasSdgmm(handle, left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT, kM, kN, a_there.get(),
                    kLda, b_there.get(), kStride, scaled_there.get(), kM));
  std::vector<double> sum, scaled;
  for (int column = 0; column < kN; ++column) {
    for (int row = 0; row < kM; ++row) {
      sum.push_back(kAlpha * Elements(a, kLda, a_transposed)(row, column) +
                    kBeta * Elements(b, kLda, b_transposed)(row, column));
      scaled.push_back(Elements(a, kLda)(row, column) * b[(left ? row : column) * kStride]);
    }
  }
  RequireNear(sum_there.Read(), sum, kTolerance);
  RequireNear(scaled_there.Read(), scaled, kTolerance);
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      CompareSides(handle, first, second);
      CompareSyrk(handle, first, second);
      for (const bool third : {false, true}) CompareElements(handle, first, second, third);
    }
  }
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
