// Tests tiers: large kernels start in quickly compiled code, and continue in optimised code once it
// is available.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/common/temporary_folder.h"
#include "proxy/softgpu/jit/background_compiler.h"
#include "proxy/softgpu/jit/build_code.h"
#include "proxy/softgpu/jit/compiler_process.h"
#include "proxy/softgpu/jit/kernel_cache.h"
#include "proxy/softgpu/jit/kernel_key.h"
#include "proxy/softgpu/jit/parsed_module.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using jit::BackgroundCompiler;
using jit::CodeForm;
using ::testing::HasSubstr;

// This program acts as the compiler, see main. The compiler of the build folder counts as another
// build.
constexpr const char* kCompiler = "/proc/self/exe";

constexpr BlockShape kShape{64, 1, 1};
constexpr std::uint32_t kThreads = 128;

// Makes a kernel with two lines of PTX for each of `steps`: out[i] = i, then times 3 plus 1 in each
// step.
std::string LongKernel(int steps, const std::string& more = "") {
  std::string body = R"(.visible .entry k(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  )" + more + R"(
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
)";
  for (int i = 0; i < steps; ++i)
    body += "  mad.lo.u32 %r0, %r0, 3, 1; st.global.u32 [%d0], %r0;\n";
  return Module(body + "  ret;\n}\n");
}
std::uint32_t Expected(std::uint32_t i, int steps) {
  for (int step = 0; step < steps; ++step) i = i * 3 + 1;
  return i;
}

class Tiers : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = bench::TemporaryFolder::Create("/tmp");
    ASSERT_TRUE(folder.ok());
    folder_.emplace(std::move(*folder));
    auto cache = KernelCache::Open(folder_->path(), 1 << 30);
    ASSERT_TRUE(cache.ok());
    cache_ = std::move(*cache);
  }
  ProgramOptions Options(BackgroundCompiler& compiler) {
    ProgramOptions options;
    options.background = &compiler;
    return options;
  }
  static void ExpectRight(Device& device, int steps) {
    std::vector<std::uint32_t> out(kThreads, 0);
    ASSERT_EQ(device.Launch("k", {kThreads / 64}, {64}, 0, out.data()), CUDA_SUCCESS)
        << device.message();
    for (std::uint32_t i = 0; i < kThreads; ++i) ASSERT_EQ(out[i], Expected(i, steps)) << i;
  }
  // Compiles until there is no better code.
  static CompiledKernel Final(Program& program) {
    for (;;) {
      auto code = program.Compile("k", kShape);
      EXPECT_TRUE(code.ok()) << code.status().message();
      if (!code.ok() || code->later == nullptr) return code.ok() ? *code : CompiledKernel{};
      std::this_thread::yield();
    }
  }
  static bool HasChildren() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

  std::optional<bench::TemporaryFolder> folder_;
  std::unique_ptr<KernelCache> cache_;  // Used by some tests.
};

constexpr int kLong = 600;

TEST_F(Tiers, ALargeKernelStartsAtOnceAndGoesOnInOptimisedCode) {
  BackgroundCompiler compiler(kCompiler);
  Device device(LongKernel(kLong), Options(compiler));
  const auto first = device.program().Compile("k", kShape);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_NE(first->later, nullptr);
  EXPECT_FALSE(first->warps);
  // Unoptimised code keeps its values on the stack.
  EXPECT_GT(first->frame_bytes, 4u * kLong / 2);
  ExpectRight(device, kLong);
  const CompiledKernel last = Final(device.program());
  EXPECT_TRUE(last.warps);
  EXPECT_EQ(last.frame_bytes, 0u);
  EXPECT_NE(last.entry, first->entry);
  ExpectRight(device, kLong);
  // A holder of the first code gets the last code, too.
  EXPECT_EQ(first->Best().entry, last.entry);
  EXPECT_EQ(first->Best().later, nullptr);
}

TEST_F(Tiers, ASmallKernelIsOptimisedBeforeItsFirstLaunch) {
  BackgroundCompiler compiler(kCompiler);
  Device device(LongKernel(20), Options(compiler));
  const auto code = device.program().Compile("k", kShape);
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(code->later, nullptr);
  EXPECT_TRUE(code->warps);
}

// Blocks of the other shape start in the optimised code for one thread.
TEST_F(Tiers, ShapesShareWhatIsForOneThread) {
  BackgroundCompiler compiler(kCompiler);
  Device device(LongKernel(kLong), Options(compiler));
  Final(device.program());
  const auto other = device.program().Compile("k", {7, 1, 1});
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->warps);
  EXPECT_EQ(other->frame_bytes, 0u);
  EXPECT_NE(other->later, nullptr);
}

TEST_F(Tiers, FirstAndLastAreAskedForAlone) {
  BackgroundCompiler compiler(kCompiler);
  ProgramOptions options = Options(compiler);
  options.tier = CodeTier::kFirst;
  Device first(LongKernel(20), options);
  const auto quick = first.program().Compile("k", kShape);
  ASSERT_TRUE(quick.ok());
  EXPECT_FALSE(quick->warps);
  EXPECT_GT(quick->frame_bytes, 0u);
  EXPECT_EQ(quick->later, nullptr);
  ExpectRight(first, 20);

  options.tier = CodeTier::kLast;
  Device last(LongKernel(kLong), options);
  const auto optimised = last.program().Compile("k", kShape);
  ASSERT_TRUE(optimised.ok());
  EXPECT_TRUE(optimised->warps);
  EXPECT_EQ(optimised->later, nullptr);
}

TEST_F(Tiers, AProgramThatGoesEndsItsCompilation) {
  BackgroundCompiler compiler(kCompiler);
  for (int i = 0; i < 3; ++i) {
    Device device(LongKernel(8000), Options(compiler));
    ASSERT_TRUE(device.program().Compile("k", kShape).ok());
  }
  EXPECT_FALSE(HasChildren());
}

TEST_F(Tiers, ACompilerThatGoesEndsItsCompilation) {
  auto compiler = std::make_unique<BackgroundCompiler>(kCompiler);
  Device device(LongKernel(8000), Options(*compiler));
  ASSERT_TRUE(device.program().Compile("k", kShape).ok());
  while (!HasChildren()) std::this_thread::yield();
  device.ReleaseProgram();
  compiler.reset();
  EXPECT_FALSE(HasChildren());
}

// This process compiles the kernel instead.
TEST_F(Tiers, WithoutAWorkingCompilerTheCodeComesAllTheSame) {
  for (const char* const program :
       {"/bin/false", "/nowhere/compiler", "/bin/true", CUSPAN_TEST_COMPILER}) {
    BackgroundCompiler compiler(program);
    Device device(LongKernel(kLong), Options(compiler));
    testing::internal::CaptureStderr();
    const CompiledKernel last = Final(device.program());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(last.warps) << program;
    EXPECT_EQ(last.frame_bytes, 0u);
    // Later lines are omitted, since they resemble the first.
    if (program == std::string_view("/bin/false")) {
      EXPECT_THAT(said, HasSubstr("the proxy compiles it itself"));
    }
    ExpectRight(device, kLong);
  }
}

TEST_F(Tiers, AKernelThatIsNotForWarpsEndsInOptimisedCodeForAThread) {
  // Local memory exceeding the limit for 32 lanes.
  const std::string ptx = LongKernel(kLong, ".local .align 4 .b8 much[300000];");
  for (int run = 0; run < 2; ++run) {
    BackgroundCompiler compiler(kCompiler);
    ProgramOptions options = Options(compiler);
    options.cache = cache_.get();
    Device device(ptx, options);
    const auto first = device.program().Compile("k", kShape);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->later == nullptr, run == 1);  // The second run finds this in the cache.
    const CompiledKernel last = Final(device.program());
    EXPECT_FALSE(last.warps);
    EXPECT_EQ(last.frame_bytes, 0u);
    ExpectRight(device, kLong);
  }
}

// Example: searches and interpreters. Each thread has its own stack, at its own position.
TEST_F(Tiers, ThreadsThatUseTheirLocalMemoryApartRunOnTheirOwn) {
  const std::string ptx = Module(R"(.visible .entry k(.param .u64 out) {
  .reg .b32 %r<6>; .reg .b64 %d<6>;
  .local .align 4 .b8 stack[256];
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %tid.x;
  mul.lo.u32 %r1, %r0, %r0;
  and.b32 %r1, %r1, 63;
  mul.wide.u32 %d1, %r1, 4;
  mov.u64 %d2, stack;
  add.u64 %d2, %d2, %d1;
  st.local.u32 [%d2], %r0;
  ld.local.u32 %r3, [%d2];
  mul.wide.u32 %d3, %r0, 4;
  add.u64 %d0, %d0, %d3;
  st.global.u32 [%d0], %r3;
  ret;
}
)");
  for (const auto model : {ExecutionModel::kAuto, ExecutionModel::kVector}) {
    ProgramOptions options;
    options.model = model;
    Device device(ptx, options);
    const auto code = device.program().Compile("k", kShape);
    ASSERT_TRUE(code.ok()) << code.status().message();
    EXPECT_EQ(code->warps, model == ExecutionModel::kVector);
    std::vector<std::uint32_t> out(64, ~0u);
    ASSERT_EQ(device.Launch("k", {1}, {64}, 0, out.data()), CUDA_SUCCESS) << device.message();
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i);
  }
}

// A run too short for its compilation leaves a note. The next run waits, once.
TEST_F(Tiers, TheRunAfterOneThatEndedTooSoonWaits) {
  const std::string ptx = LongKernel(kLong);
  const auto parsed = jit::ParsedModule::Parse(std::make_shared<const std::string>(ptx));
  ASSERT_TRUE(parsed.ok());
  CodeForm form;
  form.warps = analysis::LayoutOf(64, 1, 1);
  const CacheKey note =
      jit::KeyOfVariant(jit::KeyOfKernel(ptx, (*parsed)->module(), 0), "begun " + form.Name());
  const auto start = [&] {
    BackgroundCompiler compiler(kCompiler);
    ProgramOptions options = Options(compiler);
    options.cache = cache_.get();
    options.patience = std::chrono::hours(1);
    Device device(ptx, options);
    const auto code = device.program().Compile("k", kShape);
    EXPECT_TRUE(code.ok());
    return code.ok() && code->later == nullptr;
  };
  EXPECT_FALSE(start());
  const auto begun = cache_->Load(note);
  ASSERT_TRUE(begun.has_value());
  EXPECT_FALSE(start()) << "the other run may be this one";
  const std::int64_t long_ago = 1000;
  cache_->Store(note, {reinterpret_cast<const char*>(&long_ago), sizeof long_ago});
  EXPECT_TRUE(start());
  EXPECT_TRUE(start()) << "it is in the cache by now";
}

TEST_F(Tiers, WhatWasGivenUpIsNotBegunAgain) {
  const std::string ptx = LongKernel(kLong);
  const auto parsed = jit::ParsedModule::Parse(std::make_shared<const std::string>(ptx));
  ASSERT_TRUE(parsed.ok());
  const CacheKey key = jit::KeyOfKernel(ptx, (*parsed)->module(), 0);
  cache_->Store(jit::KeyOfVariant(key, "given up " + CodeForm{}.Name()), "given up");
  BackgroundCompiler compiler(kCompiler);
  ProgramOptions options = Options(compiler);
  options.cache = cache_.get();
  Device device(ptx, options);
  const auto code = device.program().Compile("k", kShape);
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(code->later, nullptr);
  EXPECT_GT(code->frame_bytes, 0u);
  EXPECT_FALSE(HasChildren());
  ExpectRight(device, kLong);
}

// Makes a task compiling the kernel k of `ptx` for a thread.
jit::CompilerTask TaskFor(std::string ptx, std::chrono::seconds limit = std::chrono::seconds(60)) {
  jit::CompilerTask task;
  task.ptx = std::make_shared<const std::string>(std::move(ptx));
  task.kernel = "k";
  task.limit = limit;
  return task;
}

// Runs the task with `program` as the compiler.
Result<jit::KernelCode> Compile(const jit::CompilerTask& task, const char* program = kCompiler) {
  CUSPAN_ASSIGN_OR_RETURN(auto process, jit::CompilerProcess::Start(program, task));
  return process.Wait();
}

TEST(CompilerProcessTest, WhatTakesLongerThanItsLimitIsEnded) {
  jit::CompilerTask task = TaskFor(LongKernel(25000), std::chrono::seconds(1));
  task.form.warps = analysis::LayoutOf(64, 1, 1);
  const auto code = Compile(task);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kExhausted);
  EXPECT_THAT(code.status().message(), HasSubstr("more than 1 s of processor time"));
}

TEST(CompilerProcessTest, WhatIsKilledSaysSo) {
  auto process = jit::CompilerProcess::Start(kCompiler, TaskFor(LongKernel(8000)));
  ASSERT_TRUE(process.ok()) << process.status().message();
  process->Kill();
  const auto code = process->Wait();
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kInternal);
  EXPECT_THAT(code.status().message(), HasSubstr("killed by signal 9"));
}

TEST(CompilerProcessTest, AnotherBuildIsRefused) {
  const auto code = Compile(TaskFor(LongKernel(8)), CUSPAN_TEST_COMPILER);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(code.status().message(), HasSubstr("of another build"));
}

TEST(CompilerProcessTest, WhatIsWrongIsToldAsItIsHere) {
  const jit::CompilerTask task = TaskFor(
      Module(".visible .entry k() {\n  .reg .b32 %r<2>;\n  frobnicate.u32 %r0, %r1;\n  ret;\n}\n"));
  const auto code = Compile(task);
  auto parsed = jit::ParsedModule::Parse(task.ptx);
  ASSERT_TRUE(parsed.ok());
  const auto plan = (*parsed)->Plan(0);
  ASSERT_TRUE(plan.ok());
  const auto here = jit::BuildCode((*parsed)->module(), *plan, task.form);
  ASSERT_FALSE(here.ok());
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.status().code(), here.status().code());
  EXPECT_EQ(code.status().message(), here.status().message());
}

TEST(CompilerProcessTest, WhoeverElseStartsItIsTold) {
  std::FILE* const output = popen(CUSPAN_TEST_COMPILER " 2>&1", "r");
  ASSERT_NE(output, nullptr);
  char line[200] = "";
  EXPECT_NE(std::fgets(line, sizeof line, output), nullptr);
  EXPECT_THAT(line, HasSubstr("is started by the software GPU of cuspan only"));
  EXPECT_NE(pclose(output), 0);
}

TEST(CodeFormTest, NamesTellFormsApart) {
  const CodeForm forms[] = {{},
                            {std::nullopt, true, true},
                            {std::nullopt, false, false},
                            {analysis::LayoutOf(64, 1, 1), false, true},
                            {analysis::LayoutOf(8, 8, 1), false, true},
                            {analysis::LayoutOf(7, 1, 1), false, true},
                            {analysis::LayoutOf(7, 1, 1), false, true, false, true}};
  for (const CodeForm& form : forms) {
    const auto found = CodeForm::OfName(form.Name());
    ASSERT_TRUE(found.has_value()) << form.Name();
    EXPECT_EQ(found->warps, form.warps);
    EXPECT_EQ(found->check_accesses, form.check_accesses);
    EXPECT_EQ(found->optimised, form.optimised);
    EXPECT_EQ(found->always_warps, form.always_warps);
  }
  EXPECT_FALSE(CodeForm::OfName("warp").has_value());
}

}  // namespace
}  // namespace cuspan::softgpu

// Tests start this program as the compiler, too: with six arguments, the second being the name of
// the build.
int main(int argument_count, char** arguments) {
  using namespace cuspan::softgpu;
  if (argument_count == 6 && arguments[1] == jit::BuildName())
    return jit::CompilerMain(argument_count, arguments);
  testing::InitGoogleTest(&argument_count, arguments);
  return RUN_ALL_TESTS();
}
