// What is said of kernels that take long to compile.
#include "proxy/softgpu/jit/compile_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace cuspan::softgpu {
namespace {

using ::testing::HasSubstr;
using For = CompileNotice::For;

TEST(CompileNotice, NothingIsSaidOfWhatIsDoneInTime) {
  testing::internal::CaptureStderr();
  { const CompileNotice notice("quick", 7, For::kProgram, std::chrono::hours(1)); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CompileNotice, WhatTakesLongIsSaidWhileItDoesAndAfterwards) {
  const std::pair<For, const char*> cases[] = {
      {For::kProgram, "the program waits\n"},
      {For::kProgramAndCache, "the program waits. Later runs find the code in the cache\n"},
      {For::kLater, "it runs in slower code meanwhile\n"}};
  for (const auto& [whom, meanwhile] : cases) {
    testing::internal::CaptureStderr();
    {
      const CompileNotice notice("slow", 7, whom, std::chrono::milliseconds(0));
      while (!notice.late()) std::this_thread::yield();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
    EXPECT_THAT(said, HasSubstr("compiling kernel slow (7 PTX instructions) takes more than 0 s; " +
                                std::string(meanwhile)));
    EXPECT_THAT(said, HasSubstr("kernel slow took 0."));
  }
}

}  // namespace
}  // namespace cuspan::softgpu
