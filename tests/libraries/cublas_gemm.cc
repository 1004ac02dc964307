// Products of matrices in float and double, transposed and not, host and device scalars.
#include <cublas_v2.h>

#include "library_check.h"

namespace {

constexpr int kM = 61, kN = 47, kK = 83;

// alpha × op(a) × op(b) + beta × c, column by column as in cuBLAS: op(a) is kM × kK, op(b) kK × kN.
template <typename T>
std::vector<double> Product(const std::vector<T>& a, bool a_transposed, const std::vector<T>& b,
                            bool b_transposed, double alpha, double beta, const std::vector<T>& c) {
  std::vector<double> product(c.size());
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<double>(a_transposed ? a[row * kK + k] : a[k * kM + row]) *
               static_cast<double>(b_transposed ? b[k * kN + column] : b[column * kK + k]);
      const int at = column * kM + row;
      product[at] = alpha * sum + beta * static_cast<double>(c[at]);
    }
  }
  return product;
}

template <typename T, typename Gemm>
void Compare(cublasHandle_t handle, Gemm gemm, double tolerance) {
  const std::vector<T> a = RandomVector<T>(kM * kK, 1);
  const std::vector<T> b = RandomVector<T>(kK * kN, 2);
  const std::vector<T> c = RandomVector<T>(kM * kN, 3);
  const std::vector<T> scalars = {static_cast<T>(1.5), static_cast<T>(-0.5)};
  const DeviceVector<T> a_there(a), b_there(b), scalars_there(scalars);
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const cublasPointerMode_t mode :
           {CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE}) {
        const DeviceVector<T> c_there(c);
        const T* const place =
            mode == CUBLAS_POINTER_MODE_HOST ? scalars.data() : scalars_there.get();
        CHECK(cublasSetPointerMode(handle, mode));
        CHECK(gemm(handle, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                   b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kM, kN, kK, place, a_there.get(),
                   a_transposed ? kK : kM, b_there.get(), b_transposed ? kN : kK, place + 1,
                   c_there.get(), kM));
        RequireNear(c_there.Read(), Product(a, a_transposed, b, b_transposed, 1.5, -0.5, c),
                    tolerance);
      }
    }
  }
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  Compare<float>(handle, cublasSgemm, 1e-5);
  Compare<double>(handle, cublasDgemm, 1e-13);
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
