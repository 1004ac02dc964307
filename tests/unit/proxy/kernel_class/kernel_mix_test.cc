// Tests the counts of PTX instructions.
#include "proxy/kernel_class/kernel_mix.h"

#include <gtest/gtest.h>

#include <string>

#include "common/format.h"
#include "proxy/kernel_class/run_weights.h"

namespace cuspan::kernel_class {
namespace {

// Makes a kernel with this body and registers for it: %r of 32 bits, %rd and %fd of 64, %f, %h, %p.
// %rd0 is a pointer depending on %tid.x and %ctaid.x, %rd1 the kernel's argument.
std::string Kernel(const std::string& body, const std::string& before = "") {
  return Format(R"(
.version 8.0
.target sm_90
.address_size 64
{}
.visible .entry kernel(.param .u64 a, .param .u32 n)
{{
  .reg .b32 %r<100>;
  .reg .b64 %rd<100>;
  .reg .f32 %f<100>;
  .reg .f64 %fd<100>;
  .reg .b16 %h<100>;
  .reg .pred %p<10>;
  .shared .align 16 .b8 tile[4096];
  .local .align 16 .b8 own[64];
  ld.param.u64 %rd1, [a];
  ld.param.u32 %r99, [n];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r98, %tid.x;
  mov.u32 %r97, %ctaid.x;
  cvt.u64.u32 %rd98, %r98;
  cvt.u64.u32 %rd97, %r97;
  add.s64 %rd0, %rd1, %rd98;
  add.s64 %rd0, %rd0, %rd97;
{}
  ret;
}}
)",
                before, body);
}

// Counts of the body, without the rest of the kernel.
KernelMix MixOfBody(const std::string& body, const std::string& before = "") {
  const Result<KernelMix> mix = MixOf(Kernel(body, before), "kernel");
  EXPECT_TRUE(mix.ok()) << mix.status().message() << "\n" << body;
  const Result<KernelMix> empty = MixOf(Kernel(""), "kernel");
  EXPECT_TRUE(empty.ok()) << empty.status().message();
  if (!mix.ok() || !empty.ok()) return {};
  KernelMix added = *mix;
  added.Add(*empty, -1);
  return added;
}

TEST(KernelMixTest, BytesAreThoseOfTheAccess) {
  const auto bytes = [](const std::string& body) { return MixOfBody(body).bytes; };
  EXPECT_EQ(bytes("ld.global.f32 %f1, [%rd0];"), 4);
  EXPECT_EQ(bytes("ld.global.nc.L1::no_allocate.u8 %r1, [%rd0];"), 1);
  EXPECT_EQ(bytes("ld.volatile.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd0+16];"), 16);
  EXPECT_EQ(bytes("st.global.v2.f64 [%rd0], {%fd1,%fd2};"), 16);
  EXPECT_EQ(bytes("st.f32 [%rd0], %f1;"), 4) << "generic";
  EXPECT_EQ(bytes("atom.global.add.u32 %r1, [%rd0], 1;"), 8) << "there and back";
  EXPECT_EQ(bytes("red.relaxed.gpu.global.add.f64 [%rd0], %fd1;"), 16);
  EXPECT_EQ(bytes("cp.async.cg.shared.global [tile], [%rd0], 16;"), 16);
  EXPECT_EQ(bytes("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}];"), 4);
  for (const char* body :
       {"ld.shared.f32 %f1, [tile];", "st.local.f32 [own], %f1;", "ld.param.u32 %r1, [n];",
        "mov.u64 %rd2, tile; cvta.shared.u64 %rd3, %rd2; ld.f32 %f1, [%rd3+4];",
        "ld.const.f32 %f1, [table];", "st.shared::cta.v4.f32 [tile], {%f1,%f2,%f3,%f4};",
        "cp.async.commit_group; cp.async.wait_group 0; prefetch.global.L2 [%rd0];"})
    EXPECT_EQ(MixOfBody(body, ".const .align 4 .f32 table[4];").bytes, 0) << body;
}

TEST(KernelMixTest, OneAddressForAWarpCountsOnce) {
  const std::string own = "st.global.f32 [%rd0], %f2;";
  const KernelMix mix = MixOfBody("add.s64 %rd2, %rd1, %rd97; ld.global.f32 %f1, [%rd2];" + own);
  EXPECT_DOUBLE_EQ(mix.bytes, 4 + 4.0 / 32);
  EXPECT_DOUBLE_EQ(mix.accesses, 2);
  EXPECT_DOUBLE_EQ(MixOfBody("ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [tile+16];").accesses, 1);
  EXPECT_DOUBLE_EQ(MixOfBody("mov.u32 %r1, tile; add.s32 %r1, %r1, %r98;"
                             "ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [%r1];")
                       .accesses,
                   4);
}

// Each tile of a matrix product is read by a row or a column of blocks.
TEST(KernelMixTest, WhatBlocksHaveInCommonIsApart) {
  const std::string rows =
      "mov.u32 %r2, %ctaid.y; cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd1, %rd2;"
      "add.s64 %rd3, %rd3, %rd98; add.s64 %rd4, %rd3, %rd97;";
  const KernelMix mix = MixOfBody(rows +
                                  "ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd0];"
                                  "st.global.f32 [%rd4], %f1;");
  EXPECT_EQ(mix.bytes, 4);
  EXPECT_EQ(mix.reread_bytes, 8);
}

// The same with one block index; the kernel derives row and column from it.
TEST(KernelMixTest, PartsOfABlockIndexAreIndices) {
  const std::string parts =
      "div.u32 %r1, %r97, %r99; mul.lo.u32 %r2, %r1, %r99;"
      "sub.u32 %r3, %r97, %r2; cvt.u64.u32 %rd2, %r1; cvt.u64.u32 %rd3, %r3;"
      "add.s64 %rd4, %rd1, %rd98; add.s64 %rd5, %rd4, %rd2;"
      "add.s64 %rd6, %rd4, %rd3; add.s64 %rd7, %rd5, %rd3;";
  const KernelMix tiles = MixOfBody(parts +
                                    "ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];"
                                    "st.global.f32 [%rd7], %f1;");
  EXPECT_EQ(tiles.bytes, 4);
  EXPECT_EQ(tiles.reread_bytes, 8);
  // An address using both parts depends on the whole index.
  const KernelMix whole = MixOfBody(parts +
                                    "ld.global.f32 %f1, [%rd7]; st.global.f32 [%rd7], %f1;"
                                    "ld.global.f32 %f2, [%rd7+4];");
  EXPECT_EQ(whole.bytes, 12);
  EXPECT_EQ(whole.reread_bytes, 0);
}

TEST(KernelMixTest, SmallVariablesStayInCaches) {
  const auto read = [](const char* bytes) {
    return MixOfBody("mov.u64 %rd2, table; add.s64 %rd3, %rd2, %rd98; ld.global.f32 %f1, [%rd3];",
                     Format(".global .align 4 .b8 table[{}];", bytes));
  };
  EXPECT_EQ(read("1024").reread_bytes, 4);
  EXPECT_EQ(read("1024").bytes, 0);
  EXPECT_EQ(read("100000000").bytes, 4);
}

TEST(KernelMixTest, BulkCopiesAreTheBlocks) {
  // Assumes 128 threads by default.
  const KernelMix copies = MixOfBody(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], "
      "4096, [tile]; mov.u32 %r5, 2048;"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], %r5;");
  EXPECT_DOUBLE_EQ(copies.bytes, (4096 + 2048) / 128.0);
  EXPECT_EQ(copies.unknown_copies, 0);
  // The barrier's expected bytes give the size of a tensor map's copy.
  const std::string load =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], "
      "[%rd1, {%r97, %r98}], [tile];";
  const KernelMix told =
      MixOfBody(load + load + "mbarrier.arrive.expect_tx.shared.b64 %rd2, [tile], 8192;");
  EXPECT_DOUBLE_EQ(told.bytes, 8192 / 128.0);
  EXPECT_EQ(told.unknown_copies, 0);
  EXPECT_EQ(MixOfBody(load).unknown_copies, 1);
  EXPECT_EQ(MixOfBody("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, "
                      "%r2}], [tile];")
                .unknown_copies,
            1);
}

TEST(KernelMixTest, ArithmeticIsByKind) {
  EXPECT_EQ(MixOfBody("fma.rn.f32 %f1, %f1, %f2, %f3; add.ftz.f32 %f1, %f1, %f2;").fp32, 2);
  EXPECT_EQ(MixOfBody("mul.f64 %fd1, %fd1, %fd2;").fp64, 1);
  EXPECT_EQ(MixOfBody("fma.rn.f16x2 %r1, %r1, %r2, %r3; add.bf16 %h1, %h2, %h3;").fp16, 4);
  EXPECT_EQ(MixOfBody("add.s32 %r1, %r1, 1; xor.b32 %r1, %r1, %r2; setp.lt.s32 %p1, %r1, %r2;"
                      "selp.b32 %r1, %r1, %r2, %p1; mad.lo.s32 %r1, %r1, %r2, %r3;")
                .integer,
            5);
  EXPECT_EQ(
      MixOfBody("sin.approx.f32 %f1, %f1; popc.b32 %r1, %r1; ex2.approx.f32 %f1, %f1;").special, 3);
  EXPECT_EQ(MixOfBody("bar.sync 0; membar.gl; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;").other, 3);
  const KernelMix division = MixOfBody("div.rn.f32 %f1, %f1, %f2;");
  EXPECT_GT(division.fp32, 4);
  EXPECT_EQ(division.special, 1);
  EXPECT_GT(MixOfBody("rem.u32 %r1, %r2, %r3;").integer, 10);
  const KernelMix nothing = MixOfBody(
      "mov.u32 %r1, %r2; cvta.to.global.u64 %rd2, %rd3;"
      "abs.f32 %f1, %f1; cvt.u64.u32 %rd2, %r1;");
  EXPECT_EQ(nothing.integer + nothing.fp32 + nothing.other, 0);
}

TEST(KernelMixTest, TensorOperationsAreThoseOfAThread) {
  EXPECT_EQ(MixOfBody("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
                      "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};")
                .tensor,
            2.0 * 16 * 8 * 16 / 32);
  EXPECT_EQ(MixOfBody("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, "
                      "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};")
                .tensor,
            2 * 2.0 * 16 * 8 * 8 / 32);
  EXPECT_EQ(MixOfBody("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, "
                      "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2,%r3,%r4};")
                .tensor,
            2.0 * 16 * 8 * 32 / 32 / 2);
  EXPECT_EQ(MixOfBody("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, "
                      "%rd2, %rd3, 1, 1, 1, 0, 0;")
                .tensor,
            2.0 * 64 * 8 * 16 / 128);
  EXPECT_EQ(
      MixOfBody("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd2, %rd3, %r2, %p1;").unknown_work, 1);
}

// --- Loops.

TEST(KernelMixTest, LoopsWeigh) {
  const std::string inner = "B: add.f32 %f1, %f1, %f2; setp.lt.s32 %p1, %r1, %r2; @%p1 bra B;";
  EXPECT_EQ(MixOfBody(inner).fp32, kLoopWeight);
  const KernelMix both =
      MixOfBody("A: mul.f64 %fd1, %fd1, %fd2;" + inner + "setp.lt.s32 %p2, %r3, %r4; @%p2 bra A;");
  EXPECT_EQ(both.fp64, kLoopWeight);
  EXPECT_EQ(both.fp32, kLoopWeight * kLoopWeight);
  // Two loops in a row.
  EXPECT_EQ(MixOfBody("A: add.f32 %f1, %f1, %f2; @%p2 bra A;" + inner).fp32, 2 * kLoopWeight);
  // An exit in the middle, and a condition at the start.
  EXPECT_EQ(MixOfBody("A: setp.ge.s32 %p1, %r1, %r2; @%p1 bra E; add.f32 %f1, %f1, %f2;"
                      "@%p2 bra E; add.s32 %r1, %r1, %r3; bra.uni A; E: mul.f64 %fd1, %fd1, %fd2;")
                .fp32,
            kLoopWeight);
  std::string deep = "add.f32 %f1, %f1, %f2;";
  for (int i = 0; i < 8; ++i) deep = Format("L{0}: bar.sync 0; {1} @%p1 bra L{0};", i, deep);
  EXPECT_EQ(MixOfBody(deep).fp32, kLoopWeight * kLoopWeight * kLoopWeight * kLoopWeight);
}

TEST(KernelMixTest, LoopsThatCountToANumberWeighThat) {
  const auto turns = [](const std::string& begin, const std::string& rest) {
    return MixOfBody(begin + "A: add.f32 %f1, %f1, %f2;" + rest + "@%p1 bra A;").fp32;
  };
  EXPECT_EQ(turns("mov.u32 %r1, 0;", "add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 6;"), 6);
  EXPECT_EQ(turns("", "add.s32 %r2, %r1, 256; setp.lt.s32 %p1, %r1, 768; mov.u32 %r1, %r2;"), 3);
  EXPECT_EQ(turns("", "add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 1000;"), kLoopWeight);
  EXPECT_EQ(turns("and.b32 %r1, %r99, 3;", "add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0;"), 1.5);
  EXPECT_EQ(turns("", "add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0;"), kLoopWeight);
  EXPECT_EQ(turns("and.b32 %r1, %r99, -4;", "add.s32 %r1, %r1, -4; setp.ne.s32 %p1, %r1, 0;"),
            kLoopWeight);
  EXPECT_EQ(turns("", "add.s32 %r1, %r1, -4; setp.gt.s32 %p1, %r1, 3;"), kLoopWeight);
  EXPECT_EQ(turns("", "shr.u32 %r2, %r1, 1; setp.gt.u32 %p1, %r1, 3; mov.u32 %r1, %r2;"), 8);
}

TEST(KernelMixTest, WaysToTheEndOfTheProgramDoNotCount) {
  const std::string before =
      ".extern .func __assertfail (.param .b64 p0) .noreturn;\n"
      ".global .align 4 .b8 __cudart_i2opi_f[24];\n";
  EXPECT_EQ(MixOfBody("@%p1 bra OK; add.f32 %f1, %f1, %f2; { .param .b64 p; st.param.b64 [p], %rd1;"
                      "call.uni __assertfail, (p); } trap; OK: mul.f64 %fd1, %fd1, %fd2;",
                      before)
                .fp32,
            0);
  // Example: sin and cos of huge arguments.
  const KernelMix reduces = MixOfBody(
      "@%p1 bra OK; add.f32 %f1, %f1, %f2; mov.u64 %rd2, __cudart_i2opi_f;"
      "L: ld.global.u32 %r1, [%rd2]; add.s64 %rd2, %rd2, 4; @%p2 bra L; add.s32 %r1, %r1, 1;"
      "OK: mul.f64 %fd1, %fd1, %fd2;",
      before);
  EXPECT_EQ(reduces.fp32 + reduces.integer + reduces.reread_bytes, 0);
  EXPECT_EQ(reduces.fp64, 1);
}

// --- Calls.

TEST(KernelMixTest, FunctionsCountWhereTheyAreCalled) {
  const std::string function =
      ".func (.param .b32 result) twice(.param .b64 at) {\n"
      ".reg .f32 %f<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
      "ld.param.u64 %rd1, [at];\n"
      "A: ld.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; @%p1 bra A;\n"
      "st.param.f32 [result], %f2; ret; }\n";
  const std::string call =
      "{ .param .b64 p; .param .b32 q; st.param.b64 [p], %rd0; call.uni (q), twice, (p);"
      "ld.param.f32 %f1, [q]; }";
  EXPECT_EQ(MixOfBody(call, function).fp32, kLoopWeight);
  EXPECT_EQ(MixOfBody(call + call, function).fp32, 2 * kLoopWeight);
  EXPECT_EQ(MixOfBody("L: " + call + "@%p1 bra L;", function).fp32, kLoopWeight * kLoopWeight);
  EXPECT_EQ(MixOfBody(call, function).bytes, 4 * kLoopWeight);
  EXPECT_EQ(MixOfBody(call, function).unknown_work, 0);
}

TEST(KernelMixTest, CallsOfWhatIsNotThereAreSaid) {
  EXPECT_EQ(MixOfBody("call.uni other;", ".extern .func other;").unknown_work, 1);
  EXPECT_EQ(MixOfBody("proto: .callprototype _ (); call.uni %rd2, (), proto;").unknown_work, 1);
  EXPECT_EQ(
      MixOfBody("{ .param .b64 p; .param .b64 q; .param .b32 r; call.uni (r), vprintf, (p, q); }",
                ".extern .func (.param .b32 r) vprintf (.param .b64 p, .param .b64 q);")
          .unknown_work,
      0);
  // A recursive call.
  EXPECT_GT(MixOfBody("call.uni again;", ".func again;\n.func again { call.uni again; ret; }\n")
                .unknown_work,
            0);
}

TEST(KernelMixTest, ErrorsSayWhat) {
  EXPECT_EQ(MixOf(Kernel(""), "other").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(MixOf("", "kernel").ok());
  EXPECT_FALSE(MixOf("int main() {}", "kernel").ok());
  EXPECT_FALSE(MixOf(Kernel("bra NOWHERE;"), "kernel").ok());
  EXPECT_EQ(MixOf(Kernel("", ".func helper { ret; }"), "helper").status().code(),
            StatusCode::kNotFound)
      << "no kernel";
}

}  // namespace
}  // namespace cuspan::kernel_class
