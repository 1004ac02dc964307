// Operations on vectors, in float and double, with strides, host and device scalars and results.
#include <cublas_v2.h>

#include <limits>
#include <utility>

#include "library_check.h"

namespace {

constexpr int kSize = 1000;

template <typename T>
struct Functions {
  cublasStatus_t (*dot)(cublasHandle_t, int, const T*, int, const T*, int, T*);
  cublasStatus_t (*nrm2)(cublasHandle_t, int, const T*, int, T*);
  cublasStatus_t (*asum)(cublasHandle_t, int, const T*, int, T*);
  cublasStatus_t (*iamax)(cublasHandle_t, int, const T*, int, int*);
  cublasStatus_t (*axpy)(cublasHandle_t, int, const T*, const T*, int, T*, int);
  cublasStatus_t (*scal)(cublasHandle_t, int, const T*, T*, int);
  cublasStatus_t (*rot)(cublasHandle_t, int, T*, int, T*, int, const T*, const T*);
  cublasStatus_t (*swap)(cublasHandle_t, int, T*, int, T*, int);
};

template <typename T>
void Compare(cublasHandle_t handle, const Functions<T>& functions, cublasPointerMode_t mode,
             int x_stride, int y_stride, double tolerance) {
  const bool on_host = mode == CUBLAS_POINTER_MODE_HOST;
  CHECK(cublasSetPointerMode(handle, mode));
  const std::vector<T> x_values = RandomVector<T>(kSize * x_stride, 1);
  const std::vector<T> y_values = RandomVector<T>(kSize * y_stride, 2);
  const DeviceVector<T> x_there(x_values), y_there(y_values);
  // The gaps between elements take part in the comparisons, but in no operation.
  std::vector<double> x(x_values.begin(), x_values.end()), y(y_values.begin(), y_values.end());

  double dot = 0, squares = 0, sum = 0;
  int largest = 0;
  for (int i = 0; i < kSize; ++i) {
    const double value = x[i * x_stride];
    dot += value * y[i * y_stride];
    squares += value * value;
    sum += std::abs(value);
    if (std::abs(value) > std::abs(x[largest * x_stride])) largest = i;
  }
  std::vector<T> results(3, std::numeric_limits<T>::quiet_NaN());
  std::vector<int> index = {-1};
  const DeviceVector<T> results_there(results);
  const DeviceVector<int> index_there(index);
  T* const result = on_host ? results.data() : results_there.get();
  CHECK(functions.dot(handle, kSize, x_there.get(), x_stride, y_there.get(), y_stride, result));
  CHECK(functions.nrm2(handle, kSize, x_there.get(), x_stride, result + 1));
  CHECK(functions.asum(handle, kSize, x_there.get(), x_stride, result + 2));
  CHECK(functions.iamax(handle, kSize, x_there.get(), x_stride,
                        on_host ? index.data() : index_there.get()));
  RequireNear(on_host ? results : results_there.Read(),
              std::vector<double>{dot, std::sqrt(squares), sum}, tolerance);
  // cuBLAS counts from 1.
  REQUIRE((on_host ? index : index_there.Read())[0] == largest + 1);

  const double alpha = -1.5, scale = 0.75, cosine = 0.8, sine = 0.6;
  const std::vector<T> scalars = {static_cast<T>(alpha), static_cast<T>(scale),
                                  static_cast<T>(cosine), static_cast<T>(sine)};
  const DeviceVector<T> scalars_there(scalars);
  const T* const scalar = on_host ? scalars.data() : scalars_there.get();
  const auto require_same = [&] {
    RequireNear(x_there.Read(), x, tolerance);
    RequireNear(y_there.Read(), y, tolerance);
  };
  CHECK(functions.axpy(handle, kSize, scalar, x_there.get(), x_stride, y_there.get(), y_stride));
  for (int i = 0; i < kSize; ++i) y[i * y_stride] += alpha * x[i * x_stride];
  require_same();
  CHECK(functions.scal(handle, kSize, scalar + 1, x_there.get(), x_stride));
  for (int i = 0; i < kSize; ++i) x[i * x_stride] *= scale;
  require_same();
  CHECK(functions.rot(handle, kSize, x_there.get(), x_stride, y_there.get(), y_stride, scalar + 2,
                      scalar + 3));
  for (int i = 0; i < kSize; ++i) {
    const double x_old = x[i * x_stride], y_old = y[i * y_stride];
    x[i * x_stride] = cosine * x_old + sine * y_old;
    y[i * y_stride] = cosine * y_old - sine * x_old;
  }
  require_same();
  CHECK(functions.swap(handle, kSize, x_there.get(), x_stride, y_there.get(), y_stride));
  for (int i = 0; i < kSize; ++i) std::swap(x[i * x_stride], y[i * y_stride]);
  require_same();
}

}  // namespace

int main() {
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle));
  const Functions<float> floats = {cublasSdot,  cublasSnrm2, cublasSasum, cublasIsamax,
                                   cublasSaxpy, cublasSscal, cublasSrot,  cublasSswap};
  const Functions<double> doubles = {cublasDdot,  cublasDnrm2, cublasDasum, cublasIdamax,
                                     cublasDaxpy, cublasDscal, cublasDrot,  cublasDswap};
  for (const cublasPointerMode_t mode : {CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE}) {
    for (const auto& [x_stride, y_stride] : {std::pair(1, 1), std::pair(2, 3), std::pair(3, 1)}) {
      Compare(handle, floats, mode, x_stride, y_stride, 2e-6);
      Compare(handle, doubles, mode, x_stride, y_stride, 1e-14);
    }
  }
  CHECK(cublasDestroy(handle));
  std::puts("right");
}
