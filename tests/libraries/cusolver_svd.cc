// Singular values and vectors by gesvd (QR steps) and by gesvdj (Jacobi's rotations).
#include <cusolverDn.h>

#include <functional>

#include "library_check.h"

namespace {

constexpr int kRows = 100, kColumns = 60;
constexpr double kTolerance = 1e-9;

// Requires orthonormal columns of `length` elements each.
void RequireOrthonormal(const std::vector<double>& columns, int length) {
  std::vector<double> overlaps, identity;
  for (std::size_t i = 0; i < columns.size(); i += length) {
    for (std::size_t j = 0; j < columns.size(); j += length) {
      double sum = 0;
      for (int k = 0; k < length; ++k) sum += columns[i + k] * columns[j + k];
      overlaps.push_back(sum);
      identity.push_back(i == j ? 1 : 0);
    }
  }
  RequireNear(overlaps, identity, kTolerance);
}

// Requires u·diag(s)·vᵀ = a; u is kRows × kColumns, v kColumns × kColumns, all column by column.
void RequireDecomposed(const std::vector<double>& a, const std::vector<double>& u,
                       const std::vector<double>& s, const std::vector<double>& v) {
  REQUIRE(std::is_sorted(s.begin(), s.end(), std::greater<double>()) && s.back() >= 0);
  RequireOrthonormal(u, kRows);
  RequireOrthonormal(v, kColumns);
  std::vector<double> product(a.size());
  for (int column = 0; column < kColumns; ++column)
    for (int row = 0; row < kRows; ++row)
      for (int i = 0; i < kColumns; ++i)
        product[column * kRows + row] += u[i * kRows + row] * s[i] * v[i * kColumns + column];
  RequireNear(product, a, kTolerance);
}

// Returns the singular values.
std::vector<double> ByQrSteps(cusolverDnHandle_t handle, const std::vector<double>& a) {
  const DeviceVector<double> a_there(a), s(kColumns), u(kRows * kColumns);
  const DeviceVector<double> vt(kColumns * kColumns), real_work(kColumns);
  const DeviceVector<int> info(std::vector<int>{-1});
  int size = 0;
  CHECK(cusolverDnDgesvd_bufferSize(handle, kRows, kColumns, &size));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDgesvd(handle, 'S', 'S', kRows, kColumns, a_there.get(), kRows, s.get(), u.get(),
                         kRows, vt.get(), kColumns, work.get(), size, real_work.get(), info.get()));
  REQUIRE(info.Read()[0] == 0);
  const std::vector<double> transposed = vt.Read();
  std::vector<double> v(transposed.size());
  for (int column = 0; column < kColumns; ++column)
    for (int row = 0; row < kColumns; ++row)
      v[column * kColumns + row] = transposed[row * kColumns + column];
  RequireDecomposed(a, u.Read(), s.Read(), v);
  return s.Read();
}

// Returns the singular values; gesvdj returns v, not its transpose.
std::vector<double> ByJacobi(cusolverDnHandle_t handle, const std::vector<double>& a) {
  constexpr int kEconomic = 1;  // no columns of u beyond kColumns
  const DeviceVector<double> a_there(a), s(kColumns), u(kRows * kColumns), v(kColumns * kColumns);
  const DeviceVector<int> info(std::vector<int>{-1});
  gesvdjInfo_t settings = nullptr;
  CHECK(cusolverDnCreateGesvdjInfo(&settings));
  CHECK(cusolverDnXgesvdjSetTolerance(settings, 1e-12));
  CHECK(cusolverDnXgesvdjSetSortEig(settings, 1));
  int size = 0;
  CHECK(cusolverDnDgesvdj_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, kEconomic, kRows, kColumns,
                                     a_there.get(), kRows, s.get(), u.get(), kRows, v.get(),
                                     kColumns, &size, settings));
  const DeviceVector<double> work(size);
  CHECK(cusolverDnDgesvdj(handle, CUSOLVER_EIG_MODE_VECTOR, kEconomic, kRows, kColumns,
                          a_there.get(), kRows, s.get(), u.get(), kRows, v.get(), kColumns,
                          work.get(), size, info.get(), settings));
  REQUIRE(info.Read()[0] == 0);
  CHECK(cusolverDnDestroyGesvdjInfo(settings));
  RequireDecomposed(a, u.Read(), s.Read(), v.Read());
  return s.Read();
}

}  // namespace

int main() {
  cusolverDnHandle_t handle = nullptr;
  CHECK(cusolverDnCreate(&handle));
  const std::vector<double> a = RandomVector<double>(kRows * kColumns, 1);
  RequireNear(ByJacobi(handle, a), ByQrSteps(handle, a), kTolerance);
  CHECK(cusolverDnDestroy(handle));
  std::puts("right");
}
