// Eigenvalues and eigenvectors of a symmetric matrix by syevd and syevj, of a Hermitian by heevd.
#include <cusolverDn.h>

#include <complex>
#include <type_traits>

#include "library_check.h"

namespace {

using Complex = std::complex<double>;

constexpr int kSize = 90;
constexpr auto kVectors = CUSOLVER_EIG_MODE_VECTOR;
constexpr auto kLower = CUBLAS_FILL_MODE_LOWER;

// A matrix equal to its conjugate transpose, column by column.
template <typename T>
std::vector<T> Hermitian() {
  const std::vector<double> real = RandomVector<double>(kSize * kSize, 1);
  [[maybe_unused]] const std::vector<double> imaginary = RandomVector<double>(kSize * kSize, 2);
  std::vector<T> matrix(kSize * kSize);
  for (int column = 0; column < kSize; ++column) {
    for (int row = column; row < kSize; ++row) {
      const int at = column * kSize + row, mirrored = row * kSize + column;
      if constexpr (std::is_same_v<T, Complex>) {
        matrix[at] = Complex(real[at], row == column ? 0 : imaginary[at]);
        matrix[mirrored] = std::conj(matrix[at]);
      } else {
        matrix[at] = matrix[mirrored] = real[at];
      }
    }
  }
  return matrix;
}

// Requires: a·v = v·diag(w), v's columns are orthonormal, and w ascends.
template <typename T>
void RequireEigen(const std::vector<T>& a, const std::vector<double>& w, const std::vector<T>& v,
                  double tolerance) {
  REQUIRE(std::is_sorted(w.begin(), w.end()));
  for (int column = 0; column < kSize; ++column) {
    for (int row = 0; row < kSize; ++row) {
      const T* const vector = &v[column * kSize];
      Complex product, overlap;
      for (int i = 0; i < kSize; ++i) {
        product += a[i * kSize + row] * vector[i];
        overlap += std::conj(v[row * kSize + i]) * vector[i];
      }
      REQUIRE(std::abs(product - vector[row] * w[column]) <= tolerance);
      REQUIRE(std::abs(overlap - (row == column ? 1.0 : 0.0)) <= tolerance);
    }
  }
}

// Returns the eigenvalues.
std::vector<double> DivideAndConquer(cusolverDnHandle_t handle, const std::vector<double>& a,
                                     cusolverEigMode_t mode) {
  const DeviceVector<double> a_there(a), w(kSize);
  const DeviceVector<int> info(std::vector<int>{-1});
  int size = 0;
  CHECK(cusolverDnDsyevd_bufferSize(handle, mode, kLower, kSize, a_there.get(), kSize, w.get(),
                                    &size));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDsyevd(handle, mode, kLower, kSize, a_there.get(), kSize, w.get(), work.get(),
                         size, info.get()));
  REQUIRE(info.Read()[0] == 0);
  if (mode == kVectors) RequireEigen(a, w.Read(), a_there.Read(), 1e-11);
  return w.Read();
}

std::vector<double> Jacobi(cusolverDnHandle_t handle, const std::vector<double>& a) {
  const DeviceVector<double> a_there(a), w(kSize);
  const DeviceVector<int> info(std::vector<int>{-1});
  syevjInfo_t settings = nullptr;
  CHECK(cusolverDnCreateSyevjInfo(&settings));
  CHECK(cusolverDnXsyevjSetTolerance(settings, 1e-12));
  CHECK(cusolverDnXsyevjSetSortEig(settings, 1));
  int size = 0;
  CHECK(cusolverDnDsyevj_bufferSize(handle, kVectors, kLower, kSize, a_there.get(), kSize, w.get(),
                                    &size, settings));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDsyevj(handle, kVectors, kLower, kSize, a_there.get(), kSize, w.get(), work.get(),
                         size, info.get(), settings));
  REQUIRE(info.Read()[0] == 0);
  CHECK(cusolverDnDestroySyevjInfo(settings));
  RequireEigen(a, w.Read(), a_there.Read(), 1e-9);
  return w.Read();
}

void ComplexDivideAndConquer(cusolverDnHandle_t handle) {
  const std::vector<Complex> a = Hermitian<Complex>();
  const DeviceVector<Complex> a_there(a);
  const DeviceVector<double> w(kSize);
  const DeviceVector<int> info(std::vector<int>{-1});
  auto* const place = reinterpret_cast<cuDoubleComplex*>(a_there.get());
  int size = 0;
  CHECK(cusolverDnZheevd_bufferSize(handle, kVectors, kLower, kSize, place, kSize, w.get(), &size));
  const DeviceVector<cuDoubleComplex> work(size);
  CHECK(cusolverDnZheevd(handle, kVectors, kLower, kSize, place, kSize, w.get(), work.get(), size,
                         info.get()));
  REQUIRE(info.Read()[0] == 0);
  RequireEigen(a, w.Read(), a_there.Read(), 1e-11);
}

}  // namespace

int main() {
  cusolverDnHandle_t handle = nullptr;
  CHECK(cusolverDnCreate(&handle));
  const std::vector<double> a = Hermitian<double>();
  const std::vector<double> w = DivideAndConquer(handle, a, kVectors);
  RequireNear(DivideAndConquer(handle, a, CUSOLVER_EIG_MODE_NOVECTOR), w, 1e-12);
  RequireNear(Jacobi(handle, a), w, 1e-10);
  ComplexDivideAndConquer(handle);
  CHECK(cusolverDnDestroy(handle));
  std::puts("right");
}
