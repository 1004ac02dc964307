// Lanes of a warp exchange data without __syncwarp. All forms of code give the same results as
// lanes in lockstep. Code for one thread has reconvergence points only if they matter.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "proxy/softgpu/analysis/reconvergence.h"
#include "proxy/softgpu/jit/parsed_module.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using analysis::ReconvergencePoint;

// Makes a kernel storing %r0 of each lane. %r1 is the thread, %r2 the address of its word of
// `cell`.
std::string KernelOf(const std::string& body) {
  return Module(R"(.visible .entry k(.param .u64 out) {
    .reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %d<6>;
    .shared .align 4 .b8 cell[512]; .shared .align 4 .b8 other[512];
    ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    shl.b32 %r3, %r1, 2; mov.u32 %r4, cell; add.u32 %r2, %r4, %r3; mov.u32 %r0, 0;
    )" + body + "\nEND: st.global.u32 [%d1], %r0; ret; }");
}

// Reconvergence points of this kernel: the side, and the instruction's name.
std::vector<std::string> PointsOf(const std::string& body) {
  auto parsed = jit::ParsedModule::Parse(std::make_shared<const std::string>(KernelOf(body)));
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  auto plan = (*parsed)->Plan(0);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::string> points;
  const auto planned = analysis::PlanReconvergence((*parsed)->module(), *plan);
  for (const auto& point : planned[0]) {
    static constexpr const char* kSides[] = {"before ", "taken ", "after "};
    points.push_back(kSides[static_cast<int>(point.side)] +
                     plan->functions[0].body->instructions[point.instruction].Name());
  }
  return points;
}
const std::vector<std::string> kNone;

TEST(Reconvergence, NoPointsWhereThreadsKeepToBarriers) {
  const std::string write = "st.shared.u32 [%r2], %r1; ", read = "ld.shared.u32 %r0, [%r4+124]; ";
  for (const char* between :
       {"bar.sync 0;", "barrier.sync 0;", "bar.warp.sync -1;", "bar.warp.sync 0xffffffff;",
        "shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;", "vote.sync.ballot.b32 %r5, %p1, -1;"})
    EXPECT_EQ(PointsOf(write + between + read), kNone) << between;
  // A loop with a barrier on each side.
  EXPECT_EQ(PointsOf("L: " + write + "bar.sync 0;" + read +
                     "bar.sync 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 9; @%p1 bra L;"),
            kNone);
}

TEST(Reconvergence, NoPointsWhereEachThreadHasMemoryOfItsOwn) {
  // The same element; fields of it; other variables; elements of other warps.
  for (const char* body :
       {"st.shared.u32 [%r2], %r1; ld.shared.u32 %r0, [%r2];",
        "ld.shared.u32 %r0, [%r2]; st.shared.u32 [%r2], %r1;",
        "st.shared.u32 [%r2], %r1; ld.shared.u32 %r0, [other];",
        "ld.shared.u32 %r0, [%r2+128]; st.shared.u32 [%r2], %r0;",
        "shl.b32 %r5, %r1, 3; add.u32 %r5, %r4, %r5; st.shared.u32 [%r5], %r1; "
        "st.shared.u32 [%r5+4], %r1; ld.shared.u32 %r0, [%r5];",
        "L: st.shared.u32 [%r2], %r1; add.u32 %r2, %r2, 128; add.u32 %r6, %r6, 1; "
        "setp.lt.u32 %p1, %r6, 3; @%p1 bra L;"})
    EXPECT_EQ(PointsOf(body), kNone) << body;
}

TEST(Reconvergence, NoPointsForWhatHasNoOrder) {
  for (const char* body : {"atom.shared.add.u32 %r0, [%r4], 1; red.shared.add.u32 [%r4], 1;",
                           "ld.shared.u32 %r0, [%r4]; ld.shared.u32 %r5, [%r2+4];",
                           "st.global.u32 [%d1], %r1; ld.global.u32 %r0, [%d1+4];",
                           "ld.volatile.global.u32 %r0, [%d1]; st.shared.u32 [%r2], %r1;"})
    EXPECT_EQ(PointsOf(body), kNone) << body;
}

TEST(Reconvergence, PointsAreBeforeTheSecondOfTwoAccesses) {
  const auto expect = [](const std::string& body, const std::vector<std::string>& points) {
    EXPECT_EQ(PointsOf(body), points) << body;
  };
  expect("st.shared.u32 [%r2], %r1; ld.shared.u32 %r0, [%r2+4];", {"before ld.shared.u32"});
  expect("ld.shared.u32 %r0, [%r2+4]; st.shared.u32 [%r2], %r0;", {"before st.shared.u32"});
  expect("st.shared.u32 [%r2], %r1; st.shared.u32 [%r4+8], 5;", {"before st.shared.u32"});
  expect("red.shared.add.u32 [%r4], 1; ld.shared.u32 %r0, [%r4];", {"before ld.shared.u32"});
  expect("st.volatile.global.u32 [%d1], %r1; ld.volatile.global.u32 %r0, [%d1+4];",
         {"before ld.volatile.global.u32"});
  // Half a warp synchronizes only with itself.
  expect("st.shared.u32 [%r2], %r1; bar.warp.sync 0xffff; ld.shared.u32 %r0, [%r2+4];",
         {"before ld.shared.u32"});
  // A generic address may point there.
  expect(
      "st.shared.u32 [%r2], %r1; cvt.u64.u32 %d3, %r4; cvta.shared.u64 %d3, %d3; "
      "ld.u32 %r0, [%d3+16];",
      {"before ld.u32"});
  // An access after a join waits for both sides. So does an access on the other side.
  expect(
      "setp.lt.u32 %p1, %r1, 7; @%p1 bra A; st.shared.u32 [%r4], 1; bra B; "
      "A: st.shared.u32 [%r4+4], 1; B: ld.shared.u32 %r0, [%r4];",
      {"before ld.shared.u32"});
  expect(
      "setp.lt.u32 %p1, %r1, 7; @%p1 bra A; st.shared.u32 [%r4], 1; bra B; "
      "A: ld.shared.u32 %r0, [%r4]; B:",
      {"before ld.shared.u32"});
}

TEST(Reconvergence, LanesGoRoundLoopsTogetherWhereThatMatters) {
  // An iteration writes, and the next one reads it.
  EXPECT_EQ(PointsOf("L: ld.shared.u32 %r5, [%r2+4]; add.u32 %r0, %r0, %r5; bar.warp.sync -1; "
                     "st.shared.u32 [%r2], %r0; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 9; "
                     "@%p1 bra L;"),
            std::vector<std::string>{"before ld.shared.u32"});
  // Lanes skipping the exchange do not get ahead of it.
  EXPECT_EQ(PointsOf("L: add.u32 %r6, %r6, 1; add.u32 %r7, %r6, %r1; and.b32 %r7, %r7, 3; "
                     "setp.eq.u32 %p2, %r7, 0; @%p2 bra N; st.shared.u32 [%r2], %r6; "
                     "ld.shared.u32 %r5, [%r2+4]; N: setp.lt.u32 %p1, %r6, 9; @%p1 bra L;"),
            (std::vector<std::string>{"before ld.shared.u32", "taken bra"}));
}

// Runs all forms of code with three warps. Thread `i` stores expected(i).
void ExpectResults(const std::string& body,
                   const std::function<std::uint32_t(std::uint32_t)>& expected) {
  constexpr std::uint32_t kThreads = 96;
  for (const auto model : {ExecutionModel::kAuto, ExecutionModel::kThread, ExecutionModel::kVector})
    for (const auto tier : {CodeTier::kFirst, CodeTier::kLast})
      for (const bool interleaved : {false, true}) {
        ProgramOptions options;
        options.model = model;
        options.tier = tier;
        options.interleaved = interleaved;
        Device device(KernelOf(body), options);
        std::vector<std::uint32_t> out(kThreads, 0xdead), right(kThreads);
        for (std::uint32_t i = 0; i < kThreads; ++i) right[i] = expected(i);
        EXPECT_EQ(device.Launch("k", {1}, {kThreads}, 0, out.data()), CUDA_SUCCESS)
            << device.message();
        EXPECT_EQ(out, right) << "model " << static_cast<int>(model) << ", tier "
                              << static_cast<int>(tier) << ", interleaved " << interleaved << "\n"
                              << body;
      }
}

TEST(Reconvergence, ExchangesGiveTheSameInAllForms) {
  // Neighbours in both directions.
  ExpectResults(
      "st.shared.u32 [%r2], %r1; and.b32 %r5, %r1, 31; setp.eq.u32 %p1, %r5, 31; @%p1 bra END; "
      "ld.shared.u32 %r0, [%r2+4];",
      [](std::uint32_t i) { return i % 32 == 31 ? 0 : i + 1; });
  // A value moves by one lane per iteration: each iteration reads before it writes.
  ExpectResults(
      "st.shared.u32 [%r2], %r1; L: ld.shared.u32 %r0, [%r2]; and.b32 %r5, %r1, 31; "
      "setp.eq.u32 %p1, %r5, 0; @!%p1 ld.shared.u32 %r0, [%r2+-4]; st.shared.u32 [%r2], %r0; "
      "add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 5; @%p2 bra L;",
      [](std::uint32_t i) { return i % 32 < 5 ? i & ~31u : i - 5; });
  // One side of a branch, then the other, in the order of the text.
  ExpectResults(
      "and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 1; @%p1 bra A; st.shared.u32 [%r2+4], %r1; "
      "bra.uni END; A: ld.shared.u32 %r0, [%r2];",
      [](std::uint32_t i) { return i % 2 == 0 ? 0 : i - 1; });
}

TEST(Reconvergence, LoopsOfAllFormsGiveTheSame) {
  // The loop is entered in the middle: its back edge falls through.
  ExpectResults(
      "and.b32 %r9, %r3, -128; add.u32 %r9, %r4, %r9; bra.uni HEAD; "
      "BODY: st.shared.u32 [%r2], %r6; ld.shared.u32 %r5, [%r9+64]; "
      "add.u32 %r0, %r0, %r5; add.u32 %r6, %r6, 1; "
      "HEAD: setp.lt.u32 %p1, %r6, 6; @%p1 bra BODY;",
      [](std::uint32_t) { return 15; });
  // Lanes leave the loop in different iterations. The code after it waits for the last lane.
  ExpectResults(
      "and.b32 %r8, %r1, 7; L: st.shared.u32 [%r2], %r6; add.u32 %r6, %r6, 1; "
      "setp.le.u32 %p1, %r6, %r8; @%p1 bra L; xor.b32 %r9, %r3, 4; add.u32 %r9, %r4, %r9; "
      "ld.shared.u32 %r0, [%r9];",
      [](std::uint32_t i) { return (i ^ 1) & 7; });
  // Two entries.
  ExpectResults(
      "and.b32 %r5, %r1, 1; st.shared.u32 [%r2], 1; setp.eq.u32 %p1, %r5, 1; @%p1 bra B; "
      "A: add.u32 %r6, %r6, 1; B: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 20; @%p2 bra A; "
      "st.shared.u32 [%r2], %r6; xor.b32 %r9, %r3, 8; add.u32 %r9, %r4, %r9; "
      "ld.shared.u32 %r0, [%r9];",
      [](std::uint32_t i) { return i % 2 == 0 ? 20 : 21; });
  // A table of branches.
  ExpectResults(
      "and.b32 %r5, %r1, 1; T: .branchtargets A, B; brx.idx %r5, T; "
      "A: st.shared.u32 [%r2], 7; bra C; B: st.shared.u32 [%r2], 9; "
      "C: xor.b32 %r9, %r3, 4; add.u32 %r9, %r4, %r9; ld.shared.u32 %r0, [%r9];",
      [](std::uint32_t i) { return i % 2 == 0 ? 9 : 7; });
}

TEST(Reconvergence, ActiveMaskFindsTheLanesTogether) {
  ExpectResults(
      "and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 1; @%p1 bra A; st.shared.u32 [%r2], 3; "
      "ld.shared.u32 %r6, [cell]; A: activemask.b32 %r0;",
      [](std::uint32_t) { return 0xffffffffU; });
}

// CUDA C++ Programming Guide, "Independent Thread Scheduling": a lane with a lock makes progress
// while others spin.
TEST(Reconvergence, LanesThatSpinDoNotStopOthers) {
  ProgramOptions options;
  options.model = ExecutionModel::kThread;
  Device device(KernelOf("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [other], 0; "
                         "@%p1 st.shared.u32 [cell], 0; bar.sync 0; "
                         "L: atom.shared.cas.b32 %r5, [other], 0, 1; setp.ne.u32 %p2, %r5, 0; "
                         "@%p2 bra L; ld.shared.u32 %r6, [cell]; add.u32 %r6, %r6, 1; "
                         "st.shared.u32 [cell], %r6; atom.shared.exch.b32 %r5, [other], 0; "
                         "bar.sync 0; ld.shared.u32 %r0, [cell];"),
                options);
  std::vector<std::uint32_t> out(96, 0xdead);
  EXPECT_EQ(device.Launch("k", {1}, {96}, 0, out.data()), CUDA_SUCCESS) << device.message();
  EXPECT_THAT(out, testing::Each(96U));
}

}  // namespace
}  // namespace cuspan::softgpu
