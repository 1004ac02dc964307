// Product of matrices of 8-bit floating-point numbers with scales by cuBLASLt, in bfloat16.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "library_check.h"

namespace {

// Multiples of 16, as required by this type.
constexpr int kM = 96, kN = 64, kK = 160;
constexpr std::size_t kWorkspaceBytes = 32 << 20;
constexpr float kAlpha = 1.5, kBeta = -0.5;
// Scales of the stored matrices, for a larger part of the type's range: it ends at 448.
constexpr float kAStored = 256, kBStored = 128;

template <typename Value>
void Set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}

std::vector<__nv_fp8_e4m3> Stored(std::size_t size, unsigned seed, float factor) {
  std::vector<__nv_fp8_e4m3> stored;
  for (const float value : RandomVector(size, seed)) stored.emplace_back(value * factor);
  return stored;
}

}  // namespace

int main() {
  int major = 0, minor = 0;
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  if (10 * major + minor < 89) {
    std::printf("skipped: compute capability %d.%d has no 8-bit floating-point products\n", major,
                minor);
    return 77;
  }
  const std::vector<__nv_fp8_e4m3> a = Stored(kK * kM, 1, kAStored);
  const std::vector<__nv_fp8_e4m3> b = Stored(kK * kN, 2, kBStored);
  const std::vector<__nv_bfloat16> c = RandomVector<__nv_bfloat16>(kM * kN, 3);
  const DeviceVector<__nv_fp8_e4m3> a_there(a), b_there(b);
  const DeviceVector<__nv_bfloat16> c_there(c);
  const DeviceVector<float> a_scale_there(std::vector<float>{1 / kAStored});
  const DeviceVector<float> b_scale_there(std::vector<float>{1 / kBStored});
  const DeviceVector<char> workspace(kWorkspaceBytes);

  cublasLtHandle_t handle = nullptr;
  CHECK(cublasLtCreate(&handle));
  cublasLtMatmulDesc_t description = nullptr;
  CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  // Ada and Hopper support only this form: the first matrix transposed, the second not.
  Set(description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  Set(description, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  Set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a_scale_there.get());
  Set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b_scale_there.get());
  cublasLtMatrixLayout_t a_layout = nullptr, b_layout = nullptr, c_layout = nullptr;
  CHECK(cublasLtMatrixLayoutCreate(&a_layout, CUDA_R_8F_E4M3, kK, kM, kK));
  CHECK(cublasLtMatrixLayoutCreate(&b_layout, CUDA_R_8F_E4M3, kK, kN, kK));
  CHECK(cublasLtMatrixLayoutCreate(&c_layout, CUDA_R_16BF, kM, kN, kM));
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
  CHECK(cublasLtMatmul(handle, description, &kAlpha, a_there.get(), a_layout, b_there.get(),
                       b_layout, &kBeta, c_there.get(), c_layout, c_there.get(), c_layout,
                       &offer.algo, workspace.get(), kWorkspaceBytes, nullptr));

  std::vector<double> expected(kM * kN);
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<double>(static_cast<float>(a[row * kK + k])) / kAStored *
               static_cast<double>(static_cast<float>(b[column * kK + k])) / kBStored;
      const int at = column * kM + row;
      expected[at] = kAlpha * sum + kBeta * static_cast<double>(c[at]);
    }
  }
  RequireNear(c_there.Read(), expected, 1e-2);
  CHECK(cublasLtMatmulPreferenceDestroy(preference));
  for (const cublasLtMatrixLayout_t layout : {a_layout, b_layout, c_layout})
    CHECK(cublasLtMatrixLayoutDestroy(layout));
  CHECK(cublasLtMatmulDescDestroy(description));
  CHECK(cublasLtDestroy(handle));
  std::puts("right");
}
