// The stand-in libcuda.so.1 and the entry points that are not supported yet,
// called as programs call them.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/interpose/load/run_program.h"

namespace {

using testing::HasSubstr;

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported

class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  template <typename F>
  F Get(const char* name) {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) ADD_FAILURE() << name;
    return reinterpret_cast<F>(found);
  }

 private:
  void* handle_;
};

TEST(Standin, NamesEachFunctionOnceAndRefuses) {
  Library driver(STANDIN);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(driver.Get<int (*)(unsigned)>("cuInit")(0), kNotSupported);
    EXPECT_EQ(driver.Get<int (*)(int*)>("cuDeviceGetCount")(nullptr), kNotSupported);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      said,
      "cuspan: this program calls the CUDA driver API (cuInit), which cuspan does not support "
      "yet; the call returns CUDA_ERROR_NOT_SUPPORTED\n"
      "cuspan: this program calls the CUDA driver API (cuDeviceGetCount), which cuspan does "
      "not support yet; the call returns CUDA_ERROR_NOT_SUPPORTED\n");
}

TEST(Standin, DescribesItsErrors) {
  Library driver(STANDIN);
  const auto name = driver.Get<int (*)(int, const char**)>("cuGetErrorName");
  const auto text = driver.Get<int (*)(int, const char**)>("cuGetErrorString");
  const char* out = nullptr;
  EXPECT_EQ(name(kNotSupported, &out), 0);
  EXPECT_STREQ(out, "CUDA_ERROR_NOT_SUPPORTED");
  EXPECT_EQ(text(0, &out), 0);
  EXPECT_STREQ(out, "no error");
  EXPECT_EQ(name(123456, &out), 1);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(name(0, nullptr), 1);
}

// The program has the C library; one that does not gets no second one
// (interpose/driver/CMakeLists.txt).
TEST(Standin, NeedsNoLibraryOfItsOwn) {
  const Outcome outcome = RunShell("readelf -d " STANDIN);
  EXPECT_THAT(outcome.output, HasSubstr("Library soname: [libcuda.so.1]"));
  EXPECT_EQ(outcome.output.find("(NEEDED)"), std::string::npos) << outcome.output;
}

TEST(NotSupported, NamesEachFunctionOnceAndReturnsTheError) {
  const std::string python =
      "python3 -c \"import ctypes; r = ctypes.CDLL(None); "
      "print([r.cudaMallocManaged(0) for _ in range(3)], r.cudaStreamCreate(0), "
      "r.cudaGetErrorName(0))\"";
  const Outcome outcome = RunShell("CUSPAN_SOCKET=/none " + Preload(FAKE) + python);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("[801, 801, 801] 801 0\n"));
  for (const char* name : {"cudaMallocManaged", "cudaStreamCreate", "cudaGetErrorName"}) {
    const std::string line = std::string("cuspan: ") + name +
                             " is not supported yet; the call returns cudaErrorNotSupported\n";
    const std::size_t first = outcome.output.find(line);
    ASSERT_NE(first, std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find(line, first + 1), std::string::npos) << outcome.output;
  }
}

}  // namespace
