// Tests collective instructions of threads, and the detection of kernels needing suspension.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

// Runs `body` in one warp and returns %r0 of each lane. %r1 is the lane.
std::vector<std::uint32_t> RunWarp(const std::string& body) {
  Device device(Module(R"(.visible .entry k(.param .u64 out) {
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<4>;
    .shared .align 4 .b32 cell[64];
    mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    )" + body + "\nst.global.u32 [%d1], %r0; ret; }"));
  std::vector<std::uint32_t> out(32, 0xdead);
  EXPECT_TRUE((*device.program().Kernel("k"))->needs_fibers) << body;
  EXPECT_EQ(device.Launch("k", {1}, {32}, 0, out.data()), CUDA_SUCCESS) << device.message();
  return out;
}

TEST(Collective, Shuffles) {
  const auto check = [](const char* instruction, auto expected) {
    const auto out = RunWarp(std::string("mul.lo.u32 %r2, %r1, 10; ") + instruction +
                             " @!%p1 add.u32 %r0, %r0, 1000;");
    for (int lane = 0; lane < 32; ++lane) {
      const int from = expected(lane);
      EXPECT_EQ(out[lane], from < 0 ? lane * 10 + 1000U : static_cast<unsigned>(from) * 10)
          << instruction << lane;
    }
  };
  check("shfl.sync.up.b32 %r0|%p1, %r2, 3, 0, -1;",
        [](int lane) { return lane < 3 ? -1 : lane - 3; });
  check("shfl.sync.down.b32 %r0|%p1, %r2, 3, 31, -1;",
        [](int lane) { return lane > 28 ? -1 : lane + 3; });
  check("shfl.sync.bfly.b32 %r0|%p1, %r2, 5, 31, -1;", [](int lane) { return lane ^ 5; });
  check("shfl.sync.idx.b32 %r0|%p1, %r2, 7, 31, -1;", [](int) { return 7; });
  // Segments of eight lanes: mask 24 in bits 8 … 12.
  check("shfl.sync.idx.b32 %r0|%p1, %r2, 2, 0x181f, -1;", [](int lane) { return (lane & 24) + 2; });
  check("shfl.sync.down.b32 %r0|%p1, %r2, 2, 0x181f, -1;",
        [](int lane) { return (lane & 7) > 5 ? -1 : lane + 2; });
}

// Runs a warp in both models. Lanes from 8 on skip `body`. All lanes run `end`, store %r0 and exit.
struct Parted {
  int error;
  std::vector<std::uint32_t> out;
};
std::vector<Parted> RunParted(const std::string& body, const std::string& end) {
  std::vector<Parted> results;
  for (const auto model : {ExecutionModel::kThread, ExecutionModel::kVector}) {
    ProgramOptions options;
    options.model = model;
    Device device(Module(R"(.visible .entry k(.param .u64 out) {
      .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<4>;
      mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r1, 4;
      add.u64 %d1, %d1, %d2; mov.u32 %r0, 77; setp.ge.u32 %p1, %r1, 8; @%p1 bra END;
      )" + body +
                         "\nEND: " + end + "\nst.global.u32 [%d1], %r0; ret; }"),
                  options);
    Parted result{0, std::vector<std::uint32_t>(32, 0xdead)};
    result.error = device.Launch("k", {1}, {32}, 0, result.out.data());
    results.push_back(std::move(result));
  }
  return results;
}

// PTX ISA, "shfl.sync" and others: a lane waits for the lanes in its mask unless they have exited.
// Lanes on a path to their exit without a collective count as exited.
TEST(Collective, DoesNotWaitForLanesThatEndWithoutMeetingOthers) {
  const auto check = [](const std::string& body, auto expected) {
    for (const Parted& result : RunParted(body, "")) {
      EXPECT_EQ(result.error, CUDA_SUCCESS) << body;
      for (unsigned lane = 0; lane < 32; ++lane)
        EXPECT_EQ(result.out[lane], lane < 8 ? expected(lane) : 77U) << body << lane;
    }
  };
  check("shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", [](unsigned lane) { return lane ^ 1; });
  check("setp.ne.u32 %p2, %r1, 3; vote.sync.ballot.b32 %r0, %p2, -1;",
        [](unsigned) { return 0xf7U; });
  check("bar.warp.sync -1; mov.u32 %r0, 5;", [](unsigned) { return 5U; });
  check("redux.sync.add.u32 %r0, %r1, -1;", [](unsigned) { return 28U; });
  // Lanes leave a loop one by one; the remaining lanes reduce.
  check(
      "mov.u32 %r0, 0; mov.u32 %r2, 0; "
      "L: redux.sync.add.u32 %r3, 1, -1; add.u32 %r0, %r0, %r3; add.u32 %r2, %r2, 1; "
      "setp.le.u32 %p2, %r2, %r1; @%p2 bra L;",
      [](unsigned lane) {
        unsigned sum = 0;
        for (unsigned i = 0; i <= lane; ++i) sum += 8 - i;
        return sum;
      });
  // Each lane has its own mask.
  check(
      "mov.u32 %r4, -1; sub.u32 %r5, 0, %r1; or.b32 %r4, %r4, %r5; "
      "shfl.sync.bfly.b32 %r0, %r1, 2, 31, %r4;",
      [](unsigned lane) { return lane ^ 2; });
}

// Lanes from 8 on pass a collective without taking part in it. Only their path shows this.
TEST(Collective, DoesNotWaitForLanesThatPassByAnother) {
  const std::string end =
      "setp.ge.u32 %p3, %r1, 4; @%p3 bra OUT; shfl.sync.idx.b32 %r0, %r0, 0, 31, -1; OUT:";
  for (const Parted& result : RunParted("shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", end)) {
    EXPECT_EQ(result.error, CUDA_SUCCESS);
    for (unsigned lane = 0; lane < 32; ++lane)
      EXPECT_EQ(result.out[lane], lane < 4 ? 1 : lane < 8 ? lane ^ 1 : 77U) << lane;
  }
  // These lanes may have a collective of their own.
  const std::string own =
      "setp.lt.u32 %p3, %r1, 8; @%p3 bra OUT; shfl.sync.bfly.b32 %r0, %r1, 1, 31, 0xffffff00; OUT:";
  for (const Parted& result : RunParted("shfl.sync.bfly.b32 %r0, %r1, 2, 31, -1;", own)) {
    EXPECT_EQ(result.error, CUDA_SUCCESS);
    for (unsigned lane = 0; lane < 32; ++lane)
      EXPECT_EQ(result.out[lane], lane < 8 ? lane ^ 2 : lane ^ 1) << lane;
  }
}

// The other lanes wait at another collective instead of exiting. On a GPU all would wait for ever.
TEST(Collective, LanesThatMeetElsewhereAreAnError) {
  for (const char* end : {"bar.warp.sync -1;", "bar.sync 0;"}) {
    for (const Parted& result : RunParted("shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;", end))
      EXPECT_EQ(result.error, CUDA_ERROR_LAUNCH_FAILED) << end;
  }
}

TEST(Collective, VotesMatchesAndReductions) {
  const std::string odd = "and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; ";
  const std::string store = " selp.b32 %r0, 1, 0, %p2;";
  EXPECT_THAT(RunWarp(odd + "vote.sync.ballot.b32 %r0, %p1, -1;"), testing::Each(0xaaaaaaaaU));
  EXPECT_THAT(RunWarp(odd + "vote.sync.ballot.b32 %r0, !%p1, -1;"), testing::Each(0x55555555U));
  EXPECT_THAT(RunWarp(odd + "vote.sync.any.pred %p2, %p1, -1;" + store), testing::Each(1U));
  EXPECT_THAT(RunWarp(odd + "vote.sync.all.pred %p2, %p1, -1;" + store), testing::Each(0U));
  EXPECT_THAT(RunWarp(odd + "vote.sync.uni.pred %p2, %p1, -1;" + store), testing::Each(0U));
  const auto any = RunWarp(odd + "match.any.sync.b32 %r0, %r2, -1;");
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(any[lane], lane % 2 != 0 ? 0xaaaaaaaaU : 0x55555555U);
  EXPECT_THAT(RunWarp("mov.b64 %d3, 5; match.all.sync.b64 %r0|%p2, %d3, -1; @!%p2 mov.u32 %r0, 0;"),
              testing::Each(0xffffffffU));
  EXPECT_THAT(RunWarp("redux.sync.add.u32 %r0, %r1, -1;"), testing::Each(496U));
  EXPECT_THAT(RunWarp("sub.s32 %r2, %r1, 16; redux.sync.min.s32 %r0, %r2, -1;"),
              testing::Each(static_cast<std::uint32_t>(-16)));
  EXPECT_THAT(RunWarp("sub.s32 %r2, %r1, 16; redux.sync.max.u32 %r0, %r2, -1;"),
              testing::Each(0xffffffffU));
  EXPECT_THAT(RunWarp("redux.sync.or.b32 %r0, %r1, -1;"), testing::Each(31U));
  EXPECT_THAT(RunWarp("activemask.b32 %r0;"), testing::Each(0xffffffffU));
  const auto elected = RunWarp(
      "mov.u32 %r0, 9; setp.lt.u32 %p1, %r1, 4; @%p1 bra S; elect.sync %r2|%p2, 0xfffffff0; "
      "selp.b32 %r0, 1, 0, %p2; S:");
  EXPECT_EQ(elected[3], 9U);
  EXPECT_EQ(elected[4], 1U);
  EXPECT_EQ(elected[5], 0U);
}

TEST(Collective, Barriers) {
  const std::string odd = "and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; ";
  EXPECT_THAT(RunWarp(odd + "bar.red.popc.u32 %r0, 0, %p1;"), testing::Each(16U));
  EXPECT_THAT(RunWarp(odd + "bar.red.and.pred %p2, 1, %p1; selp.b32 %r0, 1, 0, %p2;"),
              testing::Each(0U));
  EXPECT_THAT(
      RunWarp(odd +
              "barrier.sync 2, 32; bar.red.or.pred %p2, 1, 32, !%p1; selp.b32 %r0, 1, 0, %p2;"),
      testing::Each(1U));
  const std::string exchange =
      "shl.b32 %r3, %r1, 2; mov.u32 %r4, cell; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r1;";
  for (const char* barrier : {"bar.sync 0;", "barrier.sync.aligned 0;", "barrier.cta.sync 0;",
                              "bar.warp.sync -1;", "bar.cta.sync 3;"}) {
    const auto out =
        RunWarp(exchange + barrier + " xor.b32 %r3, %r3, 124; ld.shared.u32 %r0, [%r3];");
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], 31 - lane) << barrier;
  }
}

bool NeedsFibers(const std::string& body) {
  auto program = Program::Load(Module(R"(
    .func (.param .b32 r) poll(.param .b64 a) { .reg .b64 %d<2>; .reg .b32 %r<2>; ld.param.b64 %d1, [a]; ld.volatile.global.u32 %r1, [%d1]; st.param.b32 [r], %r1; ret; }
    .func leave() { exit; }
    .func sync() { bar.sync 0; ret; }
    .func outer() { call sync; ret; }
    .visible .entry k(.param .u64 a) { .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; )" +
                                      body + " ret; }"));
  EXPECT_TRUE(program.ok()) << program.status().message();
  const auto info = (*program)->Kernel("k");
  EXPECT_TRUE(info.ok()) << info.status().message();
  EXPECT_TRUE((*program)->Compile("k").ok());
  return (*info)->needs_fibers;
}

TEST(Fibers, AreNeededExactlyWhereAThreadMayHaveToWait) {
  EXPECT_FALSE(NeedsFibers(""));
  EXPECT_FALSE(NeedsFibers("exit;"));
  EXPECT_TRUE(NeedsFibers("call leave;"));
  EXPECT_TRUE(NeedsFibers("call outer;"));
  EXPECT_TRUE(NeedsFibers("nanosleep.u32 100;"));
  // Loops waiting for a flag.
  EXPECT_TRUE(
      NeedsFibers("L: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;"));
  EXPECT_TRUE(
      NeedsFibers("L: ld.acquire.gpu.global.u32 %r1, [%d1]; and.b32 %r2, %r1, 4; setp.eq.u32 %p1, "
                  "%r2, 0; @!%p1 bra E; bra L; E:"));
  EXPECT_TRUE(
      NeedsFibers("L: { .param .b64 p; .param .b32 q; st.param.b64 [p], %d1; call (q), poll, (p); "
                  "ld.param.b32 %r1, [q]; } setp.eq.u32 %p1, %r1, 0; @%p1 bra L;"));
  // Loops taking a lock.
  EXPECT_TRUE(
      NeedsFibers("L: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"));
  EXPECT_TRUE(
      NeedsFibers("L: atom.global.exch.b32 %r1, [%d1], 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"));
  // A counting loop of fixed length waits for no other thread.
  EXPECT_FALSE(
      NeedsFibers("mov.u32 %r2, 0; L: atom.global.add.u32 %r1, [%d1], 1; add.u32 %r2, %r2, 1; "
                  "setp.lt.u32 %p1, %r2, 9; @%p1 bra L;"));
  EXPECT_FALSE(
      NeedsFibers("mov.u32 %r2, 0; L: ld.volatile.global.u32 %r1, [%d1]; add.u32 %r3, %r3, %r1; "
                  "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9; @%p1 bra L;"));
  // Neither does a compare-and-swap loop: it fails only if another thread succeeded.
  EXPECT_FALSE(NeedsFibers(
      "ld.global.u32 %r2, [%d1]; L: mov.u32 %r3, %r2; add.u32 %r4, %r3, 1; atom.global.cas.b32 "
      "%r2, [%d1], %r3, %r4; setp.ne.u32 %p1, %r2, %r3; @%p1 bra L;"));
  // Not in a loop.
  EXPECT_FALSE(
      NeedsFibers("atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; "
                  "st.global.u32 [%d1], 0; E:"));
}

}  // namespace
}  // namespace cuspan::softgpu
