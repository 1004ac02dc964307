// Calls, control flow, directives and special registers. (PTX ISA, "Control Flow Instructions",
// "Abstracting the ABI", "Directives", "Special Registers")
#include "tests/unit/proxy/softgpu/instructions/forms.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

template <typename Expected>
Program& Add(const std::string& name, const std::string& declarations, const std::string& body,
             Expected expected, unsigned threads = 32, unsigned words = 1) {
  Program program;
  program.group = "code";
  program.name = name;
  program.declarations = declarations;
  program.body = body;
  program.threads = threads;
  program.words_out = words;
  for (U t = 0; t < threads; ++t)
    for (U i = 0; i < words; ++i) program.expected.push_back(expected(t, i));
  Programs().push_back(std::move(program));
  return Programs().back();
}

const char* const kStore = "st.global.u32 [%out], %r0;";

void AddCalls() {
  const std::string square =
      ".func (.param .b32 result) square(.param .b32 x)\n{ .reg .b32 %s; ld.param.b32 %s, [x]; "
      "mul.lo.s32 %s, %s, %s; st.param.b32 [result], %s; ret; }\n";
  const std::string call_square =
      "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %me; call.uni (y), square, (x); "
      "ld.param.b32 %r0, [y]; }\n";
  Add("call.uni with st.param and ld.param", square, call_square + kStore,
      [](U t, U) { return t * t; });
  Add("call where lanes differ", square,
      "mov.u32 %r0, 7; and.b32 %r1, %me, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra done;\n"
      "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %me; call (y), square, (x); ld.param.b32 "
      "%r0, [y]; }\ndone: " +
          std::string(kStore),
      [](U t, U) { return t % 2 == 0 ? 7 : t * t; });
  Add("call under a predicate", square,
      "mov.u32 %r0, 7; setp.lt.u32 %p0, %me, 9;\n"
      "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %me; @%p0 call (y), "
      "square, (x); ld.param.b32 %r1, [y]; }\n@%p0 mov.b32 %r0, %r1; " +
          std::string(kStore),
      [](U t, U) { return t < 9 ? t * t : 7; });
  Add("call with parameters in registers",
      ".func (.reg .u32 r) sum(.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }\n",
      std::string("call (%r0), sum, (%me, 5); ") + kStore, [](U t, U) { return t + 5; });
  Add("call of a function without results",
      ".func put(.param .b64 where, .param .b32 what)\n{ .reg .b64 %w; .reg .b32 %s; ld.param.b64 "
      "%w, [where]; ld.param.b32 %s, [what]; st.global.u32 [%w], %s; ret; }\n",
      "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %out; st.param.b32 [b], %me; call.uni "
      "put, (a, b); }",
      [](U t, U) { return t; });
  Add(
      "call with a structure as parameter and as result",
      ".func (.param .align 8 .b8 result[16]) turn(.param .align 8 .b8 x[16])\n{ .reg .b32 %s<4>; "
      ".reg .b64 %d; ld.param.v2.b32 {%s0, %s1}, [x]; ld.param.b64 %d, [x+8]; st.param.b64 "
      "[result], %d; st.param.v2.b32 [result+8], {%s1, %s0}; ret; }\n",
      "{ .param .align 8 .b8 x[16]; .param .align 8 .b8 y[16]; add.u32 %r1, %me, 1; add.u32 %r2, "
      "%me, 2; add.u32 %r3, %me, 3; st.param.v2.b32 [x], {%me, %r1}; st.param.b32 [x+8], %r2; "
      "st.param.b32 [x+12], %r3; call.uni (y), turn, (x); ld.param.v2.b32 {%r4, %r5}, [y]; "
      "ld.param.v2.b32 {%r6, %r7}, [y+8]; }\nst.global.v4.u32 [%out], {%r4, %r5, %r6, %r7};",
      [](U t, U i) {
        return t + (i == 0 ? 2 : i == 1 ? 3 : i == 2 ? 1 : 0);
      },
      32, 4);
  Add("a recursive call",
      ".func (.param .b32 result) fibonacci(.param .b32 x);\n"
      ".func (.param .b32 result) fibonacci(.param .b32 x)\n{ .reg .b32 %s<4>; .reg .pred %q; "
      "ld.param.b32 %s0, [x]; mov.u32 %s1, %s0; setp.lt.u32 %q, %s0, 2; @%q bra done;\n"
      "sub.u32 %s2, %s0, 1;\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %s2; call (b), "
      "fibonacci, (a); ld.param.b32 %s1, [b]; }\nsub.u32 %s2, %s0, 2;\n{ .param .b32 a; .param "
      ".b32 b; st.param.b32 [a], %s2; call (b), fibonacci, (a); ld.param.b32 %s3, [b]; }\nadd.u32 "
      "%s1, %s1, %s3;\ndone: st.param.b32 [result], %s1; ret; }\n",
      "{ .param .b32 x; .param .b32 y; and.b32 %r1, %me, 7; st.param.b32 [x], %r1; call (y), "
      "fibonacci, (x); ld.param.b32 %r0, [y]; }\n" +
          std::string(kStore),
      [](U t, U) {
        static constexpr U kFibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13};
        return kFibonacci[t & 7];
      });
  const std::string two =
      square +
      ".func (.param .b32 result) negative(.param .b32 x)\n{ .reg .b32 %s; ld.param.b32 %s, [x]; "
      "neg.s32 %s, %s; st.param.b32 [result], %s; ret; }\n";
  const std::string choose =
      "and.b32 %r1, %me, 3; setp.eq.u32 %p0, %r1, 1; mov.u64 %rd0, square; mov.u64 %rd1, negative; "
      "selp.b64 %rd2, %rd0, %rd1, %p0;\n";
  const auto chosen = [](U t, U) { return t % 4 == 1 ? t * t : 0 - t; };
  Add("call through a pointer with .callprototype", two,
      choose +
          "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %me; shape: .callprototype "
          "(.param .b32 _) _ (.param .b32 _); call (y), %rd2, (x), shape; ld.param.b32 %r0, "
          "[y]; }\n" +
          kStore,
      chosen);
  Add("call through a pointer with .calltargets", two,
      choose +
          "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %me; targets: .calltargets "
          "square, negative; call (y), %rd2, (x), targets; ld.param.b32 %r0, [y]; }\n" +
          kStore,
      chosen);
  Add("call through a table in global memory",
      two + ".global .align 8 .u64 functions[2] = {square, negative};\n",
      "and.b32 %r1, %me, 1; mul.wide.u32 %rd0, %r1, 8; mov.u64 %rd1, functions; add.s64 %rd0, "
      "%rd0, %rd1; ld.global.u64 %rd2, [%rd0];\n{ .param .b32 x; .param .b32 y; st.param.b32 [x], "
      "%me; shape: .callprototype (.param .b32 _) _ (.param .b32 _); call (y), %rd2, (x), shape; "
      "ld.param.b32 %r0, [y]; }\n" +
          std::string(kStore),
      [](U t, U) { return t % 2 == 0 ? t * t : 0 - t; });
}

void AddControl() {
  Add(
      "exit of some lanes before a barrier", "",
      "st.global.u32 [%out], 5; setp.ge.u32 %p0, %me, 40; @%p0 exit; bar.sync 0; st.global.u32 "
      "[%out], %me;",
      [](U t, U) { return t < 40 ? t : 5; }, 64);
  Add("ret of some lanes within a loop", "",
      "mov.u32 %r0, 0;\nnext: setp.ge.u32 %p0, %r0, %me; st.global.u32 [%out], %r0; @%p0 ret; "
      "add.u32 %r0, %r0, 1; bra.uni next;",
      [](U t, U) { return t; });
  // The path of some lanes to the reconvergence point passes the end of the loop.
  Add("a loop whose ways meet in its middle", "",
      "mov.u32 %r1, 0; bra.uni middle;\n"
      "again: add.u32 %r1, %r1, 4;\n"
      "middle: add.u32 %r2, %r1, 4; setp.gt.u32 %p0, %r2, %me; @%p0 bra found; bra.uni again;\n"
      "found: setp.gt.u32 %p1, %r1, %me; @%p1 bra back; bra.uni done;\n"
      "back: sub.u32 %r1, %r1, 1; bra.uni middle;\n"
      "done: mov.u32 %r0, %r1; " +
          std::string(kStore),
      [](U t, U) { return t / 4 * 4; });
  Add("trap and brkpt that are not reached", "",
      "setp.gt.u32 %p0, %me, 1000; @%p0 trap; @%p0 brkpt; st.global.u32 [%out], %me;",
      [](U t, U) { return t; });
  Add("brx.idx", "",
      "and.b32 %r1, %me, 3; table: .branchtargets one, two, three, one; brx.idx %r1, table;\n"
      "one: mov.u32 %r0, 1; bra done;\ntwo: mov.u32 %r0, 2; bra done;\nthree: mov.u32 %r0, 3;\n"
      "done: " +
          std::string(kStore),
      [](U t, U) {
        static constexpr U kResults[] = {1, 2, 3, 1};
        return kResults[t & 3];
      });
  Add("nanosleep.u32", "",
      "nanosleep.u32 20; mov.u32 %r1, 100; nanosleep.u32 %r1; mov.u32 %r0, %me; " +
          std::string(kStore),
      [](U t, U) { return t; });
  Add("nanosleep.u32 of some lanes", "",
      "setp.lt.u32 %p0, %me, 3; @%p0 nanosleep.u32 50; mov.u32 %r0, %me; " + std::string(kStore),
      [](U t, U) { return t; });
  Add("pmevent", "", "pmevent 3; mov.u32 %r0, %me; " + std::string(kStore),
      [](U t, U) { return t; });
}

void AddDirectives() {
  const auto same = [](U t, U) { return t; };
  const std::string store = "mov.u32 %r0, %me; " + std::string(kStore);
  Add(".file and .loc, as -lineinfo writes them",
      ".file 1 \"/a/b c.cu\"\n.file 2 \"/a/d.h\", 1234567, 89\n",
      ".loc 1 12 3\n" + store + "\n.loc 2 5 1, function_name $L__info_string0, inlined_at 1 12 3\n",
      same)
      .trailer = ".section .debug_str\n{\n$L__info_string0:\n.b8 95, 90, 52, 109, 0\n}\n";
  Add("debug sections", ".file 1 \"a.cu\"\n", ".loc 1 1 1\n" + store + "\n$label:\n.loc 1 2 1\n",
      same)
      .trailer =
      ".section .debug_abbrev\n{\n.b8 1, 17, 1, 37, 8, 19, 5, 3, 8, 16, 6, 27, 8, 0, 0, 0\n}\n"
      ".section .debug_info\n{\n.b32 12\n.b8 2, 0\n.b32 .debug_abbrev\n.b8 8, 1, 0, 0, 0, 0\n}\n"
      ".section .debug_loc { }\n";
  Add(".pragma", ".pragma \"nounroll\";\n", ".pragma \"nounroll\";\n" + store, same);
  Add("directives of performance",
      ".visible .entry other(.param .u64 p) .maxntid 128, 1, 1 .minnctapersm 2 { ret; }\n"
      ".visible .entry another(.param .u64 p) .reqntid 64 .maxnreg 32 { ret; }\n"
      ".weak .func nothing() .noreturn { trap; }\n",
      store, same);
  Add("a second kernel, .weak, .extern and .alias",
      ".extern .shared .align 16 .b8 dynamic[];\n.weak .global .align 4 .u32 weak_one = 3;\n"
      ".common .global .align 4 .u32 common_one;\n.visible .entry other() { ret; }\n",
      "ld.global.u32 %r1, [weak_one]; ld.global.u32 %r2, [common_one]; add.u32 %r0, %r1, %r2; "
      "add.u32 %r0, %r0, %me; " +
          std::string(kStore),
      [](U t, U) { return t + 3; });
  Add("comments, scopes and constants", "/* of\nthe module */\n",
      "// of a line\n{ .reg .b32 %me2; mov.u32 %me2, 0b101; { .reg .b32 %me2; mov.u32 %me2, 017; "
      "mov.u32 %r0, %me2; } add.u32 %r0, %r0, %me2; add.u32 %r0, %r0, 0x10; add.u32 %r0, %r0, "
      "WARP_SZ; }\n" +
          std::string(kStore),
      [](U, U) { return 15 + 5 + 16 + 32; });
}

void AddSpecialRegisters() {
  const auto add = [](const std::string& name, const std::string& code, auto expected,
                      unsigned threads = 64) {
    Add(name, "", code + " st.global.u32 [%out], %r0;", expected, threads);
  };
  const auto is = [](const std::string& first, const std::string& comparison,
                     const std::string& second) {
    return "mov.u32 %r1, " + first + "; mov.u32 %r2, " + second + "; setp." + comparison +
           ".u32 %p0, %r1, %r2; selp.u32 %r0, 1, 0, %p0;";
  };
  const auto yes = [](U, U) { return 1; };
  add("%smid is below %nsmid", is("%smid", "lt", "%nsmid"), yes);
  add("%warpid is below %nwarpid", is("%warpid", "lt", "%nwarpid"), yes);
  add("%laneid", "mov.u32 %r0, %laneid;", [](U t, U) { return t % 32; });
  add("%ntid and %nctaid",
      "mov.u32 %r0, %ntid.x; mov.u32 %r1, %ntid.y; mov.u32 %r2, %ntid.z; mov.u32 %r3, %nctaid.x; "
      "mad.lo.u32 %r0, %r0, 10, %r1; mad.lo.u32 %r0, %r0, 10, %r2; mad.lo.u32 %r0, %r0, 10, %r3;",
      [](U, U) { return 64111; });
  add("%ctaid", "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; add.u32 %r0, %r0, %r1;",
      [](U, U) { return 0; });
  add("%tid as .u16", "mov.u16 %h0, %tid.x; cvt.u32.u16 %r0, %h0;", [](U t, U) { return t; });
  add("%lanemask_eq", "mov.u32 %r0, %lanemask_eq;", [](U t, U) { return U{1} << t % 32; });
  add("%lanemask_lt", "mov.u32 %r0, %lanemask_lt;", [](U t, U) { return (U{1} << t % 32) - 1; });
  add("%lanemask_le", "mov.u32 %r0, %lanemask_le;", [](U t, U) { return (U{2} << t % 32) - 1; });
  add("%lanemask_ge", "mov.u32 %r0, %lanemask_ge;", [](U t, U) { return ~((U{1} << t % 32) - 1); });
  add("%lanemask_gt", "mov.u32 %r0, %lanemask_gt;", [](U t, U) { return ~((U{2} << t % 32) - 1); });
  add("%dynamic_smem_size", "mov.u32 %r0, %dynamic_smem_size;", [](U, U) { return 0; });
  const auto later = [](const std::string& name) {
    return "mov.u64 %rd0, " + name + "; nanosleep.u32 40; mov.u64 %rd1, " + name +
           "; setp.ge.u64 %p0, %rd1, %rd0; selp.u32 %r0, 1, 0, %p0;";
  };
  add("%clock64 goes on", later("%clock64"), yes);
  add("%globaltimer goes on", later("%globaltimer"), yes);
  add("%clock is the lower half of %clock64",
      "mov.u32 %r1, %clock; mov.u64 %rd0, %clock64; cvt.u32.u64 %r2, %rd0; sub.u32 %r2, %r2, %r1; "
      "setp.lt.s32 %p0, %r2, 0; selp.u32 %r0, 0, 1, %p0;",
      yes);
  add("%globaltimer counts nanoseconds of %globaltimer_lo and _hi",
      "mov.u32 %r1, %globaltimer_hi; mov.u64 %rd0, %globaltimer; shr.u64 %rd0, %rd0, 32; "
      "cvt.u32.u64 %r2, %rd0; sub.u32 %r2, %r2, %r1; setp.le.u32 %p0, %r2, 1; selp.u32 %r0, 1, 0, "
      "%p0;",
      yes);
  Add("%cluster registers without a cluster", "",
      "mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, "
      "%nclusterid.x; mad.lo.u32 %r0, %r0, 10, %r1; mad.lo.u32 %r0, %r0, 10, %r2; " +
          std::string(kStore),
      [](U, U) { return 11; })
      .target = 90;
}

}  // namespace

void AddCodePrograms() {
  AddCalls();
  AddControl();
  AddDirectives();
  AddSpecialRegisters();
}

}  // namespace cuspan::ptx_forms
