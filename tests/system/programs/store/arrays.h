// Arrays of the program `store`, and launches of its kernels.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuspan/store.cuh"
#include "driver_check.h"
#include "files.h"

extern CUmodule module;  // The kernels.

enum Way : int { kIndex, kWarp, kPin, kDivergent, kHeld, kWays };
inline constexpr const char* kWayNames[] = {"index", "warp", "pin", "divergent", "held"};

inline CUfunction Function(const std::string& name) {
  CUfunction function = nullptr;
  DRIVER(cuModuleGetFunction(&function, module, name.c_str()));
  return function;
}

template <typename... Arguments>
void Launch(const std::string& kernel, unsigned blocks, unsigned threads, Arguments... arguments) {
  void* values[] = {&arguments...};
  DRIVER(
      cuLaunchKernel(Function(kernel), blocks, 1, 1, threads, 1, 1, 0, nullptr, values, nullptr));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) : bytes_(bytes) { DRIVER(cuMemAlloc(&address_, bytes + 1)); }
  DeviceBytes(const DeviceBytes&) = delete;
  ~DeviceBytes() { DRIVER(cuMemFree(address_)); }
  CUdeviceptr address() const { return address_; }
  void Put(const void* from) { DRIVER(cuMemcpyHtoD(address_, from, bytes_)); }
  void Get(void* to) { DRIVER(cuMemcpyDtoH(to, address_, bytes_)); }

 private:
  const size_t bytes_;
  CUdeviceptr address_ = 0;
};

// An array by the C functions.
class OpenArray {
 public:
  OpenArray(const cuspanArrayConfig_t& config, const cuspan::store::Cache& cache) {
    const int result = cuspanArrayOpen(&array_, &config, cache.get());
    if (result != CUSPAN_STORE_SUCCESS) {
      std::fprintf(stderr, "cuspanArrayOpen: %d, %s\n", result, cuspanStoreLastMessage());
      std::exit(EXIT_FAILURE);
    }
    EXPECT(cuspanArrayGetView(array_, &view_) == CUSPAN_STORE_SUCCESS, "no view");
  }
  OpenArray(const OpenArray&) = delete;
  ~OpenArray() {
    EXPECT(cuspanArrayClose(array_) == CUSPAN_STORE_SUCCESS, "close: %s", cuspanStoreLastMessage());
  }
  cuspanArray_t get() const { return array_; }
  const cuspanArrayView_t& view() const { return view_; }
  int Check() const { return cuspanArrayCheck(array_); }
  cuspanArrayStatistics_t Statistics() const {
    cuspanArrayStatistics_t statistics = {};
    EXPECT(cuspanArrayGetStatistics(array_, &statistics) == CUSPAN_STORE_SUCCESS, "no statistics");
    return statistics;
  }

 private:
  cuspanArray_t array_ = nullptr;
  cuspanArrayView_t view_ = {};
};

// Reads elements at these indices, and compares them with those of the file.
inline void ReadAndCompare(const cuspanArrayView_t& view, uint32_t element, Way way,
                           std::vector<uint64_t> indices, const unsigned char* elements,
                           const std::string& what) {
  if (indices.empty()) return;
  while (indices.size() % 32 != 0) indices.push_back(indices.back());
  DeviceBytes places(indices.size() * sizeof(uint64_t));
  places.Put(indices.data());
  DeviceBytes out(indices.size() * element);
  Launch("gather_" + std::to_string(element), 4, 64, view, places.address(),
         static_cast<uint64_t>(indices.size()), out.address(), static_cast<int>(way));
  std::vector<unsigned char> got(indices.size() * element);
  out.Get(got.data());
  for (size_t i = 0; i < indices.size(); ++i)
    if (std::memcmp(got.data() + i * element, elements + indices[i] * element, element) != 0) {
      EXPECT(false, "%s, %s: element %llu differs", what.c_str(), kWayNames[way],
             static_cast<unsigned long long>(indices[i]));
      return;
    }
}

// Tests of lines that are read when kernels ask for them.
void Served(const std::string& folder, uint32_t line);
void Resident(const std::string& folder, uint32_t line);
void Cold(const std::string& folder, uint32_t line);
void Damaged(const std::string& folder, uint32_t line);
void Asks(const std::string& folder, uint32_t line);
