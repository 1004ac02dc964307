// State spaces and generic addresses. (PTX ISA, "State Spaces", "Generic Addressing",
// "Initializers", "Memory Consistency Model")
#include <algorithm>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

struct Space {
  std::string declarations = {};
  unsigned words = 1;
  unsigned shared = 0;
  unsigned threads = 32;
};

template <typename Expected>
void AddSpaceProgram(const std::string& name, const Space& how, const std::string& body,
                     Expected expected) {
  Program program;
  program.group = "space";
  program.name = name;
  program.declarations = how.declarations;
  program.body = body;
  program.words_out = how.words;
  program.shared_bytes = how.shared;
  program.threads = how.threads;
  for (U i = 0; i < 256; ++i) program.input.push_back(i * 0x01010101U + 7);
  for (U t = 0; t < how.threads; ++t)
    for (U i = 0; i < how.words; ++i) program.expected.push_back(expected(t, i));
  Programs().push_back(std::move(program));
}

// Generic address of a thread's own four words, %rd4, in each writable space.
struct Window {
  const char* name;
  const char* code;
};
constexpr Window kWindows[] = {
    {"global", "mul.wide.u32 %rd0, %me, 16; add.s64 %rd4, %in, %rd0;\n"},
    {"shared",
     "mov.u32 %r0, shared; cvt.u64.u32 %rd1, %r0; cvta.shared.u64 %rd1, %rd1; mul.wide.u32 %rd0, "
     "%me, 16; add.s64 %rd4, %rd1, %rd0;\n"},
    {"local", ".local .align 16 .b8 frame[16]; mov.u64 %rd1, frame; cvta.local.u64 %rd4, %rd1;\n"}};

void AddGeneric() {
  for (const Window& window : kWindows) {
    const std::string at = window.code;
    const auto add = [&](const std::string& name, const std::string& body, auto expected) {
      AddSpaceProgram(name + " of " + window.name, {.shared = 512},
                      at + "st.u32 [%rd4], %me;\n" + body + "st.global.u32 [%out], %r2;",
                      [=](U t, U) { return expected(t); });
    };
    const auto same = [](U t) { return t; };
    for (const std::string order : {"", ".weak", ".volatile", ".relaxed.cta", ".relaxed.gpu",
                                    ".relaxed.sys", ".acquire.cta", ".acquire.gpu"}) {
      const bool is_local = window.name == std::string("local");
      if (is_local && order.find(".acquire") == 0) continue;
      add("ld" + order + ".u32", "ld" + order + ".u32 %r2, [%rd4];", same);
    }
    for (const std::string order : {".weak", ".volatile", ".relaxed.cta", ".relaxed.gpu",
                                    ".relaxed.sys", ".release.cta", ".release.gpu"})
      add("st" + order + ".u32",
          "add.u32 %r1, %me, 9; st" + order + ".u32 [%rd4], %r1; ld.u32 %r2, [%rd4];",
          [](U t) { return t + 9; });
    add("ld.v2.b64 and st.v2.b64",
        "mul.wide.u32 %rd6, %me, 77; st.v2.b64 [%rd4], {%rd6, %rd6}; ld.v2.b64 {%rd7, %rd8}, "
        "[%rd4]; cvt.u32.u64 %r2, %rd8;",
        [](U t) { return t * 77; });
    add("ld.u8 and st.b8", "st.b8 [%rd4+1], %me; ld.u16 %h0, [%rd4]; cvt.u32.u16 %r2, %h0;",
        [](U t) { return t | t << 8; });
    if (window.name == std::string("local")) continue;
    struct Atomic {
      const char* name;
      const char* operands;
      U (*result)(U);
    };
    const Atomic atomics[] = {
        {"add.u32", "5", [](U t) { return t + 5; }},
        {"or.b32", "64", [](U t) { return t | 64; }},
        {"and.b32", "12", [](U t) { return t & 12; }},
        {"xor.b32", "3", [](U t) { return t ^ 3; }},
        {"max.u32", "16", [](U t) { return std::max(t, 16U); }},
        {"min.s32", "16", [](U t) { return std::min(t, 16U); }},
        {"inc.u32", "20", [](U t) { return t >= 20 ? 0 : t + 1; }},
        {"dec.u32", "20", [](U t) { return t == 0 || t > 20 ? 20 : t - 1; }},
        {"exch.b32", "77", [](U) { return U{77}; }},
        {"cas.b32", "3, 99", [](U t) { return t == 3 ? 99 : t; }},
    };
    for (const Atomic& atomic : atomics) {
      const auto result = atomic.result;
      const std::string name = atomic.name, operands = atomic.operands;
      add("atom." + name,
          "atom." + name + " %r3, [%rd4], " + operands +
              "; ld.u32 %r2, [%rd4]; mad.lo.u32 %r2, "
              "%r3, 1000, %r2;",
          [=](U t) { return t * 1000 + result(t); });
      if (name == "exch.b32" || name == "cas.b32") continue;
      add("red." + name, "red." + name + " [%rd4], " + operands + "; ld.u32 %r2, [%rd4];",
          [=](U t) { return result(t); });
    }
    add("atom.cas.b64",
        "mov.b64 %rd6, {%me, %me}; st.b64 [%rd4], %rd6; mov.u64 %rd7, 0x500000005; mov.u64 %rd8, "
        "44; atom.cas.b64 %rd9, [%rd4], %rd7, %rd8; ld.u32 %r2, [%rd4]; cvt.u32.u64 %r3, %rd9; "
        "mad.lo.u32 %r2, %r3, 1000, %r2;",
        [](U t) { return t * 1000 + (t == 5 ? 44 : t); });
  }
  for (const std::string type : {"b32", "b64"}) {
    const bool wide = type == "b64";
    const std::string a = wide ? "%rd6" : "%r5", b = wide ? "%rd7" : "%r6",
                      c = wide ? "%rd8" : "%r7";
    AddSpaceProgram(
        "atom.shared.cas." + type, {.shared = 512},
        "mov.u32 %r0, shared; mad.lo.u32 %r0, %me, 8, %r0; mov." + type + " " + a + ", 5; mov." +
            type + " " + b + ", 66; mov." + type + " " + c + ", 0; st.shared." + type + " [%r0], " +
            c + "; st.shared.u32 [%r0], %me; atom.shared.cas." + type + " " + c + ", [%r0], " + a +
            ", " + b + "; ld.shared.u32 %r1, [%r0]; st.global.u32 [%out], %r1;",
        [](U t, U) { return t == 5 ? 66 : t; });
  }
  for (const std::string order : {".volatile", ".relaxed.cta", ".weak"}) {
    AddSpaceProgram("ld" + order + ".shared.u32 and st" + order + ".shared.u32", {.shared = 512},
                    "mov.u32 %r0, shared; mad.lo.u32 %r0, %me, 4, %r0; st" + order +
                        ".shared.u32 [%r0], %me; ld" + order +
                        ".shared.u32 %r1, [%r0]; st.global.u32 [%out], "
                        "%r1;",
                    [](U t, U) { return t; });
  }
}

// Tests the window of an address: bit 0 local, 1 shared, 2 global, 3 const.
void AddIsspacep() {
  const std::string test =
      "isspacep.local %p0, %rd4; isspacep.shared %p1, %rd4; isspacep.global %p2, %rd4; "
      "isspacep.const %p3, %rd4; selp.u32 %r2, 1, 0, %p0; selp.u32 %r3, 2, 0, %p1; selp.u32 %r4, "
      "4, 0, %p2; selp.u32 %r5, 8, 0, %p3; or.b32 %r2, %r2, %r3; or.b32 %r4, %r4, %r5; or.b32 "
      "%r2, %r2, %r4; st.global.u32 [%out], %r2;";
  const U expected[] = {4, 2, 1};
  for (int i = 0; i < 3; ++i)
    AddSpaceProgram(std::string("isspacep of an address in ") + kWindows[i].name, {.shared = 512},
                    kWindows[i].code + test, [&, i](U, U) { return expected[i]; });
  AddSpaceProgram("isspacep of an address in const",
                  {.declarations = ".const .align 8 .u32 constants[2] = {1, 2};\n"},
                  "mov.u64 %rd0, constants; cvta.const.u64 %rd4, %rd0;" + test,
                  [](U, U) { return 8; });
  AddSpaceProgram(
      "isspacep of the ends of a frame", {.words = 1},
      ".local .align 16 .b8 frame[4096]; mov.u64 %rd1, frame; cvta.local.u64 %rd1, %rd1; "
      "isspacep.local %p0, %rd1; add.s64 %rd2, %rd1, 4095; isspacep.local %p1, %rd2; st.u32 "
      "[%rd1], %me; st.u8 [%rd2], %me; ld.u32 %r1, [%rd1]; ld.u8 %r2, [%rd2]; and.pred %p2, %p0, "
      "%p1; selp.u32 %r3, 1000, 0, %p2; add.u32 %r3, %r3, %r1; add.u32 %r3, %r3, %r2; "
      "st.global.u32 [%out], %r3;",
      [](U t, U) { return 1000 + 2 * t; });
}

void AddVariables() {
  const std::string table =
      ".const .align 4 .u32 table[32] = {0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, "
      "45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78, 81, 84, 87, 90, 93};\n";
  const auto tripled = [](U t, U) { return 3 * t; };
  AddSpaceProgram(
      "ld.const.u32", {.declarations = table},
      "mov.u64 %rd0, table; mul.wide.u32 %rd1, %me, 4; add.s64 %rd0, %rd0, %rd1; ld.const.u32 "
      "%r0, [%rd0]; st.global.u32 [%out], %r0;",
      tripled);
  AddSpaceProgram(
      "ld.const.v4.u32 by name", {.declarations = table, .words = 4},
      "ld.const.v4.u32 {%r0, %r1, %r2, %r3}, [table+16]; st.global.v4.u32 [%out], {%r0, %r1, %r2, "
      "%r3};",
      [](U, U i) { return 12 + 3 * i; });
  AddSpaceProgram(
      "cvta.const and ld", {.declarations = table},
      "mov.u64 %rd0, table; cvta.const.u64 %rd0, %rd0; mul.wide.u32 %rd1, %me, 4; add.s64 %rd0, "
      "%rd0, %rd1; ld.u32 %r0, [%rd0]; st.global.u32 [%out], %r0;",
      tripled);
  AddSpaceProgram(
      "ld.global of variables with initializers",
      {.declarations = ".global .align 8 .b8 bytes[8] = {1, 2, 3, 4, 250, 0, 7, 8};\n"
                       ".global .align 4 .f32 one = 0f3F800000;\n"
                       ".global .align 8 .u64 pointer = generic(bytes)+4;\n"
                       ".global .align 4 .u32 none;\n",
       .words = 4},
      "ld.global.u32 %r0, [bytes]; ld.global.u32 %r1, [one]; ld.global.u64 %rd0, [pointer]; "
      "ld.u8 %r2, [%rd0]; ld.global.u32 %r3, [none]; st.global.v4.u32 [%out], {%r0, %r1, %r2, "
      "%r3};",
      [](U, U i) {
        return i == 0 ? 0x04030201U : i == 1 ? 0x3f800000U : i == 2 ? 250U : 0U;
      });
  AddSpaceProgram(
      "st.global and ld.global of a variable of the module",
      {.declarations = ".global .align 4 .b8 scratch[128];\n"},
      "mov.u64 %rd0, scratch; mul.wide.u32 %rd1, %me, 4; add.s64 %rd0, %rd0, %rd1; mul.lo.u32 "
      "%r0, %me, %me; st.global.u32 [%rd0], %r0; ld.global.u32 %r1, [%rd0]; st.global.u32 [%out], "
      "%r1;",
      [](U t, U) { return t * t; });
  AddSpaceProgram(
      "ld.local and st.local at computed places", {},
      ".local .align 4 .b8 frame[256]; mov.u64 %rd0, frame; mov.u32 %r0, 0;\n"
      "fill: mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; mad.lo.u32 %r1, %r0, 3, %me; "
      "st.local.u32 [%rd2], %r1; add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 64; @%p0 bra fill;\n"
      "mul.lo.u32 %r2, %me, 2; mul.wide.u32 %rd1, %r2, 4; add.s64 %rd2, %rd0, %rd1; ld.local.u32 "
      "%r3, [%rd2]; st.global.u32 [%out], %r3;",
      [](U t, U) { return 7 * t; });
  // All words are used, so overlaps are detected.
  AddSpaceProgram(
      "ld.local and st.local of all of large frames", {},
      ".local .align 4 .b8 a[8192]; .local .align 128 .b8 b[4100]; mov.u64 %rd0, a; mov.u64 %rd3, "
      "b; mov.u32 %r0, 0; mov.u32 %r3, 0;\n"
      "fill: mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; mad.lo.u32 %r1, %r0, 3, %me; "
      "st.local.u32 [%rd2], %r1; setp.lt.u32 %p0, %r0, 1025; add.s64 %rd2, %rd3, %rd1; mad.lo.u32 "
      "%r1, %me, 5, %r0; @%p0 st.local.u32 [%rd2], %r1; add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, "
      "2048; @%p0 bra fill;\n"
      "mov.u32 %r0, 0;\n"
      "sum: mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; ld.local.u32 %r1, [%rd2]; add.u32 "
      "%r3, %r3, %r1; setp.lt.u32 %p0, %r0, 1025; add.s64 %rd2, %rd3, %rd1; @%p0 ld.local.u32 %r1, "
      "[%rd2]; @%p0 add.u32 %r3, %r3, %r1; add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 2048; @%p0 "
      "bra sum;\n"
      "st.global.u32 [%out], %r3;",
      [](U t, U) { return 3 * 2096128 + 2048 * t + 524800 + 1025 * 5 * t; });
  AddSpaceProgram(
      "st.local.v4.u32 and ld.local.v2.u64", {.words = 4},
      ".local .align 16 .b8 frame[32]; mov.u64 %rd0, frame; add.u32 %r1, %me, 1; add.u32 %r2, "
      "%me, 2; add.u32 %r3, %me, 3; st.local.v4.u32 [%rd0+16], {%me, %r1, %r2, %r3}; "
      "ld.local.v2.u64 {%rd1, %rd2}, [%rd0+16]; st.global.v2.u64 [%out], {%rd1, %rd2};",
      [](U t, U i) { return t + i; });
  AddSpaceProgram(
      "ld.param of bytes and halves", {.words = 1},
      "ld.param.u8 %r0, [pin]; ld.param.u16 %r1, [pin]; and.b32 %r1, %r1, 255; sub.u32 %r2, %r0, "
      "%r1; st.global.u32 [%out], %r2;",
      [](U, U) { return 0; });
  AddSpaceProgram(
      "an array of shared memory of its own alignment", {.shared = 64},
      ".shared .align 16 .b8 more[64]; mov.u32 %r0, more; and.b32 %r1, %r0, 15; mov.u32 %r2, "
      "shared; sub.u32 %r3, %r0, %r2; setp.ne.u32 %p0, %r3, 0; selp.u32 %r4, 100, 0, %p0; add.u32 "
      "%r4, %r4, %r1; st.global.u32 [%out], %r4;",
      [](U, U) { return 100; });
}

}  // namespace

void AddSpacePrograms() {
  AddGeneric();
  AddIsspacep();
  AddVariables();
}

}  // namespace cuspan::ptx_forms
