// The table of errors against NVIDIA's own header, and the rules of the last error.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// The enumerators of `enum cudaError` as the header's text lists them.
std::map<int, std::string> ErrorsOfHeader() {
  std::ifstream file(DRIVER_TYPES_HEADER);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t begin = all.find("enum __device_builtin__ cudaError\n");
  EXPECT_NE(begin, std::string::npos);
  const std::string block = all.substr(begin, all.find("};", begin) - begin);
  const std::regex row(R"(\n\s*(cuda\w+)\s*=\s*(\d+))");
  std::map<int, std::string> errors;
  for (std::sregex_iterator match(block.begin(), block.end(), row), end; match != end; ++match) {
    errors[std::stoi((*match)[2])] = (*match)[1];
  }
  return errors;
}

TEST(ErrorTable, NamesEveryErrorOfTheHeaderAndNoOther) {
  const std::map<int, std::string> errors = ErrorsOfHeader();
  ASSERT_GT(errors.size(), 100U);
  for (int number = -1; number <= 11000; ++number) {
    const auto expected = errors.find(number);
    const std::string name = cudaGetErrorName(static_cast<cudaError_t>(number));
    if (expected != errors.end()) {
      EXPECT_EQ(name, expected->second);
      EXPECT_STRNE(cudaGetErrorString(static_cast<cudaError_t>(number)), "");
    } else {
      EXPECT_EQ(name, "unrecognized error code") << number;
    }
  }
}

TEST(ErrorTable, SaysWhatUsersKnow) {
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress),
               "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected");
}

TEST(LastError, StaysUntilTaken) {
  EXPECT_EQ(KeepError(cudaErrorInvalidValue, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(KeepError(cudaSuccess, nullptr), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(LastError, IsTheLatest) {
  KeepError(cudaErrorInvalidValue, nullptr);
  KeepError(cudaErrorMemoryAllocation, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(LastError, DoesNotKnowNotReady) {
  EXPECT_EQ(KeepError(cudaErrorNotReady, nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(LastError, BelongsToItsThread) {
  KeepError(cudaErrorInvalidValue, nullptr);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
