// Four streams, each with its own handle and workspace; events order their products.
#include <cublas_v2.h>

#include "library_check.h"

namespace {

constexpr int kStreams = 4, kRounds = 5, kN = 160;
constexpr std::size_t kWorkspaceBytes = 8 << 20;

template <typename T>
std::vector<double> Product(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<double> product(kN * kN);
  for (int column = 0; column < kN; ++column)
    for (int k = 0; k < kN; ++k)
      for (int row = 0; row < kN; ++row)
        product[column * kN + row] +=
            static_cast<double>(a[k * kN + row]) * static_cast<double>(b[column * kN + k]);
  return product;
}

struct Lane {
  explicit Lane(unsigned seed)
      : a(RandomVector(kN * kN, seed)),
        b(RandomVector(kN * kN, seed + 1)),
        a_there(a),
        b_there(b),
        own_there(kN * kN),
        joint_there(kN * kN),
        workspace(kWorkspaceBytes) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&own_ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joint_ready, cudaEventDisableTiming));
    CHECK(cublasCreate(&handle));
    // Setting the stream restores the handle's first workspace, so the workspace is set after it.
    CHECK(cublasSetStream(handle, stream));
    CHECK(cublasSetWorkspace(handle, workspace.get(), kWorkspaceBytes));
  }
  Lane(const Lane&) = delete;
  ~Lane() {
    cublasDestroy(handle);
    cudaEventDestroy(joint_ready);
    cudaEventDestroy(own_ready);
    cudaStreamDestroy(stream);
  }

  std::vector<float> a, b;
  DeviceVector<float> a_there, b_there, own_there, joint_there;
  DeviceVector<char> workspace;
  cudaStream_t stream = nullptr;
  cudaEvent_t own_ready = nullptr, joint_ready = nullptr;
  cublasHandle_t handle = nullptr;
};

void Multiply(Lane& lane, const DeviceVector<float>& left, const DeviceVector<float>& right,
              const DeviceVector<float>& result) {
  const float one = 1, zero = 0;
  CHECK(cublasSgemm(lane.handle, CUBLAS_OP_N, CUBLAS_OP_N, kN, kN, kN, &one, left.get(), kN,
                    right.get(), kN, &zero, result.get(), kN));
}

}  // namespace

int main() {
  Lane lanes[kStreams] = {Lane(1), Lane(3), Lane(5), Lane(7)};
  std::vector<std::vector<double>> own, joint;
  for (const Lane& lane : lanes) own.push_back(Product(lane.a, lane.b));
  std::vector<double> sum(kN * kN);
  for (int i = 0; i < kStreams; ++i) {
    joint.push_back(Product(own[i], own[(i + 1) % kStreams]));
    for (int at = 0; at < kN * kN; ++at) sum[at] += joint[i][at];
  }
  const DeviceVector<float> sum_there(kN * kN);
  const std::size_t bytes = kN * kN * sizeof(float);
  for (int round = 0; round < kRounds; ++round) {
    // All results become NaN, to detect reads of a result too early. The non-blocking streams do
    // not wait for the default stream; the memsets are complete here.
    for (const Lane& lane : lanes) {
      CHECK(cudaMemset(lane.own_there.get(), 0xff, bytes));
      CHECK(cudaMemset(lane.joint_there.get(), 0xff, bytes));
    }
    CHECK(cudaMemset(sum_there.get(), 0xff, bytes));
    CHECK(cudaDeviceSynchronize());
    for (Lane& lane : lanes) {
      Multiply(lane, lane.a_there, lane.b_there, lane.own_there);
      CHECK(cudaEventRecord(lane.own_ready, lane.stream));
    }
    for (int i = 0; i < kStreams; ++i) {
      Lane &lane = lanes[i], &next = lanes[(i + 1) % kStreams];
      CHECK(cudaStreamWaitEvent(lane.stream, next.own_ready, 0));
      Multiply(lane, lane.own_there, next.own_there, lane.joint_there);
      CHECK(cudaEventRecord(lane.joint_ready, lane.stream));
    }
    // The last stream adds all results.
    Lane& last = lanes[kStreams - 1];
    CHECK(cudaMemsetAsync(sum_there.get(), 0, bytes, last.stream));
    for (Lane& lane : lanes) {
      const float one = 1;
      CHECK(cudaStreamWaitEvent(last.stream, lane.joint_ready, 0));
      CHECK(cublasSaxpy(last.handle, kN * kN, &one, lane.joint_there.get(), 1, sum_there.get(), 1));
    }
    CHECK(cudaStreamSynchronize(last.stream));
    RequireNear(sum_there.Read(), sum, 1e-5);
    for (int i = 0; i < kStreams; ++i) {
      RequireNear(lanes[i].own_there.Read(), own[i], 1e-5);
      RequireNear(lanes[i].joint_there.Read(), joint[i], 1e-5);
    }
  }
  std::puts("right");
}
