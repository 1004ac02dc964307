// Products by cuBLASLt with a bias and a ReLU after them, in float and bfloat16.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "library_check.h"

namespace {

constexpr int kM = 96, kN = 64, kK = 128;
constexpr std::size_t kWorkspaceBytes = 16 << 20;
constexpr float kAlpha = 1.5, kBeta = -0.5;

template <typename Value>
void Set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}

// d = epilogue(alpha × op(a) × b + beta × c), column by column; the bias has a value for each row.
template <typename T>
std::vector<double> Product(const std::vector<T>& a, bool a_transposed, const std::vector<T>& b,
                            const std::vector<T>& c, const std::vector<T>& bias,
                            cublasLtEpilogue_t epilogue) {
  std::vector<double> product(kM * kN);
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<double>(a_transposed ? a[row * kK + k] : a[k * kM + row]) *
               static_cast<double>(b[column * kK + k]);
      const int at = column * kM + row;
      double value = kAlpha * sum + kBeta * static_cast<double>(c[at]);
      if (epilogue & CUBLASLT_EPILOGUE_BIAS) value += static_cast<double>(bias[row]);
      if (epilogue & CUBLASLT_EPILOGUE_RELU) value = std::max(value, 0.0);
      product[at] = value;
    }
  }
  return product;
}

template <typename T>
void Compare(cublasLtHandle_t handle, cudaDataType type, bool a_transposed,
             cublasLtEpilogue_t epilogue, double tolerance) {
  const std::vector<T> a = RandomVector<T>(kM * kK, 1), b = RandomVector<T>(kK * kN, 2);
  const std::vector<T> c = RandomVector<T>(kM * kN, 3);
  std::vector<T> bias = RandomVector<T>(kM, 4);
  // A bias as large as the sums changes many signs.
  for (T& value : bias) value = static_cast<T>(8 * static_cast<float>(value));
  const DeviceVector<T> a_there(a), b_there(b), c_there(c), bias_there(bias), d_there(kM * kN);
  const DeviceVector<char> workspace(kWorkspaceBytes);

  // This compute type does not round float to TF32.
  cublasLtMatmulDesc_t description = nullptr;
  CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Set(description, CUBLASLT_MATMUL_DESC_TRANSA, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(description, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (epilogue & CUBLASLT_EPILOGUE_BIAS)
    Set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_there.get());
  cublasLtMatrixLayout_t a_layout = nullptr, b_layout = nullptr, c_layout = nullptr;
  CHECK(cublasLtMatrixLayoutCreate(&a_layout, type, a_transposed ? kK : kM, a_transposed ? kM : kK,
                                   a_transposed ? kK : kM));
  CHECK(cublasLtMatrixLayoutCreate(&b_layout, type, kK, kN, kK));
  CHECK(cublasLtMatrixLayoutCreate(&c_layout, type, kM, kN, kM));
  cublasLtMatmulPreference_t preference = nullptr;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::uint64_t most = kWorkspaceBytes;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &most, sizeof most));
  cublasLtMatmulHeuristicResult_t offer = {};
  int offers = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, description, a_layout, b_layout, c_layout, c_layout,
                                       preference, 1, &offer, &offers));
  REQUIRE(offers == 1 && offer.state == CUBLAS_STATUS_SUCCESS);
  REQUIRE(offer.workspaceSize <= kWorkspaceBytes);
  CHECK(cublasLtMatmul(handle, description, &kAlpha, a_there.get(), a_layout, b_there.get(),
                       b_layout, &kBeta, c_there.get(), c_layout, d_there.get(), c_layout,
                       &offer.algo, workspace.get(), kWorkspaceBytes, nullptr));
  RequireNear(d_there.Read(), Product(a, a_transposed, b, c, bias, epilogue), tolerance);
  CHECK(cublasLtMatmulPreferenceDestroy(preference));
  for (const cublasLtMatrixLayout_t layout : {a_layout, b_layout, c_layout})
    CHECK(cublasLtMatrixLayoutDestroy(layout));
  CHECK(cublasLtMatmulDescDestroy(description));
}

}  // namespace

int main() {
  cublasLtHandle_t handle = nullptr;
  CHECK(cublasLtCreate(&handle));
  for (const bool a_transposed : {false, true}) {
    for (const cublasLtEpilogue_t epilogue :
         {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS,
          CUBLASLT_EPILOGUE_RELU_BIAS}) {
      Compare<float>(handle, CUDA_R_32F, a_transposed, epilogue, 1e-5);
      Compare<__nv_bfloat16>(handle, CUDA_R_16BF, a_transposed, epilogue, 1e-2);
    }
  }
  CHECK(cublasLtDestroy(handle));
  std::puts("right");
}
