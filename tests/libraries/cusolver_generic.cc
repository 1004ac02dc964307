// The API with 64-bit sizes: Cholesky, LU and eigenvalues in float and double, on a stream.
#include <cusolverDn.h>

#include <type_traits>

#include "matrix_check.h"

namespace {

constexpr int64_t kSize = 130;
constexpr auto kLower = CUBLAS_FILL_MODE_LOWER;

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

// A symmetric matrix with eigenvalues above 0.
template <typename T>
std::vector<T> RandomMatrix() {
  std::vector<T> matrix = RandomVector<T>(kSize * kSize, 1);
  for (int64_t column = 0; column < kSize; ++column) {
    matrix[column * (kSize + 1)] += 40;
    for (int64_t row = 0; row < column; ++row)
      matrix[row * kSize + column] = matrix[column * kSize + row];
  }
  return matrix;
}

struct Solver {
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t params = nullptr;
  cudaStream_t stream = nullptr;  // does not wait for the default stream used by DeviceVector
  const DeviceVector<int> info = DeviceVector<int>(1);

  template <typename T>
  void Write(const DeviceVector<T>& there, const std::vector<T>& values) {
    CHECK(cudaMemcpyAsync(there.get(), values.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice, stream));
  }
  template <typename T>
  std::vector<T> Read(const DeviceVector<T>& there) {
    std::vector<T> values(there.size());
    CHECK(cudaMemcpyAsync(values.data(), there.get(), values.size() * sizeof(T),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return values;
  }

  // Gives `function` workspaces of the required sizes, on the device and the host, and waits.
  template <typename Size, typename Function>
  void Run(Size buffer_size, Function function) {
    std::size_t device_size = 0, host_size = 0;
    CHECK(buffer_size(&device_size, &host_size));
    const DeviceVector<char> device_work(std::max<std::size_t>(device_size, 1));
    std::vector<char> host_work(std::max<std::size_t>(host_size, 1));
    CHECK(function(device_work.get(), device_size, host_work.data(), host_size, info.get()));
    REQUIRE(Read(info)[0] == 0);
  }

  template <typename T>
  void Cholesky(double tolerance) {
    const std::vector<T> a = RandomMatrix<T>(), b = RandomVector<T>(kSize * kSize, 2);
    const DeviceVector<T> a_there(a.size()), x(b.size());
    Write(a_there, a);
    Write(x, b);
    const auto call = [&](auto function, auto... last) {
      return function(handle, params, kLower, kSize, kType<T>, a_there.get(), kSize, kType<T>,
                      last...);
    };
    Run([&](auto... sizes) { return call(cusolverDnXpotrf_bufferSize, sizes...); },
        [&](auto... work) { return call(cusolverDnXpotrf, work...); });
    CHECK(cusolverDnXpotrs(handle, params, kLower, kSize, kSize, kType<T>, a_there.get(), kSize,
                           kType<T>, x.get(), kSize, info.get()));
    REQUIRE(Read(info)[0] == 0);
    RequireNear(Product(a, false, Read(x), kSize, kSize, kSize), b, tolerance);
  }

  template <typename T>
  void Lu(cusolverAlgMode_t algorithm, double tolerance) {
    std::vector<T> a = RandomMatrix<T>();
    std::rotate(a.begin(), a.begin() + 17, a.end());  // moves large elements off the diagonal
    const std::vector<T> b = RandomVector<T>(kSize * kSize, 2);
    const DeviceVector<T> a_there(a.size()), x(b.size());
    const DeviceVector<int64_t> pivots(kSize);
    Write(a_there, a);
    CHECK(cusolverDnSetAdvOptions(params, CUSOLVERDN_GETRF, algorithm));
    Run(
        [&](auto... sizes) {
          return cusolverDnXgetrf_bufferSize(handle, params, kSize, kSize, kType<T>, a_there.get(),
                                             kSize, kType<T>, sizes...);
        },
        [&](auto... work) {
          return cusolverDnXgetrf(handle, params, kSize, kSize, kType<T>, a_there.get(), kSize,
                                  pivots.get(), kType<T>, work...);
        });
    for (const bool transposed : {false, true}) {
      Write(x, b);
      CHECK(cusolverDnXgetrs(handle, params, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, kSize, kSize,
                             kType<T>, a_there.get(), kSize, pivots.get(), kType<T>, x.get(), kSize,
                             info.get()));
      REQUIRE(Read(info)[0] == 0);
      RequireNear(Product(a, transposed, Read(x), kSize, kSize, kSize), b, tolerance);
    }
  }

  template <typename T>
  void Eigen(double tolerance) {
    const std::vector<T> a = RandomMatrix<T>();
    const DeviceVector<T> a_there(a.size()), w_there(kSize);
    Write(a_there, a);
    const auto call = [&](auto function, auto... last) {
      return function(handle, params, CUSOLVER_EIG_MODE_VECTOR, kLower, kSize, kType<T>,
                      a_there.get(), kSize, kType<T>, w_there.get(), kType<T>, last...);
    };
    Run([&](auto... sizes) { return call(cusolverDnXsyevd_bufferSize, sizes...); },
        [&](auto... work) { return call(cusolverDnXsyevd, work...); });
    const std::vector<T> v = Read(a_there), w = Read(w_there);
    REQUIRE(std::is_sorted(w.begin(), w.end()));
    std::vector<double> scaled(v.begin(), v.end()), identity(v.size());
    for (int64_t i = 0; i < kSize * kSize; ++i) scaled[i] *= static_cast<double>(w[i / kSize]);
    for (int64_t i = 0; i < kSize; ++i) identity[i * (kSize + 1)] = 1;
    RequireNear(Product(a, false, v, kSize, kSize, kSize), scaled, tolerance);
    RequireNear(Product(v, true, v, kSize, kSize, kSize), identity, tolerance);
  }

  template <typename T>
  void Compare(double tolerance) {
    Cholesky<T>(tolerance);
    Lu<T>(CUSOLVER_ALG_0, tolerance);
    Lu<T>(CUSOLVER_ALG_1, tolerance);
    Eigen<T>(tolerance);
  }
};

}  // namespace

int main() {
  Solver solver;
  CHECK(cusolverDnCreate(&solver.handle));
  CHECK(cusolverDnCreateParams(&solver.params));
  CHECK(cudaStreamCreateWithFlags(&solver.stream, cudaStreamNonBlocking));
  CHECK(cusolverDnSetStream(solver.handle, solver.stream));
  solver.Compare<float>(1e-4);
  solver.Compare<double>(1e-12);
  CHECK(cusolverDnDestroy(solver.handle));
  CHECK(cusolverDnDestroyParams(solver.params));
  CHECK(cudaStreamDestroy(solver.stream));
  std::puts("right");
}
