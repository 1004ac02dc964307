// Tests data movement, state spaces, atomics, control flow and calls.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using U64 = std::uint64_t;
const Words kPattern{{0x8182838485868788, 0x1112131415161718, 3, 4, 5}};

#define EXPECT_RUNS(device, launch) EXPECT_EQ(launch, CUDA_SUCCESS) << device.message()

TEST(Memory, MovPacksAndUnpacks) {
  EXPECT_EQ(EvaluateOne("mov.b64 %d0, {%r1, %r2};", kPattern).d, 0x1516171885868788U);
  EXPECT_EQ(EvaluateOne("mov.b64 {%r0, %r9}, %d1;", kPattern).r9, 0x81828384U);
  EXPECT_EQ(
      EvaluateOne("mov.b64 {%h0, %h6, %h7, %h8}, %d1; mov.b64 %d0, {%h8, %h7, %h6, %h0};", kPattern)
          .d,
      0x8788858683848182U);
  EXPECT_EQ(EvaluateOne("mov.b64 {_, %r0}, %d1;", kPattern).r, 0x81828384U);
  EXPECT_EQ(EvaluateOne("mov.b32 %r6, {%h1, %h2}; mov.b32 {%h0, _}, %r6;", kPattern).h, 0x8788U);
  EXPECT_EQ(EvaluateOne("mov.b32 %r0, %f1; mov.b64 %d0, %g1;", kPattern).d, kPattern.in[0]);
  EXPECT_EQ(
      EvaluateOne("{.reg .b128 q; mov.b128 q, {%d1, %d2}; mov.b128 {%d6, %d0}, q;}", kPattern).d,
      kPattern.in[1]);
  EXPECT_EQ(
      EvaluateOne("mov.f32 %f0, 0f3F800000; mov.f64 %g0, 0d3FF0000000000000; mov.u32 %r0, WARP_SZ;",
                  kPattern)
          .r,
      32U);
  EXPECT_EQ(EvaluateOne("mov.f32 %f0, 1.5; mov.b32 %r0, 0b101; mov.b32 %r9, 017;", kPattern).f,
            Bits(1.5F));
}

// Like in ptxas, an index counts elements of the scalar type, also in vectors and rows.
TEST(Memory, MovTakesTheAddressOfAnElement) {
  const auto distance = [](const char* declaration, const char* element) {
    return EvaluateOne(
               Format("{{.local {}; mov.u64 %d8, a; mov.u64 %d9, {}; sub.u64 %d0, %d9, %d8;}}",
                      declaration, element),
               kPattern)
        .d;
  };
  EXPECT_EQ(distance(".align 16 .b32 a[8]", "a[5]"), 20U);
  EXPECT_EQ(distance(".align 16 .b8 a[64]", "a[5]"), 5U);
  EXPECT_EQ(distance(".align 16 .b64 a[4]", "a[0]"), 0U);
  EXPECT_EQ(distance(".align 16 .v4 .f32 a[8]", "a[1]"), 4U);
  EXPECT_EQ(distance(".align 16 .b32 a[4][8]", "a[3]"), 12U);
  EXPECT_EQ(distance(".align 16 .b16 a[4]", "a[-1]"), ~U64{1});
}

TEST(Memory, LoadsExtendAndStoresTruncate) {
  const auto in_local = [](const char* access) {
    return Format(
        "{{.local .align 16 .b8 buffer[32]; mov.u64 %d9, buffer; st.local.v2.b64 [%d9], {{%d1, "
        "%d2}}; {} }}",
        access);
  };
  EXPECT_EQ(EvaluateOne(in_local("ld.local.u8 %r0, [%d9+1];"), kPattern).r, 0x87U);
  EXPECT_EQ(EvaluateOne(in_local("ld.local.s8 %r0, [buffer+1];"), kPattern).r, 0xffffff87U);
  EXPECT_EQ(EvaluateOne(in_local("ld.local.s8 %h0, [%d9];"), kPattern).h, 0xff88U);
  EXPECT_EQ(EvaluateOne(in_local("ld.local.s16 %d0, [%d9+2];"), kPattern).d, 0xffffffffffff8586U);
  EXPECT_EQ(EvaluateOne(in_local("ld.local.u32 %d0, [%d9+4];"), kPattern).d, 0x81828384U);
  EXPECT_EQ(
      EvaluateOne(in_local("st.local.u8 [%d9+15], %r3; ld.local.b64 %d0, [%d9+8];"), kPattern).d,
      0x0312131415161718U);
  EXPECT_EQ(
      EvaluateOne(in_local("ld.local.v4.u8 {%h0, %h6, %h7, %h8}, [%d9+4]; cvt.u32.u16 %r0, %h8;"),
                  kPattern)
          .r,
      0x81U);
  EXPECT_EQ(EvaluateOne(in_local("ld.local.v2.f32 {%f0, _}, [%d9];"), kPattern).f, 0x85868788U);
  // Generic addresses reach local memory, too.
  EXPECT_EQ(EvaluateOne(in_local("cvta.local.u64 %d8, %d9; ld.b64 %d0, [%d8+8];"), kPattern).d,
            kPattern.in[1]);
  EXPECT_EQ(
      EvaluateOne(
          in_local("cvta.local.u64 %d8, %d9; cvta.to.local.u64 %d7, %d8; ld.local.b64 %d0, [%d7];"),
          kPattern)
          .d,
      kPattern.in[0]);
  // The destination is also the address.
  EXPECT_EQ(EvaluateOne(
                in_local("mov.u64 %d0, %d9; ld.local.v2.b64 {%d0, %d8}, [%d0]; mov.b64 %d0, %d8;"),
                kPattern)
                .d,
            kPattern.in[1]);
}

TEST(Memory, StateSpacesAndIsspacep) {
  Device device(Module(R"(
.global .align 4 .u32 g = 1;
.const .align 4 .u32 c = 2;
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .u32 s;
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %d<20>;
  .local .align 4 .b8 l[4];
  ld.param.u64 %d1, [out];
  mov.u64 %d2, g; mov.u64 %d3, c; mov.u64 %d4, l;
  mov.u32 %r5, s; cvt.u64.u32 %d5, %r5; cvta.shared.u64 %d5, %d5;
  mov.u32 %r6, dynamic; cvt.u64.u32 %d6, %r6; cvta.shared.u64 %d6, %d6;
  isspacep.global %p1, %d2; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1], %r1;
  isspacep.const %p1, %d3; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+4], %r1;
  isspacep.local %p1, %d4; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+8], %r1;
  isspacep.shared %p1, %d5; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+12], %r1;
  isspacep.shared %p1, %d6; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+16], %r1;
  isspacep.shared %p1, %d2; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+20], %r1;
  isspacep.global %p1, %d5; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+24], %r1;
  isspacep.local %p1, %d2; selp.b32 %r1, 1, 0, %p1; st.global.u32 [%d1+28], %r1;
  // A generic store seen through the shared address, and back.
  st.u32 [%d5], 77; ld.shared.u32 %r7, [%r5]; st.global.u32 [%d1+32], %r7;
  st.shared.u32 [dynamic+4], 78; ld.u32 %r7, [%d6+4]; st.global.u32 [%d1+36], %r7;
  // The sum of a shared address wraps around in 32 bits.
  add.u32 %r8, %r6, -16; ld.shared.u32 %r7, [%r8+20]; st.global.u32 [%d1+40], %r7;
  ld.const.u32 %r7, [c]; st.global.u32 [%d1+44], %r7;
  mov.u32 %r7, %dynamic_smem_size; st.global.u32 [%d1+48], %r7;
  cvta.to.shared.u64 %d7, %d6; cvt.u32.u64 %r7, %d7; sub.u32 %r7, %r7, %r6; st.global.u32 [%d1+52], %r7;
  ret;
})"));
  std::uint32_t out[14];
  EXPECT_RUNS(device, device.Launch("k", {1}, {1}, 64, &out[0]));
  EXPECT_THAT(out, testing::ElementsAre(1, 1, 1, 1, 1, 0, 0, 0, 77, 78, 78, 2, 64, 0));
}

TEST(Memory, SharedVariablesGetAlignedPlaces) {
  auto program = Program::Load(Module(R"(
.shared .align 1 .b8 a[3];
.shared .align 8 .b8 unused[800];
.extern .shared .align 32 .b8 dynamic[];
.visible .entry k(.param .u64 p0, .param .u32 p1, .param .align 16 .b8 p2[20], .param .u8 p3)
.maxntid 16, 4, 2
{
  .shared .align 8 .b64 b[2];
  .local .align 4 .b8 l[100];
  .reg .b32 %r<4>;
  mov.u32 %r1, a; mov.u32 %r2, b; mov.u32 %r3, dynamic;
  ret;
}
.visible .entry plain() .reqntid 8 { ret; })"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  const KernelInfo& info = **(*program)->Kernel("k");
  // 3 bytes, 5 of padding, 16, and up to the next multiple of 32 for the dynamic part.
  EXPECT_EQ(info.static_shared_bytes, 32U);
  EXPECT_EQ(info.local_bytes, 100U);
  EXPECT_EQ(info.max_threads, 128U);
  EXPECT_EQ(info.required_ntid[0], 0U);
  EXPECT_FALSE(info.needs_fibers);
  ASSERT_EQ(info.parameters.size(), 4U);
  const std::uint32_t offsets[] = {0, 8, 16, 36}, sizes[] = {8, 4, 20, 1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(info.parameters[i].offset, offsets[i]);
    EXPECT_EQ(info.parameters[i].bytes, sizes[i]);
  }
  EXPECT_EQ(info.parameter_bytes, 37U);
  const KernelInfo& plain = **(*program)->Kernel("plain");
  EXPECT_EQ(plain.static_shared_bytes, 0U);
  EXPECT_EQ(plain.max_threads, 8U);
  EXPECT_EQ(plain.required_ntid[0], 8U);
  EXPECT_EQ(plain.required_ntid[1], 1U);
  EXPECT_EQ((*program)->Kernel("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ((*program)->ptx_version(), 90U);
  EXPECT_EQ((*program)->target(), 80U);
  EXPECT_THAT((*program)->kernel_names(), testing::ElementsAre("k", "plain"));
}

TEST(Memory, InitialValuesAndRelocations) {
  auto program = Program::Load(Module(R"(
.visible .global .align 4 .u32 word = 0x12345678;
.global .align 8 .u64 pointers[3] = {word, generic(word)+4, 7};
.global .align 2 .b16 table[2][3] = {{1, 2}, {-1}};
.global .align 4 .f32 floats[3] = {1.5, 0f40000000, -1};
.const .align 8 .f64 pi = 0d400921FB54442D18;
.global .attribute(.managed) .align 4 .u32 managed;
.global .align 1 .b8 zero[10];
)"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto& variables = (*program)->variables();
  ASSERT_EQ(variables.size(), 7U);
  EXPECT_THAT(variables[0].initial, testing::ElementsAre(0x78, 0x56, 0x34, 0x12));
  ASSERT_EQ(variables[1].relocations.size(), 2U);
  EXPECT_EQ(variables[1].relocations[1].offset, 8U);
  EXPECT_EQ(variables[1].relocations[1].symbol, "word");
  EXPECT_EQ(variables[1].relocations[1].addend, 4);
  EXPECT_EQ(variables[1].initial[16], 7);
  EXPECT_EQ(variables[2].bytes, 12U);
  EXPECT_THAT(variables[2].initial, testing::ElementsAre(1, 0, 2, 0, 0, 0, 0xff, 0xff));
  float floats[3];
  std::memcpy(floats, variables[3].initial.data(), sizeof floats);
  EXPECT_THAT(floats, testing::ElementsAre(1.5F, 2, -1));
  EXPECT_TRUE(variables[4].constant);
  EXPECT_EQ(variables[6].bytes, 10U);
  EXPECT_TRUE(variables[6].initial.empty());
}

TEST(Memory, SpecialRegisters) {
  Device device(Module(R"(
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<20>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %d2, %r4, 40; add.u64 %d1, %d1, %d2;
  mov.u32 %r5, %laneid; st.global.u32 [%d1], %r5;
  mov.u32 %r5, %warpid; st.global.u32 [%d1+4], %r5;
  mov.u32 %r5, %lanemask_eq; st.global.u32 [%d1+8], %r5;
  mov.u32 %r5, %lanemask_lt; st.global.u32 [%d1+12], %r5;
  mov.u32 %r5, %lanemask_le; st.global.u32 [%d1+16], %r5;
  mov.u32 %r5, %lanemask_gt; st.global.u32 [%d1+20], %r5;
  mov.u32 %r5, %lanemask_ge; st.global.u32 [%d1+24], %r5;
  mov.u32 %r5, %nctaid.z; st.global.u32 [%d1+28], %r5;
  mov.u64 %d3, %clock64; setp.ne.u64 %done, %d3, 0; selp.b32 %r5, 1, 0, %done; st.global.u32 [%d1+32], %r5;
  cvt.u32.u32 %r5, %ctaid.x; st.global.u32 [%d1+36], %r5;
  ret;
})"));
  // The error names the undeclared register.
  EXPECT_EQ(device.program().Kernel("k").status().code(), StatusCode::kInvalid);
  EXPECT_THAT(device.program().Kernel("k").status().message(), testing::HasSubstr("%done"));

  std::string text = Module(R"(
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<2>; .reg .b32 %r<20>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %d2, %r4, 36; add.u64 %d1, %d1, %d2;
  mov.u32 %r5, %laneid; st.global.u32 [%d1], %r5;
  mov.u32 %r5, %warpid; st.global.u32 [%d1+4], %r5;
  mov.u32 %r5, %lanemask_eq; st.global.u32 [%d1+8], %r5;
  mov.u32 %r5, %lanemask_lt; st.global.u32 [%d1+12], %r5;
  mov.u32 %r5, %lanemask_le; st.global.u32 [%d1+16], %r5;
  mov.u32 %r5, %lanemask_gt; st.global.u32 [%d1+20], %r5;
  mov.u32 %r5, %lanemask_ge; st.global.u32 [%d1+24], %r5;
  mov.u32 %r5, %nctaid.x; st.global.u32 [%d1+28], %r5;
  mov.u64 %d3, %globaltimer; setp.ne.u64 %p1, %d3, 0; selp.b32 %r5, 1, 0, %p1; st.global.u32 [%d1+32], %r5;
  ret;
})");
  Device good(std::move(text));
  std::uint32_t out[64][9];
  EXPECT_RUNS(good, good.Launch("k", {1}, {8, 8}, 0, &out[0][0]));
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t lane = i % 32, bit = 1U << lane;
    EXPECT_THAT(out[i], testing::ElementsAre(lane, i / 32, bit, bit - 1, bit | (bit - 1),
                                             ~(bit | (bit - 1)), ~(bit - 1), 1, 1));
  }
}

// --- Atomics: the old value, and the memory afterwards

struct Atomic {
  const char* instruction;  // Operands: %r1, %r2 (32) or %d1, %d2 (64); [A] is the memory.
  U64 before, operand, second, after;
};

TEST(Memory, AtomicsReturnTheOldValueAndStoreTheNew) {
  const Atomic cases[] = {
      {"atom.SPACE.add.u32 %r0, [A], %r2;", 5, 7, 0, 12},
      {"atom.SPACE.add.s32 %r0, [A], %r2;", 5, 0xffffffff, 0, 4},
      {"atom.SPACE.min.s32 %r0, [A], %r2;", 5, 0xfffffff0, 0, 0xfffffff0},
      {"atom.SPACE.min.u32 %r0, [A], %r2;", 5, 0xfffffff0, 0, 5},
      {"atom.SPACE.max.s32 %r0, [A], %r2;", 5, 0xfffffff0, 0, 5},
      {"atom.SPACE.max.u32 %r0, [A], %r2;", 5, 0xfffffff0, 0, 0xfffffff0},
      {"atom.SPACE.and.b32 %r0, [A], %r2;", 12, 10, 0, 8},
      {"atom.SPACE.or.b32 %r0, [A], %r2;", 12, 10, 0, 14},
      {"atom.SPACE.xor.b32 %r0, [A], %r2;", 12, 10, 0, 6},
      {"atom.SPACE.exch.b32 %r0, [A], %r2;", 12, 10, 0, 10},
      {"atom.SPACE.cas.b32 %r0, [A], %r2, %r3;", 12, 12, 99, 99},
      {"atom.SPACE.cas.b32 %r0, [A], %r2, %r3;", 12, 13, 99, 12},
      {"atom.SPACE.inc.u32 %r0, [A], %r2;", 5, 7, 0, 6},
      {"atom.SPACE.inc.u32 %r0, [A], %r2;", 7, 7, 0, 0},
      {"atom.SPACE.dec.u32 %r0, [A], %r2;", 5, 7, 0, 4},
      {"atom.SPACE.dec.u32 %r0, [A], %r2;", 0, 7, 0, 7},
      {"atom.SPACE.dec.u32 %r0, [A], %r2;", 9, 7, 0, 7},
      {"atom.acq_rel.gpu.SPACE.add.u32 %r0, [A], %r2;", 5, 7, 0, 12},
      {"atom.SPACE.add.f32 %f0, [A], %f2; mov.b32 %r0, %f0;", 0x3f800000, 0x40000000, 0,
       0x40400000},
      {"atom.SPACE.add.u64 %d0, [A], %d2; cvt.u32.u64 %r0, %d0;", 5, U64{1} << 40, 0,
       (U64{1} << 40) + 5},
      {"atom.SPACE.add.f64 %g0, [A], %g2; mov.b64 %d0, %g0; cvt.u32.u64 %r0, %d0;", 0,
       0x3ff0000000000000, 0, 0x3ff0000000000000},
      {"atom.SPACE.max.s64 %d0, [A], %d2; cvt.u32.u64 %r0, %d0;", 5, ~U64{0}, 0, 5},
      {"atom.SPACE.exch.b64 %d0, [A], %d2; cvt.u32.u64 %r0, %d0;", 5, ~U64{0}, 0, ~U64{0}},
      {"atom.SPACE.cas.b64 %d0, [A], %d2, %d3; cvt.u32.u64 %r0, %d0;", 5, 5, ~U64{0}, ~U64{0}},
      {"atom.SPACE.add.noftz.f16 %h0, [A], %h2; cvt.u32.u16 %r0, %h0;", 0x3c00, 0x4000, 0, 0x4200},
      {"atom.SPACE.add.noftz.f16x2 %r0, [A], %r2;", 0x3c003c00, 0x40003c00, 0, 0x42004000},
      {"atom.SPACE.cas.b16 %h0, [A], %h2, %h3; cvt.u32.u16 %r0, %h0;", 5, 5, 6, 6},
      {"red.SPACE.add.u32 [A], %r2; mov.u32 %r0, %r1;", 5, 7, 0, 12},
      {"red.relaxed.gpu.SPACE.or.b32 [A], %r2; mov.u32 %r0, %r1;", 12, 10, 0, 14},
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
    return text;
  };
  for (const auto& test : cases) {
    const Words words{{test.before, test.operand, test.second, 0, 0}};
    for (std::string space : {"global", "shared", "generic"}) {
      // Memory: the input words themselves, or a shared variable.
      std::string body =
          space == "shared"
              ? "{.shared .align 8 .b64 cell; mov.u32 %r8, cell; st.shared.b64 [%r8], %d1;"
              : "{mov.u64 %d8, %a1;";
      body += replaced(replaced(test.instruction, "SPACE.", space == "generic" ? "" : space + "."),
                       "[A]", space == "shared" ? "[%r8]" : "[%d8]");
      body += space == "shared" ? "ld.shared.b64 %d0, [%r8]; }" : "ld.global.b64 %d0, [%d8]; }";
      const auto result = EvaluateOne(body, words);
      EXPECT_EQ(result.r, test.before & 0xffffffff) << body;
      EXPECT_EQ(result.d, test.after) << body;
    }
  }
}

TEST(Memory, OrderedAccessesAndFences) {
  EXPECT_EQ(
      EvaluateOne(
          "membar.cta; membar.gl; membar.sys; fence.acq_rel.gpu; fence.sc.cta; fence.proxy.async;"
          "st.volatile.global.u32 [%a1], 9; ld.volatile.global.u32 %r0, [%a1];",
          kPattern)
          .r,
      9U);
  EXPECT_EQ(EvaluateOne("st.release.gpu.global.u32 [%a1], 9; ld.acquire.gpu.global.u32 %r0, [%a1];",
                        kPattern)
                .r,
            9U);
  EXPECT_EQ(
      EvaluateOne("st.relaxed.sys.f32 [%a1], %f3; ld.relaxed.gpu.f32 %f0, [%a1];", kPattern).f, 3U);
  EXPECT_EQ(EvaluateOne("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%r0, %r9}, [%a1]; "
                        "prefetch.global.L2 [%a1];",
                        kPattern)
                .r,
            0x85868788U);
  EXPECT_EQ(EvaluateOne("createpolicy.fractional.L2::evict_first.b64 %d5, 1.0;"
                        "st.relaxed.gpu.global.L2::cache_hint.v2.u32 [%a1], {9, 8}, %d5;"
                        "ld.global.L1::no_allocate.L2::cache_hint.u32 %r0, [%a1], %d5;",
                        kPattern)
                .r,
            9U);
}

TEST(Memory, AsynchronousCopies) {
  const char* const kBody =
      "{.shared .align 16 .b8 s[16]; mov.u32 %r8, s; st.shared.v2.b64 [%r8], {%d3, %d3};"
      "cp.async.ca.shared.global [%r8], [%a1], 8, %r4; cp.async.commit_group; cp.async.wait_group "
      "0; cp.async.wait_all;"
      "ld.shared.v2.b64 {%d0, %d9}, [%r8];}";
  // Four of eight bytes come from memory; the rest is zero.
  EXPECT_EQ(EvaluateOne(kBody, kPattern).d, 0x85868788U);
}

// --- Control flow and calls

TEST(Memory, BranchesTablesAndScopes) {
  const char* const kTable =
      "{ T: .branchtargets L0, L1, L2; brx.idx %r3, T;"
      "L0: mov.u32 %r0, 10; bra.uni E; L1: mov.u32 %r0, 11; bra E; L2: mov.u32 %r0, 12; bra E; E: "
      "}";
  for (U64 i = 0; i < 3; ++i) EXPECT_EQ(EvaluateOne(kTable, {{0, 0, i, 0, 0}}).r, 10 + i);
  // The same names in two scopes; an inner register hides an outer one.
  EXPECT_EQ(EvaluateOne("{.reg .b32 t; mov.u32 t, 1; bra X; mov.u32 t, 5; X: mov.u32 %r0, t;}"
                        "{.reg .b32 t; mov.u32 t, 2; bra X; mov.u32 t, 7; X: add.u32 %r0, %r0, t;}",
                        kPattern)
                .r,
            3U);
  // Guards on instructions of all kinds.
  EXPECT_EQ(EvaluateOne("setp.eq.u32 %p2, %r3, 3; @%p2 mov.u32 %r0, 1; @!%p2 mov.u32 %r0, 2; @!%p2 "
                        "bra Y; @%p2 add.u32 %r0, %r0, 4; Y:",
                        kPattern)
                .r,
            5U);
  // A register never written is zero.
  EXPECT_EQ(EvaluateOne("mov.b64 %d0, %d9;", kPattern).d, 0U);
}

TEST(Memory, CallsPassRegistersParametersAndStructs) {
  Device device(Module(R"(
.func (.reg .u32 result) plus(.reg .u32 a, .reg .u32 b) { add.u32 result, a, b; ret; }
.func (.param .align 4 .b8 out[8]) swap(.param .align 4 .b8 in[8])
{
  .reg .b32 %r<3>;
  ld.param.v2.u32 {%r1, %r2}, [in];
  st.param.u32 [out], %r2; st.param.u32 [out+4], %r1;
}
.func leave(.param .u32 when) { .reg .b32 %r<2>; .reg .pred %p; ld.param.u32 %r1, [when]; setp.ne.u32 %p, %r1, 0; @%p exit; ret; }
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<9>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  call.uni (%r1), plus, (3, 4);
  call (%r2), plus, (%r1, %r1);
  { .param .align 4 .b8 p[8]; .param .align 4 .b8 q[8];
    st.param.v2.u32 [p], {%r1, %r2};
    call.uni (q), swap, (p);
    ld.param.u32 %r3, [q]; ld.param.u32 %r4, [q+4]; }
  st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4};
  mov.u32 %r5, %tid.x;
  { .param .b32 p; st.param.u32 [p], %r5; call leave, (p); }
  st.global.u32 [%d1+16], %r5;
  ret;
})"));
  std::uint32_t out[5] = {0, 0, 0, 0, 99};
  EXPECT_RUNS(device, device.Launch("k", {1}, {4}, 0, &out[0]));
  EXPECT_THAT(out, testing::ElementsAre(7, 14, 14, 7, 0));
}

TEST(Memory, BadFunctionPointersAndTrapsEndTheLaunch) {
  const char* const kText = R"(
.func (.param .u32 r) one() { st.param.u32 [r], 1; ret; }
.global .align 8 .u64 table[2] = {one, 0};
.visible .entry k(.param .u32 i, .param .u64 out)
{
  .reg .b32 %r<3>; .reg .b64 %d<5>;
  ld.param.u32 %r1, [i]; ld.param.u64 %d4, [out];
  mul.wide.u32 %d1, %r1, 8; mov.u64 %d2, table; add.u64 %d1, %d1, %d2; ld.global.u64 %d3, [%d1];
  { .param .b32 q; P: .callprototype (.param .b32 _) _ ();
    call (q), %d3, (), P; ld.param.u32 %r2, [q]; }
  st.global.u32 [%d4], %r2;
  ret;
}
.visible .entry t() { trap; })";
  Device device(Module(kText));
  std::uint32_t out = 0;
  EXPECT_RUNS(device, device.Launch("k", {1}, {1}, 0, 0U, &out));
  EXPECT_EQ(out, 1U);
  EXPECT_EQ(device.Launch("k", {1}, {1}, 0, 1U, &out), CUDA_ERROR_INVALID_PC);
  EXPECT_EQ(device.Launch("t", {1}, {1}, 0), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(device.message(), testing::HasSubstr("kernel 't', PTX line"));
}

}  // namespace
}  // namespace cuspan::softgpu
