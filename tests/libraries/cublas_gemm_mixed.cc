// Products of matrices of 16-bit floating-point numbers and of bytes, in wider types.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "library_check.h"

namespace {

constexpr int kM = 64, kN = 48, kK = 96;
// Leading dimensions leave gaps between columns; for bytes they must be multiples of 4.
constexpr int kLdaPlain = kM + 16, kLdaTransposed = kK + 32, kLdb = kK + 16, kLdc = kM + 8;

// Whole numbers up to 100 for integral types, numbers in -1 … 1 for others.
template <typename T>
std::vector<T> Values(std::size_t size, unsigned seed) {
  std::vector<T> values;
  for (const double value : RandomVector<double>(size, seed))
    values.push_back(
        static_cast<T>(static_cast<float>(std::is_integral_v<T> ? 100 * value : value)));
  return values;
}

// The gaps between the columns of c must stay unchanged.
template <typename In, typename Out>
std::vector<double> Product(const std::vector<In>& a, bool a_transposed, const std::vector<In>& b,
                            double alpha, double beta, const std::vector<Out>& c) {
  std::vector<double> product;
  for (const Out& value : c) product.push_back(static_cast<double>(value));
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<double>(a_transposed ? a[row * kLdaTransposed + k]
                                                : a[k * kLdaPlain + row]) *
               static_cast<double>(b[column * kLdb + k]);
      double& element = product[column * kLdc + row];
      element = alpha * sum + beta * element;
    }
  }
  return product;
}

template <typename In, typename Out, typename Scale>
void Compare(cublasHandle_t handle, cudaDataType in_type, cudaDataType out_type,
             cublasComputeType_t compute_type, double tolerance) {
  // Integral products need integral factors.
  const double alpha_value = std::is_integral_v<Scale> ? 1 : 1.5;
  const double beta_value = std::is_integral_v<Scale> ? 1 : -0.5;
  const Scale alpha = static_cast<Scale>(alpha_value), beta = static_cast<Scale>(beta_value);
  for (const bool a_transposed : {false, true}) {
    // Bytes are tested only with the first matrix transposed, the form supported by most GPUs.
    if (std::is_integral_v<In> && !a_transposed) continue;
    const int lda = a_transposed ? kLdaTransposed : kLdaPlain;
    const std::vector<In> a = Values<In>(lda * (a_transposed ? kM : kK), 1);
    const std::vector<In> b = Values<In>(kLdb * kN, 2);
    const std::vector<Out> c = Values<Out>(kLdc * kN, 3);
    const DeviceVector<In> a_there(a), b_there(b);
    const DeviceVector<Out> c_there(c);
    CHECK(cublasGemmEx(handle, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK,
                       &alpha, a_there.get(), in_type, lda, b_there.get(), in_type, kLdb, &beta,
                       c_there.get(), out_type, kLdc, compute_type, CUBLAS_GEMM_DEFAULT));
    RequireNear(c_there.Read(), Product(a, a_transposed, b, alpha_value, beta_value, c), tolerance);
  }
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  // The tolerance follows the coarser of the result's type and the compute type.
  Compare<__half, float, float>(handle, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1e-5);
  Compare<__half, __half, float>(handle, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 2e-3);
  Compare<__half, __half, __half>(handle, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F, 1e-2);
  Compare<__nv_bfloat16, float, float>(handle, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1e-5);
  Compare<__nv_bfloat16, __nv_bfloat16, float>(handle, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
                                               1e-2);
  Compare<std::int8_t, std::int32_t, std::int32_t>(handle, CUDA_R_8I, CUDA_R_32I,
                                                   CUBLAS_COMPUTE_32I, 0);
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
