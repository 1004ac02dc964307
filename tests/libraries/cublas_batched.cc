// Batches of matrices: products by pointers and by strides, LU factors and solutions.
#include <cublas_v2.h>

#include <utility>

#include "library_check.h"

namespace {

constexpr int kBatch = 7;
constexpr int kM = 19, kN = 23, kK = 31;  // of the products
constexpr int kOrder = 24, kRight = 5;    // of the systems of equations

// Addresses of the matrices stored one after another in `matrices`.
template <typename T>
std::vector<T*> Addresses(const DeviceVector<T>& matrices) {
  std::vector<T*> addresses;
  for (int i = 0; i < kBatch; ++i)
    addresses.push_back(matrices.get() + i * (matrices.size() / kBatch));
  return addresses;
}

// left × right, column by column; left is rows × inner. If left_transposed, its transpose is used.
template <typename T>
std::vector<double> Product(int rows, int columns, int inner, const T* left, bool left_transposed,
                            const T* right) {
  std::vector<double> product(rows * columns);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      for (int k = 0; k < inner; ++k)
        product[column * rows + row] +=
            static_cast<double>(left_transposed ? left[row * inner + k] : left[k * rows + row]) *
            static_cast<double>(right[column * inner + k]);
  return product;
}

template <typename T>
std::vector<T> Part(const std::vector<T>& whole, int index) {
  const std::size_t size = whole.size() / kBatch;
  return {whole.begin() + index * size, whole.begin() + (index + 1) * size};
}

void CompareProducts(cublasHandle_t handle) {
  const std::vector<float> a = RandomVector(kBatch * kM * kK, 1);
  const std::vector<float> b = RandomVector(kBatch * kK * kN, 2);
  const DeviceVector<float> a_there(a), b_there(b), c_there(kBatch * kM * kN);
  // Pointers may come in any order: here the first result is the last one in memory.
  std::vector<float*> c_places = Addresses(c_there);
  std::reverse(c_places.begin(), c_places.end());
  const DeviceVector<float*> a_list(Addresses(a_there)), b_list(Addresses(b_there)),
      c_list(c_places);
  const float one = 1, zero = 0;
  CHECK(cublasSgemmBatched(handle, CUBLAS_OP_T, CUBLAS_OP_N, kM, kN, kK, &one, a_list.get(), kK,
                           b_list.get(), kK, &zero, c_list.get(), kM, kBatch));
  std::vector<float> c = c_there.Read();
  for (int i = 0; i < kBatch; ++i)
    RequireNear(Part(c, kBatch - 1 - i),
                Product(kM, kN, kK, &a[i * kM * kK], true, &b[i * kK * kN]), 1e-5);
  // The stride 0 gives all products the same second matrix.
  CHECK(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &one, a_there.get(),
                                  kM, kM * kK, b_there.get(), kK, 0, &zero, c_there.get(), kM,
                                  kM * kN, kBatch));
  c = c_there.Read();
  for (int i = 0; i < kBatch; ++i)
    RequireNear(Part(c, i), Product(kM, kN, kK, &a[i * kM * kK], false, &b[0]), 1e-5);
}

void CompareSystems(cublasHandle_t handle) {
  std::vector<double> a = RandomVector<double>(kBatch * kOrder * kOrder, 3);
  // Large elements beside the diagonal: without exchanges of rows, the factors would be inaccurate.
  for (int i = 0; i < kBatch * kOrder; ++i) a[i * kOrder + (i + 1) % kOrder] += 8;
  const std::vector<double> b = RandomVector<double>(kBatch * kOrder * kRight, 4);
  const DeviceVector<double> a_there(a);
  const DeviceVector<double*> a_list(Addresses(a_there));
  const DeviceVector<int> pivots_there(kBatch * kOrder);
  const DeviceVector<int> info_there(std::vector<int>(kBatch, -1));
  CHECK(cublasDgetrfBatched(handle, kOrder, a_list.get(), kOrder, pivots_there.get(),
                            info_there.get(), kBatch));
  REQUIRE(info_there.Read() == std::vector<int>(kBatch, 0));
  const std::vector<double> factors = a_there.Read();
  const std::vector<int> pivots = pivots_there.Read();
  for (int i = 0; i < kBatch; ++i) {
    std::vector<double> lower(kOrder * kOrder), upper(kOrder * kOrder);
    for (int row = 0; row < kOrder; ++row) {
      for (int column = 0; column < kOrder; ++column) {
        const int at = column * kOrder + row;
        (row > column ? lower : upper)[at] = factors[i * kOrder * kOrder + at];
        if (row == column) lower[at] = 1;
      }
    }
    std::vector<double> product =
        Product(kOrder, kOrder, kOrder, lower.data(), false, upper.data());
    // Row r was exchanged with its pivot row; pivots count from 1.
    for (int row = kOrder - 1; row >= 0; --row)
      for (int column = 0; column < kOrder; ++column)
        std::swap(product[column * kOrder + row],
                  product.at(column * kOrder + pivots[i * kOrder + row] - 1));
    RequireNear(product, Part(a, i), 1e-13);
  }
  for (const bool transposed : {false, true}) {
    const DeviceVector<double> x_there(b);
    const DeviceVector<double*> x_list(Addresses(x_there));
    int info = -1;
    CHECK(cublasDgetrsBatched(handle, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kOrder, kRight,
                              a_list.get(), kOrder, pivots_there.get(), x_list.get(), kOrder, &info,
                              kBatch));
    REQUIRE(info == 0);
    const std::vector<double> x = x_there.Read();
    for (int i = 0; i < kBatch; ++i)
      RequireNear(Product(kOrder, kRight, kOrder, &a[i * kOrder * kOrder], transposed,
                          &x[i * kOrder * kRight]),
                  Part(b, i), 1e-12);
  }
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  CompareProducts(handle);
  CompareSystems(handle);
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
