// Loads, stores, atomics, asynchronous copies, barriers in memory. (PTX ISA,
// "Data Movement and Conversion Instructions", "Asynchronous Copy", "mbarrier")
#include <algorithm>
#include <bit>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

struct Memory {
  std::string group = "memory";
  unsigned threads = 32;
  unsigned words = 1;
  unsigned shared = 0;
  unsigned target = 80;
  Kind kind = Kind::kU32;
};

std::vector<U> Inputs(std::size_t count) {
  std::uint64_t seed = 17;
  std::vector<U> words(count);
  for (U& word : words) word = static_cast<U>(Random(seed));
  return words;
}

template <typename Expected>
void AddMemoryProgram(const std::string& name, const Memory& how, const std::string& body,
                      Expected expected, std::vector<U> input = Inputs(1024)) {
  Program program;
  program.group = how.group;
  program.name = name;
  program.body = body;
  program.threads = how.threads;
  program.words_out = how.words;
  program.shared_bytes = how.shared;
  program.target = how.target;
  program.kind = how.kind;
  program.input = input;
  for (U t = 0; t < how.threads; ++t)
    for (U i = 0; i < how.words; ++i) program.expected.push_back(expected(input, t, i));
  Programs().push_back(std::move(program));
}

void AddLoads() {
  const auto word = [](const std::vector<U>& in, U t, U i) { return in[4 * t + i]; };
  const std::string at = "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0;\n";
  for (const std::string op :
       {"ld.global", "ld.global.nc", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu",
        "ld.global.cv", "ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global",
        "ld.global.L1::no_allocate", "ld.global.nc.L1::evict_last", "ld.global.L2::128B",
        "ldu.global", "ld", "ld.weak.global"}) {
    AddMemoryProgram(op + ".u32", {}, at + op + ".u32 %r0, [%rd0]; st.global.u32 [%out], %r0;",
                     word);
    if (op.find("acquire") != std::string::npos || op.find("relaxed") != std::string::npos)
      continue;
    AddMemoryProgram(
        op + ".v4.u32", {.words = 4},
        at + op +
            ".v4.u32 {%r0, %r1, %r2, %r3}, [%rd0]; st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};",
        word);
    AddMemoryProgram(
        op + ".v2.f64", {.words = 4},
        at + op + ".v2.f64 {%fd0, %fd1}, [%rd0]; st.global.v2.f64 [%out], {%fd0, %fd1};", word);
  }
  const auto part = [](U bits, bool is_signed) {
    return [=](const std::vector<U>& in, U t, U) {
      const U raised = in[4 * t] << (32 - bits);
      return is_signed ? static_cast<U>(static_cast<std::int32_t>(raised) >> (32 - bits))
                       : raised >> (32 - bits);
    };
  };
  AddMemoryProgram("ld.global.u8", {}, at + "ld.global.u8 %r0, [%rd0]; st.global.u32 [%out], %r0;",
                   part(8, false));
  AddMemoryProgram("ld.global.s8", {}, at + "ld.global.s8 %r0, [%rd0]; st.global.u32 [%out], %r0;",
                   part(8, true));
  AddMemoryProgram("ld.global.u16", {},
                   at + "ld.global.u16 %r0, [%rd0]; st.global.u32 [%out], %r0;", part(16, false));
  AddMemoryProgram("ld.global.s16", {},
                   at + "ld.global.s16 %r0, [%rd0]; st.global.u32 [%out], %r0;", part(16, true));
  AddMemoryProgram(
      "ld.global.b16", {},
      at + "ld.global.b16 %h0, [%rd0]; cvt.u32.u16 %r0, %h0; st.global.u32 [%out], %r0;",
      part(16, false));
  for (const std::string op :
       {"st.global", "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt",
        "st.volatile.global", "st.relaxed.gpu.global", "st.release.sys.global", "st",
        "st.global.L1::no_allocate", "st.weak.global"}) {
    AddMemoryProgram(op + ".u32", {}, at + "ld.global.u32 %r0, [%rd0];" + op + ".u32 [%out], %r0;",
                     word);
  }
  AddMemoryProgram(
      "ld, st with cache policies", {.words = 4},
      at + "createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;"
           "ld.global.L2::cache_hint.v4.u32 {%r0, %r1, %r2, %r3}, [%rd0], %rd1;"
           "st.relaxed.gpu.global.L2::cache_hint.v4.u32 [%out], {%r0, %r1, %r2, %r3}, %rd1;",
      word);
  AddMemoryProgram(
      "st.global.u8 and .v2.u16", {.words = 2},
      at + "ld.global.v2.u32 {%r0, %r1}, [%rd0]; cvt.u16.u32 %h0, %r0; shr.u32 %r2, %r0, 16; "
           "cvt.u16.u32 %h1, %r2;"
           "st.global.v2.u16 [%out], {%h0, %h1}; st.global.u8 [%out+4], %r1; shr.u32 %r1, %r1, 8; "
           "st.global.u8 [%out+5], %r1;",
      [](const std::vector<U>& in, U t, U i) {
        return i == 0 ? in[4 * t] : in[4 * t + 1] & 0xffff;
      });
  AddMemoryProgram(
      "prefetch, discard-free hints", {},
      at + "prefetch.global.L1 [%rd0]; prefetch.global.L2 [%rd0]; prefetch.global.L2::evict_last "
           "[%rd0]; prefetchu.L1 [%rd0];"
           "applypriority.global.L2::evict_normal [%in], 128; ld.global.u32 %r0, [%rd0]; "
           "st.global.u32 [%out], %r0;",
      word);
  AddMemoryProgram(
      "isspacep and cvta", {.shared = 64},
      "mov.u32 %r0, shared; cvt.u64.u32 %rd1, %r0; cvta.shared.u64 %rd2, %rd1; isspacep.shared "
      "%p0, %rd2;"
      "isspacep.global %p1, %in; isspacep.shared %p2, %in; isspacep.global %p3, %rd2; "
      "cvta.to.shared.u64 %rd3, %rd2;"
      "setp.eq.u64 %p4, %rd1, %rd3; selp.u32 %r1, 1, 0, %p0; selp.u32 %r2, 2, 0, %p1; selp.u32 "
      "%r3, 4, 0, %p2;"
      "selp.u32 %r4, 8, 0, %p3; selp.u32 %r5, 16, 0, %p4; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, "
      "%r3;"
      "or.b32 %r1, %r1, %r4; or.b32 %r1, %r1, %r5; st.global.u32 [%out], %r1;",
      [](const std::vector<U>&, U, U) { return 1U | 2 | 16; });
  AddMemoryProgram(
      "local memory", {.words = 1},
      "{ .local .align 16 .b8 frame[64]; .reg .b64 %l; mov.u64 %l, frame; shl.b32 %r1, %me, 1; "
      "st.local.u32 [%l+8], %r1;"
      "cvta.local.u64 %rd1, %l; ld.u32 %r2, [%rd1+8]; isspacep.local %p0, %rd1; @%p0 add.u32 %r2, "
      "%r2, 100;"
      "st.global.u32 [%out], %r2; }",
      [](const std::vector<U>&, U t, U) { return 2 * t + 100; });
  AddMemoryProgram(
      "mov.b64 of pairs, mov.b32 of halves", {.words = 2},
      at + "ld.global.v2.u32 {%r0, %r1}, [%rd0]; mov.b64 %rd1, {%r1, %r0}; mov.b64 {%r2, %r3}, "
           "%rd1; mov.b32 {%h0, %h1}, %r2;"
           "mov.b32 %r2, {%h1, %h0}; st.global.v2.u32 [%out], {%r2, %r3};",
      [](const std::vector<U>& in, U t, U i) {
        return i == 0 ? std::rotl(in[4 * t + 1], 16) : in[4 * t];
      });
}

// Each thread applies the operation to its own cell (four per thread: old value, new value).
void AddAtomics() {
  struct Operation {
    const char* name;
    U (*apply)(U, U);
  };
  using S = std::int32_t;
  static constexpr Operation kOperations[] = {
      {"add.u32", [](U a, U b) { return a + b; }},
      {"add.s32", [](U a, U b) { return a + b; }},
      {"exch.b32", [](U, U b) { return b; }},
      {"min.u32", [](U a, U b) { return std::min(a, b); }},
      {"max.u32", [](U a, U b) { return std::max(a, b); }},
      {"min.s32",
       [](U a, U b) { return static_cast<U>(std::min(static_cast<S>(a), static_cast<S>(b))); }},
      {"max.s32",
       [](U a, U b) { return static_cast<U>(std::max(static_cast<S>(a), static_cast<S>(b))); }},
      {"and.b32", [](U a, U b) { return a & b; }},
      {"or.b32", [](U a, U b) { return a | b; }},
      {"xor.b32", [](U a, U b) { return a ^ b; }},
      {"inc.u32", [](U a, U b) { return a >= b ? 0 : a + 1; }},
      {"dec.u32", [](U a, U b) { return a == 0 || a > b ? b : a - 1; }},
  };
  const std::string at =
      "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0; ld.global.v2.u32 {%r0, %r1}, [%rd0];\n";
  for (const Operation& op : kOperations) {
    const auto apply = op.apply;
    const auto expected = [=](const std::vector<U>& in, U t, U i) {
      return i == 0 ? in[4 * t] : apply(in[4 * t], in[4 * t + 1]);
    };
    for (const std::string where : {"global", "shared"}) {
      for (const std::string scope : {"", ".relaxed.gpu", ".acq_rel.cta"}) {
        if (scope != "" && std::string(op.name) != "add.u32") continue;
        const bool shared = where == "shared";
        const std::string cell =
            shared ? "mov.u32 %r9, shared; shl.b32 %r8, %me, 2; add.u32 %r9, %r9, %r8;"
                   : "mov.u64 %rd9, %out;";
        const std::string address = shared ? "[%r9]" : "[%rd9]";
        const std::string name = "atom" + scope + "." + where + "." + op.name;
        AddMemoryProgram(name, {.group = "atomic", .words = 2, .shared = 256},
                         at + cell + "st." + where + ".u32 " + address + ", %r0; " + name +
                             " %r2, " + address + ", %r1; ld." + where + ".u32 %r3, " + address +
                             "; st.global.v2.u32 [%out], {%r2, %r3};",
                         expected);
        const std::string red = std::string("red") +
                                (scope == ".acq_rel.cta" ? ".release.cta" : scope) + "." + where +
                                "." + op.name;
        if (std::string(op.name) == "exch.b32") continue;
        AddMemoryProgram(red, {.group = "atomic", .words = 2, .shared = 256},
                         at + cell + "st." + where + ".u32 " + address + ", %r0; " + red + " " +
                             address + ", %r1; ld." + where + ".u32 %r3, " + address +
                             "; st.global.v2.u32 [%out], {%r0, %r3};",
                         expected);
      }
    }
  }
  AddMemoryProgram(
      "atom.global.cas.b32", {.group = "atomic", .words = 2},
      at + "st.global.u32 [%out], %r0; and.b32 %r4, %me, 1; setp.eq.u32 %p0, %r4, 0; selp.u32 %r5, "
           "%r0, %r1, %p0;"
           "atom.global.cas.b32 %r2, [%out], %r5, 77; ld.global.u32 %r3, [%out]; st.global.v2.u32 "
           "[%out], {%r2, %r3};",
      [](const std::vector<U>& in, U t, U i) { return i == 0 || t % 2 == 1 ? in[4 * t] : 77; });
  AddMemoryProgram(
      "atom.global.cas.b16", {.group = "atomic", .words = 1},
      at + "st.global.u32 [%out], %r0; cvt.u16.u32 %h0, %r0; mov.b16 %h1, 77; atom.global.cas.b16 "
           "%h2, [%out], %h0, %h1;",
      [](const std::vector<U>& in, U t, U) { return (in[4 * t] & 0xffff0000) | 77; });
  AddMemoryProgram(
      "atom.global.cas.b64 and exch.b64", {.group = "atomic", .words = 4},
      "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0; ld.global.v2.u64 {%rd1, %rd2}, [%rd0]; "
      "st.global.u64 [%out], %rd1;"
      "atom.global.cas.b64 %rd3, [%out], %rd1, %rd2; atom.global.exch.b64 %rd4, [%out], %rd3; "
      "st.global.u64 [%out+8], %rd4;",
      [](const std::vector<U>& in, U t, U i) { return in[4 * t + i]; });
  AddMemoryProgram(
      "atom.global.add.u64, max.s64, and.b64", {.group = "atomic", .words = 2},
      "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0; ld.global.v2.u64 {%rd1, %rd2}, [%rd0]; "
      "st.global.u64 [%out], %rd1;"
      "atom.global.add.u64 %rd3, [%out], %rd2; atom.global.max.s64 %rd3, [%out], 5; "
      "atom.global.and.b64 %rd3, [%out], -16;",
      [](const std::vector<U>& in, U t, U i) {
        const auto wide = [&](U k) {
          return in[4 * t + k] | std::uint64_t{in[4 * t + k + 1]} << 32;
        };
        const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(
                               static_cast<std::int64_t>(wide(0) + wide(2)), 5)) &
                           ~15ULL;
        return static_cast<U>(value >> (32 * i));
      });
  const auto one = std::bit_cast<U>(1.5F);
  for (const std::string op :
       {"atom.global.add.f32 %f1, [%out], 0f3FC00000;", "red.global.add.f32 [%out], 0f3FC00000;",
        "atom.relaxed.sys.global.add.f32 %f1, [%out], 0f3FC00000;"})
    AddMemoryProgram(op, {.group = "atomic"},
                     "cvt.rn.f32.u32 %f0, %me; st.global.f32 [%out], %f0;" + op,
                     [](const std::vector<U>&, U t, U) {
                       return std::bit_cast<U>(static_cast<float>(t) + 1.5F);
                     });
  AddMemoryProgram(
      "atom.global.add.f64", {.group = "atomic", .words = 2},
      "cvt.rn.f64.u32 %fd0, %me; st.global.f64 [%out], %fd0; atom.global.add.f64 %fd1, [%out], "
      "0d3FF8000000000000;",
      [](const std::vector<U>&, U t, U i) {
        return static_cast<U>(std::bit_cast<std::uint64_t>(t + 1.5) >> (32 * i));
      });
  AddMemoryProgram(
      "atom.global.add.noftz.f16x2", {.group = "atomic"},
      "mov.u32 %r0, 0x3c003c00; st.global.u32 [%out], %r0; atom.global.add.noftz.f16x2 %r1, "
      "[%out], %r0;",
      [](const std::vector<U>&, U, U) { return 0x40004000U; });
  AddMemoryProgram(
      "atom.global.add.noftz.bf16x2", {.group = "atomic", .target = 90},
      "mov.u32 %r0, 0x3f803f80; st.global.u32 [%out], %r0; atom.global.add.noftz.bf16x2 %r1, "
      "[%out], %r0;",
      [](const std::vector<U>&, U, U) { return 0x40004000U; });
  AddMemoryProgram("atom.global.add.noftz.f16", {.group = "atomic"},
                   "mov.u32 %r0, 0x12343c00; st.global.u32 [%out], %r0; mov.b16 %h0, 0x3c00; "
                   "atom.global.add.noftz.f16 %h1, [%out], %h0;",
                   [](const std::vector<U>&, U, U) { return 0x12344000U; });
  AddMemoryProgram("red.global.add.noftz.bf16", {.group = "atomic", .target = 90},
                   "mov.u32 %r0, 0x12343f80; st.global.u32 [%out], %r0; mov.b16 %h0, 0x3f80; "
                   "red.global.add.noftz.bf16 [%out], %h0;",
                   [](const std::vector<U>&, U, U) { return 0x12344000U; });
  (void)one;
  AddMemoryProgram(
      "atom.shared.add of one cell by all", {.group = "atomic", .threads = 128, .shared = 16},
      "mov.u32 %r0, 0; st.shared.u32 [shared], %r0; bar.sync 0; atom.shared.add.u32 %r1, [shared], "
      "3; bar.sync 0;"
      "ld.shared.u32 %r2, [shared]; st.global.u32 [%out], %r2;",
      [](const std::vector<U>&, U, U) { return 384U; });
  AddMemoryProgram(
      "membar and fence", {.group = "atomic"},
      "membar.cta; membar.gl; membar.sys; fence.sc.cta; fence.acq_rel.gpu; fence.sc.sys; "
      "fence.acq_rel.cta;"
      "fence.proxy.alias; st.global.u32 [%out], %me;",
      [](const std::vector<U>&, U t, U) { return t; });
  AddMemoryProgram("fences of sm_90", {.group = "atomic", .target = 90},
                   "fence.acq_rel.cluster; fence.proxy.async; fence.mbarrier_init.release.cluster; "
                   "fence.proxy.async.shared::cta;"
                   "st.global.u32 [%out], %me;",
                   [](const std::vector<U>&, U t, U) { return t; });
}

void AddAsynchronous() {
  const std::string at =
      "mul.wide.u32 %rd0, %me, 16; add.s64 %rd0, %in, %rd0; mov.u32 %r9, shared; shl.b32 %r8, %me, "
      "4; add.u32 %r9, %r9, %r8;"
      "mov.u32 %r0, -1; st.shared.v4.u32 [%r9], {%r0, %r0, %r0, %r0};\n";
  const std::string out =
      "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%r9]; st.global.v4.u32 [%out], {%r0, %r1, %r2, "
      "%r3};";
  const auto copied = [](U bytes, U source) {
    return [=](const std::vector<U>& in, U t, U i) {
      if (4 * i >= bytes) return 0xffffffffU;
      return 4 * i < source ? in[4 * t + i] : 0U;
    };
  };
  const Memory how = {.group = "async", .words = 4, .shared = 512};
  const std::string wait = " cp.async.commit_group; cp.async.wait_group 0;";
  AddMemoryProgram("cp.async.ca 16", how,
                   at + "cp.async.ca.shared.global [%r9], [%rd0], 16;" + wait + out,
                   copied(16, 16));
  AddMemoryProgram("cp.async.cg 16", how,
                   at + "cp.async.cg.shared.global [%r9], [%rd0], 16; cp.async.wait_all;" + out,
                   copied(16, 16));
  AddMemoryProgram("cp.async.ca 4", how,
                   at + "cp.async.ca.shared.global [%r9], [%rd0], 4;" + wait + out, copied(4, 4));
  AddMemoryProgram("cp.async.ca 8", how,
                   at + "cp.async.ca.shared.global [%r9], [%rd0], 8;" + wait + out, copied(8, 8));
  AddMemoryProgram("cp.async.ca 16 of 8", how,
                   at + "cp.async.ca.shared.global [%r9], [%rd0], 16, 8;" + wait + out,
                   copied(16, 8));
  AddMemoryProgram(
      "cp.async.cg 16 of 0", how,
      at + "mov.u32 %r7, 0; cp.async.cg.shared.global [%r9], [%rd0], 16, %r7;" + wait + out,
      copied(16, 0));
  AddMemoryProgram("cp.async.cg L2::128B", how,
                   at + "cp.async.cg.shared.global.L2::128B [%r9], [%rd0], 16;" + wait + out,
                   copied(16, 16));
  AddMemoryProgram("cp.async.ca L2::256B 16 of 12", how,
                   at + "cp.async.ca.shared.global.L2::256B [%r9], [%rd0], 16, 12;" + wait + out,
                   copied(16, 12));
  const Memory barrier = {.group = "async", .words = 4, .shared = 1024};
  // One barrier of the block after the data.
  const std::string init =
      "setp.eq.u32 %p9, %me, 0; mov.u32 %r20, shared; add.u32 %r20, %r20, 512;\n@%p9 "
      "mbarrier.init.shared.b64 [%r20], 32;\nbar.sync 0;\n";
  const std::string spin =
      "SPIN: mbarrier.test_wait.shared.b64 %p0, [%r20], %rd8; @!%p0 bra SPIN;\n";
  AddMemoryProgram(
      "mbarrier and cp.async.mbarrier.arrive", barrier,
      init + at +
          "cp.async.ca.shared.global [%r9], [%rd0], 16; cp.async.mbarrier.arrive.shared.b64 [%r20];"
          "mbarrier.arrive.shared.b64 %rd8, [%r20];\n" +
          spin + out,
      copied(16, 16));
  AddMemoryProgram(
      "cp.async.mbarrier.arrive.noinc", barrier,
      "setp.eq.u32 %p9, %me, 0; mov.u32 %r20, shared; add.u32 %r20, %r20, 512;\n@%p9 "
      "mbarrier.init.shared.b64 [%r20], 64;\nbar.sync 0;\n" +
          at +
          "cp.async.ca.shared.global [%r9], [%rd0], 16; cp.async.mbarrier.arrive.noinc.shared.b64 "
          "[%r20]; mbarrier.arrive.shared.b64 %rd8, [%r20];\n" +
          spin + out,
      copied(16, 16));
  AddMemoryProgram(
      "mbarrier.arrive.noComplete, arrive_drop, pending_count",
      {.group = "async", .words = 2, .shared = 1024},
      "setp.eq.u32 %p9, %me, 0; mov.u32 %r20, shared; add.u32 %r20, %r20, 512;\n@%p9 "
      "mbarrier.init.shared.b64 [%r20], 96;\nbar.sync 0;\n"
      "mbarrier.arrive.noComplete.shared.b64 %rd7, [%r20], 1;\nbar.sync "
      "0;\nmbarrier.arrive_drop.noComplete.shared.b64 %rd7, [%r20], 1;\nbar.sync 0;\n"
      "mbarrier.arrive.shared.b64 %rd8, [%r20];\n" +
          spin +
          "bar.sync 0;\nmbarrier.arrive.noComplete.shared.b64 %rd6, [%r20], 1;\nbar.sync 0;\n "
          "mbarrier.pending_count.b64 %r1, %rd6; setp.le.u32 %p1, %r1, 64; selp.u32 %r2, 1, 0, %p1;"
          "st.global.v2.u32 [%out], {%r2, %me}; mbarrier.inval.shared.b64 [%r20];",
      [](const std::vector<U>&, U t, U i) { return i == 0 ? 1 : t; });
  AddMemoryProgram(
      "mbarrier.try_wait.parity and expect_tx, cp.async.bulk",
      {.group = "async", .words = 4, .shared = 1024, .target = 90},
      "mov.u32 %r20, shared; add.u32 %r20, %r20, 512; mov.u32 %r21, shared; setp.eq.u32 %p9, %me, "
      "0;\n"
      "@%p9 mbarrier.init.shared::cta.b64 [%r20], 1;\nbar.sync 0;\n@!%p9 bra WAIT;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 %rd7, [%r20], 512;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%in], 512, "
      "[%r20];\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0; @!%p0 bra WAIT;\n"
      "mov.u32 %r9, shared; shl.b32 %r8, %me, 4; add.u32 %r9, %r9, %r8;\n" +
          out,
      copied(16, 16));
  AddMemoryProgram(
      "cp.async.bulk to global", {.group = "async", .words = 4, .shared = 1024, .target = 90},
      at + "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd0]; st.shared.v4.u32 [%r9], {%r0, %r1, %r2, "
           "%r3}; fence.proxy.async; bar.sync 0;"
           "setp.ne.u32 %p9, %me, 0; @%p9 bra DONE; mov.u32 %r21, shared;"
           "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r21], 512; "
           "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:",
      copied(16, 16));
  AddMemoryProgram(
      "cp.reduce.async.bulk adds to global",
      {.group = "async", .words = 4, .shared = 1024, .target = 90},
      at +
          "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd0]; st.shared.v4.u32 [%r9], {%r0, %r1, %r2, "
          "%r3}; mov.u32 %r4, 7; st.global.v4.u32 [%out], {%r4, %r4, %r4, %r4}; fence.proxy.async; "
          "bar.sync 0; setp.ne.u32 %p9, %me, 0; @%p9 bra DONE; mov.u32 %r21, shared;"
          "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r21], 512; "
          "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:",
      [](const std::vector<U>& in, U t, U i) { return in[4 * t + i] + 7; });
}

}  // namespace

void AddMemoryPrograms() {
  AddLoads();
  AddAtomics();
  AddAsynchronous();
}

}  // namespace cuspan::ptx_forms
