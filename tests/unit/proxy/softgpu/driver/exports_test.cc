// The library's dynamic symbols must be exactly the proxy's list of driver functions, those for
// programs without a proxy, and the additional functions below.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace {

// The macros of cuda.h turn a row into the versioned symbol.
#define CUSPAN_TEXT(name) #name
#define CUSPAN_DRIVER_FUNCTION(name) CUSPAN_TEXT(name),
const std::vector<std::string> kListed = {
#include "proxy/gpu/driver_functions.def"
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8_v2",
    "cuspan_soft_compiler_main",
    "cuspan_soft_place_variable",
    "cuspan_soft_set_log_identity",
    "cuspan_soft_watch_compilations"};

TEST(ExportsTest, TheListAndNothingElse) {
  std::FILE* output = popen("nm -D --defined-only --extern-only " CUSPAN_TEST_LIBRARY, "r");
  ASSERT_NE(output, nullptr);
  std::vector<std::string> exported;
  char line[512];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    std::istringstream words(line);
    std::string address, kind, name;
    words >> address >> kind >> name;
    exported.push_back(name);
  }
  EXPECT_EQ(pclose(output), 0);
  EXPECT_THAT(exported, testing::UnorderedElementsAreArray(kListed));
}

}  // namespace
