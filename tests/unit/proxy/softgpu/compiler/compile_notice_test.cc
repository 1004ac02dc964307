// What is said of kernels that take long to compile.
#include "proxy/softgpu/jit/compile_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cuspan::softgpu {
namespace {

using ::testing::HasSubstr;

TEST(CompileNotice, NothingIsSaidOfWhatIsDoneInTime) {
  testing::internal::CaptureStderr();
  { const CompileNotice notice("quick", true, std::chrono::hours(1)); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CompileNotice, WhatTakesLongIsSaidWhileItDoesAndAfterwards) {
  for (const bool kept : {false, true}) {
    testing::internal::CaptureStderr();
    {
      const CompileNotice notice("slow", kept, std::chrono::milliseconds(0));
      while (!notice.late()) std::this_thread::yield();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
    EXPECT_THAT(said, HasSubstr("compiling kernel slow takes more than 0 s; the program waits"));
    EXPECT_EQ(said.find("in the cache") != std::string::npos, kept);
    EXPECT_THAT(said, HasSubstr("kernel slow took 0."));
  }
}

}  // namespace
}  // namespace cuspan::softgpu
