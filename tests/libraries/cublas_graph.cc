// A product and an addition captured in a graph, launched again with other inputs.
#include <cublas_v2.h>

#include "library_check.h"

namespace {

constexpr int kN = 96, kLaunches = 10;
constexpr std::size_t kWorkspaceBytes = 8 << 20;

struct Buffers {
  DeviceVector<float> a{kN * kN}, b{kN * kN}, c{kN * kN}, y{kN * kN}, factor{1};
};

// c = a × b, y += factor × c. The factor is in device memory, since a graph keeps the value of a
// host scalar from the capture.
void Enqueue(cublasHandle_t handle, const Buffers& buffers) {
  const float one = 1, zero = 0;
  CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kN, kN, kN, &one, buffers.a.get(), kN,
                    buffers.b.get(), kN, &zero, buffers.c.get(), kN));
  CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
  CHECK(cublasSaxpy(handle, kN * kN, buffers.factor.get(), buffers.c.get(), 1, buffers.y.get(), 1));
}

void Write(const DeviceVector<float>& place, const std::vector<float>& values,
           cudaStream_t stream) {
  CHECK(cudaMemcpyAsync(place.get(), values.data(), values.size() * sizeof(float),
                        cudaMemcpyHostToDevice, stream));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  const DeviceVector<char> workspace(kWorkspaceBytes);
  const Buffers buffers;
  // Setting the stream would reset the workspace, so the workspace is set after it. It is set
  // before the capture, since cuBLAS must not allocate in a capture.
  CHECK(cublasSetStream(handle, stream));
  CHECK(cublasSetWorkspace(handle, workspace.get(), kWorkspaceBytes));
  CHECK(cudaMemsetAsync(buffers.y.get(), 0, buffers.y.size() * sizeof(float), stream));

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  std::vector<double> y(kN * kN);
  // Run 0 does not use the graph: it loads the kernels before the capture.
  for (int run = 0; run <= kLaunches; ++run) {
    const std::vector<float> a = RandomVector(kN * kN, 2 * run + 1);
    const std::vector<float> b = RandomVector(kN * kN, 2 * run + 2);
    const std::vector<float> factor = {0.5f + static_cast<float>(run)};
    Write(buffers.a, a, stream);
    Write(buffers.b, b, stream);
    Write(buffers.factor, factor, stream);
    if (run == 0)
      Enqueue(handle, buffers);
    else
      CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));

    std::vector<double> c(kN * kN);
    for (int column = 0; column < kN; ++column)
      for (int k = 0; k < kN; ++k)
        for (int row = 0; row < kN; ++row)
          c[column * kN + row] += static_cast<double>(a[k * kN + row]) * b[column * kN + k];
    for (int i = 0; i < kN * kN; ++i) y[i] += static_cast<double>(factor[0]) * c[i];
    RequireNear(buffers.c.Read(), c, 1e-5);
    RequireNear(buffers.y.Read(), y, 1e-5);
    if (run > 0) continue;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    Enqueue(handle, buffers);
    CHECK(cudaStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    REQUIRE(nodes >= 2);
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    // The capture itself computes nothing.
    CHECK(cudaStreamSynchronize(stream));
    RequireNear(buffers.y.Read(), y, 1e-5);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cublasDestroy(handle));
  CHECK(cudaStreamDestroy(stream));
  std::puts("right");
}
