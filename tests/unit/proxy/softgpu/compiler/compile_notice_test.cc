// Tests the messages about kernels taking long to compile.
#include "proxy/softgpu/jit/compile_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "common/format.h"
#include "common/trace.h"

namespace cuspan::softgpu {
namespace {

using ::testing::HasSubstr;
using For = CompileNotice::For;

TEST(CompileNotice, NothingIsSaidOfWhatIsDoneInTime) {
  testing::internal::CaptureStderr();
  { const CompileNotice notice("quick", "thread", 7, For::kProgram, std::chrono::hours(1)); }
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
      const CompileNotice notice("slow", "thread", 7, whom, std::chrono::milliseconds(1));
      while (notice.said() < 3) std::this_thread::yield();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    // The log omits repetitions.
    EXPECT_GE(std::count(said.begin(), said.end(), '\n'), 3) << said;
    EXPECT_THAT(said, HasSubstr("kernel slow is still being compiled after 0 s; " +
                                std::string(meanwhile)));
    EXPECT_THAT(said, HasSubstr("compiling kernel slow (7 PTX instructions) takes more than 0 s; " +
                                std::string(meanwhile)));
    EXPECT_THAT(said, HasSubstr("kernel slow took 0."));
  }
}

TEST(CompileNotice, TheWatcherIsToldOfEach) {
  struct Told {
    std::string text;
    std::uint64_t begin = 0, end = 0;
  } told;
  SetCompilationWatcher(
      [](void* argument, const Compilation& compilation) {
        auto& told = *static_cast<Told*>(argument);
        told.text += Format("{} as {}{};", compilation.kernel, compilation.form,
                            compilation.waited ? ", waited" : "");
        told.begin = compilation.begin;
        told.end = compilation.end;
      },
      &told);
  const std::uint64_t before = TraceNow();
  { const CompileNotice notice("a", "thread", 7, For::kProgram, std::chrono::hours(1)); }
  { const CompileNotice notice("b", "warp", 7, For::kLater, std::chrono::hours(1)); }
  SetCompilationWatcher(nullptr, nullptr);
  EXPECT_EQ(told.text, "a as thread, waited;b as warp;");
  EXPECT_LE(before, told.begin);
  EXPECT_LE(told.begin, told.end);
  EXPECT_LE(told.end, TraceNow());
}

}  // namespace
}  // namespace cuspan::softgpu
