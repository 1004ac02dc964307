// Helpers for the programs of this folder: each uses one of CUDA's libraries and compares its
// results with results computed on the host.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

// Ends the program if a call of the runtime, or of a library with 0 for success, fails.
#define CHECK(call)                                                              \
  do {                                                                           \
    if (const auto check_result = (call); static_cast<int>(check_result) != 0) { \
      std::fprintf(stderr, "%s:%d: %s: result %d\n", __FILE__, __LINE__, #call,  \
                   static_cast<int>(check_result));                              \
      std::exit(1);                                                              \
    }                                                                            \
  } while (false)

// Ends the program if the condition does not hold.
#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

// Device memory with the values of a vector.
template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(std::size_t size) : size_(size) {
    CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
  }
  explicit DeviceVector(const std::vector<T>& values) : DeviceVector(values.size()) {
    CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceVector(const DeviceVector&) = delete;
  ~DeviceVector() { cudaFree(data_); }

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  // Synchronous; waits for the default stream.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// Values in -1 … 1, reproducible by seed.
template <typename T = float>
std::vector<T> RandomVector(std::size_t size, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<T> values(size);
  for (T& value : values) value = static_cast<T>(distribution(generator));
  return values;
}

// Ends the program if a value is NaN or too far from the expected one. The allowed distance is
// `tolerance` × the largest expected value (at least × 1).
template <typename T, typename U>
void RequireNear(const std::vector<T>& found, const std::vector<U>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  double largest = 1;
  for (const U& value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference =
        std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (difference <= tolerance * largest) continue;
    std::fprintf(stderr, "element %zu: %.9g, expected %.9g\n", i, static_cast<double>(found[i]),
                 static_cast<double>(expected[i]));
    std::exit(1);
  }
}
