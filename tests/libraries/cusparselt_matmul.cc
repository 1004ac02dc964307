// Products of a half-precision matrix with two zeros in each four elements and a dense one. The
// matrix is pruned by the program, then checked and compressed by cuSPARSELt, with a search for the
// fastest algorithm; and pruned by cuSPARSELt.
#include <cuda_fp16.h>
#include <cusparseLt.h>

#include "library_check.h"

namespace {

constexpr int kM = 64, kN = 96, kK = 128;

std::vector<__half> Values(std::size_t size, unsigned seed) {
  std::vector<__half> values;
  for (const float value : RandomVector<float>(size, seed)) values.push_back(__float2half(value));
  return values;
}

// All matrices are stored by rows.
std::vector<double> Product(const std::vector<__half>& a, const std::vector<__half>& b,
                            const std::vector<__half>& c, float alpha, float beta) {
  std::vector<double> product;
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += double(__half2float(a[row * kK + k])) * double(__half2float(b[k * kN + column]));
      product.push_back(alpha * sum + beta * double(__half2float(c[row * kN + column])));
    }
  }
  return product;
}

void RequireTwoInFour(const std::vector<__half>& a) {
  for (std::size_t i = 0; i < a.size(); i += 4) {
    int zeros = 0;
    for (std::size_t k = i; k < i + 4; ++k) zeros += __half2float(a[k]) == 0;
    REQUIRE(zeros >= 2);
  }
}

}  // namespace

int main() {
  cusparseLtHandle_t handle;
  CHECK(cusparseLtInit(&handle));
  constexpr unsigned kAlignment = 16;
  cusparseLtMatDescriptor_t a_shape, b_shape, c_shape;
  CHECK(cusparseLtStructuredDescriptorInit(&handle, &a_shape, kM, kK, kK, kAlignment, CUDA_R_16F,
                                           CUSPARSE_ORDER_ROW, CUSPARSELT_SPARSITY_50_PERCENT));
  CHECK(cusparseLtDenseDescriptorInit(&handle, &b_shape, kK, kN, kN, kAlignment, CUDA_R_16F,
                                      CUSPARSE_ORDER_ROW));
  CHECK(cusparseLtDenseDescriptorInit(&handle, &c_shape, kM, kN, kN, kAlignment, CUDA_R_16F,
                                      CUSPARSE_ORDER_ROW));
  cusparseLtMatmulDescriptor_t product;
  CHECK(cusparseLtMatmulDescriptorInit(&handle, &product, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                       CUSPARSE_OPERATION_NON_TRANSPOSE, &a_shape, &b_shape,
                                       &c_shape, &c_shape, CUSPARSE_COMPUTE_32F));
  cusparseLtMatmulAlgSelection_t algorithm;
  CHECK(cusparseLtMatmulAlgSelectionInit(&handle, &algorithm, &product,
                                         CUSPARSELT_MATMUL_ALG_DEFAULT));
  cusparseLtMatmulPlan_t plan;
  CHECK(cusparseLtMatmulPlanInit(&handle, &plan, &product, &algorithm));

  const std::vector<__half> dense = Values(kM * kK, 1), b = Values(kK * kN, 2),
                            c = Values(kM * kN, 3);
  std::vector<__half> pruned = dense;
  for (std::size_t i = 0; i < pruned.size(); i += 4)
    pruned[i + i / 4 % 2] = pruned[i + 2 + i / 8 % 2] = __float2half(0);
  const DeviceVector<__half> dense_there(dense), a_there(dense.size()), b_there(b), c_there(c),
      d_there(c.size());
  const DeviceVector<int> valid_there(1);
  const float alpha = 1.5f, beta = -0.5f;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  for (const bool by_library : {false, true}) {
    if (by_library) {
      CHECK(cusparseLtSpMMAPrune(&handle, &product, dense_there.get(), a_there.get(),
                                 CUSPARSELT_PRUNE_SPMMA_STRIP, stream));
    } else {
      CHECK(cudaMemcpyAsync(a_there.get(), pruned.data(), pruned.size() * sizeof(__half),
                            cudaMemcpyHostToDevice, stream));
    }
    CHECK(cusparseLtSpMMAPruneCheck(&handle, &product, a_there.get(), valid_there.get(), stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(valid_there.Read()[0] == 0);  // 0: valid.
    const std::vector<__half> a = a_there.Read();
    RequireTwoInFour(a);

    std::size_t compressed_size = 0, buffer_size = 0, workspace_size = 0;
    CHECK(cusparseLtSpMMACompressedSize(&handle, &plan, &compressed_size, &buffer_size));
    const DeviceVector<char> compressed(compressed_size),
        buffer(std::max<std::size_t>(1, buffer_size));
    CHECK(cusparseLtSpMMACompress(&handle, &plan, a_there.get(), compressed.get(), buffer.get(),
                                  stream));
    if (by_library)
      CHECK(cusparseLtMatmulSearch(&handle, &plan, &alpha, compressed.get(), b_there.get(), &beta,
                                   c_there.get(), d_there.get(), nullptr, &stream, 1));
    CHECK(cusparseLtMatmulGetWorkspace(&handle, &plan, &workspace_size));
    const DeviceVector<char> workspace(std::max<std::size_t>(1, workspace_size));
    CHECK(cusparseLtMatmul(&handle, &plan, &alpha, compressed.get(), b_there.get(), &beta,
                           c_there.get(), d_there.get(), workspace.get(), &stream, 1));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<float> found;
    for (const __half value : d_there.Read()) found.push_back(__half2float(value));
    RequireNear(found, Product(a, b, c, alpha, beta), 2e-3);
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cusparseLtMatmulPlanDestroy(&plan));
  for (const cusparseLtMatDescriptor_t* shape : {&a_shape, &b_shape, &c_shape})
    CHECK(cusparseLtMatDescriptorDestroy(shape));
  CHECK(cusparseLtDestroy(&handle));
  std::puts("right");
}
