// Unsupported entry points of the runtime, called by real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/interpose/load/run_program.h"

namespace {

using testing::HasSubstr;

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
