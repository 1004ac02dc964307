// Errors converted to results of the runtime and of the driver, and their table against NVIDIA's
// own header. (runtime/error_test.cc compares the runtime's names.)
#include "interpose/calls/base/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

namespace cuspan {
namespace {

// The enumerators of CUresult as the header's text lists them.
std::map<int, std::string> ErrorsOfHeader() {
  std::ifstream file(CUDA_HEADER);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t begin = all.find("typedef enum cudaError_enum {");
  EXPECT_NE(begin, std::string::npos);
  const std::string block = all.substr(begin, all.find("} CUresult;", begin) - begin);
  const std::regex row(R"(\n\s*(CUDA_\w+)\s*=\s*(\d+))");
  std::map<int, std::string> errors;
  for (std::sregex_iterator match(block.begin(), block.end(), row), end; match != end; ++match)
    errors[std::stoi((*match)[2])] = (*match)[1];
  return errors;
}

TEST(ErrorTable, NamesEveryResultOfTheDriversHeaderAndNoOther) {
  const std::map<int, std::string> errors = ErrorsOfHeader();
  ASSERT_GT(errors.size(), 90U);
  for (int number = -1; number <= 11000; ++number) {
    const auto expected = errors.find(number);
    const ErrorEntry* const entry = FindError(number);
    const bool named = entry != nullptr && entry->driver_name != nullptr;
    ASSERT_EQ(named, expected != errors.end()) << number;
    if (!named) continue;
    EXPECT_EQ(entry->driver_name, expected->second);
    EXPECT_EQ(static_cast<int>(entry->driver), number);
    EXPECT_STRNE(entry->text, "");
  }
}

TEST(Error, KeepsTheDriversNumber) {
  EXPECT_EQ(Error(CUDA_SUCCESS).runtime(), cudaSuccess);
  EXPECT_EQ(Error(CUDA_ERROR_INVALID_VALUE).runtime(), cudaErrorInvalidValue);
  EXPECT_EQ(Error(CUDA_ERROR_OUT_OF_MEMORY).runtime(), cudaErrorMemoryAllocation);
  EXPECT_EQ(Error(CUDA_ERROR_NOT_INITIALIZED).runtime(), cudaErrorInitializationError);
  EXPECT_EQ(Error(CUDA_ERROR_NO_DEVICE).runtime(), cudaErrorNoDevice);
  EXPECT_EQ(Error(CUDA_ERROR_INVALID_HANDLE).runtime(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(Error(CUDA_ERROR_NOT_READY).runtime(), cudaErrorNotReady);
  EXPECT_EQ(Error(CUDA_ERROR_ILLEGAL_ADDRESS).runtime(), cudaErrorIllegalAddress);
  EXPECT_EQ(Error(CUDA_ERROR_DEVICE_UNAVAILABLE).runtime(), cudaErrorDevicesUnavailable);
}

TEST(Error, OfTheDriverOnlyIsUnknown) {
  EXPECT_EQ(Error(CUDA_ERROR_CONTEXT_ALREADY_CURRENT).runtime(), cudaErrorUnknown);
}

TEST(Error, LeavesAsTheDriversWithItsNumberOrWhatTheDriverAnswersThere) {
  for (const CUresult result : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE,
                                CUDA_ERROR_CONTEXT_ALREADY_CURRENT, CUDA_ERROR_NOT_READY})
    EXPECT_EQ(Error(result).driver(), result);
  EXPECT_EQ(Error(cudaErrorInvalidConfiguration).driver(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Error(cudaErrorInvalidMemcpyDirection).driver(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Error(cudaErrorInvalidDeviceFunction).driver(), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Error(cudaErrorMemoryAllocation).driver(), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace cuspan
