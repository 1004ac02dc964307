#include "launcher/host/tool_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(WarnOfTool, ToolsAsTheCommand) {
  EXPECT_THAT(WarnOfTool({"/usr/local/cuda/bin/compute-sanitizer", "./app"}, {}),
              HasSubstr("compute-sanitizer observes"));
  EXPECT_THAT(WarnOfTool({"ncu", "--set", "full", "./app"}, {}), HasSubstr("ncu observes"));
}

TEST(WarnOfTool, ToolsThatStartedTheRun) {
  const Environment preloaded(
      {"LD_PRELOAD=/p/libcuspan.so:/t/libInterceptorInjectionTarget.so:"
       "/t/libTreeLauncherTargetInjection.so"});
  EXPECT_THAT(WarnOfTool({"./app"}, preloaded), HasSubstr("libInterceptorInjectionTarget.so"));
  EXPECT_THAT(WarnOfTool({"./app"}, Environment({"CUDA_INJECTION64_PATH=/t/tool.so"})),
              HasSubstr("/t/tool.so observes"));
}

TEST(WarnOfTool, NothingOfOthers) {
  EXPECT_THAT(WarnOfTool({"./ncu_results"}, {}), IsEmpty());
  EXPECT_THAT(WarnOfTool({"python3", "ncu"},
                         Environment({"LD_PRELOAD=/p/libcuspan.so", "CUDA_INJECTION64_PATH="})),
              IsEmpty());
}

}  // namespace
}  // namespace cuspan
