// Tests changes of a kernel's PTX for its slices, and refusals. Results of slices are compared with
// the whole launch in softgpu/compiler/slice_test.cc. (PTX ISA)
#include "proxy/slicing/slice_ptx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "proxy/ptx/index.h"
#include "proxy/ptx/parser.h"
#include "tests/unit/fuzz_seed.h"

namespace cuspan::slicing {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string ModuleOf(std::string_view rest, std::string_view version = "9.0",
                     std::string_view target = "sm_90a") {
  return Format(".version {}\n.target {}\n.address_size 64\n{}", version, target, rest);
}

// Makes a kernel with all registers used by the tests.
std::string KernelOf(std::string_view body, std::string_view attributes = "") {
  return Format(
      ".visible .entry k(.param .u64 p)\n{}\n{{\n\t.reg .pred %p<4>;\n\t.reg .b16 %h<4>;\n"
      "\t.reg .b32 %r<4>;\n\t.reg .b64 %d<4>;\n\t{}\n\tret;\n}}\n",
      attributes, body);
}

// Variables are 0x1000 apart, in the order of their lookup.
class Lookup {
 public:
  AddressOf Function() {
    return [this](std::string_view name) -> std::optional<std::uint64_t> {
      if (name.find("unknown") != std::string_view::npos) return std::nullopt;
      return addresses_
          .try_emplace(std::string(name), 0x7f00'0000'0000 + 0x1000 * addresses_.size())
          .first->second;
    };
  }

 private:
  std::map<std::string, std::uint64_t> addresses_;
};

Result<SlicedPtx> Slice(const std::string& text) {
  Lookup lookup;
  return SlicePtx(text, "k", lookup.Function());
}

// Returns the new text. The parser must accept every function.
std::string TextOf(const std::string& text) {
  const auto sliced = Slice(text);
  EXPECT_TRUE(sliced.ok()) << sliced.status().message();
  if (!sliced.ok()) return "";
  const auto module = ptx::IndexModule(sliced->text);
  EXPECT_TRUE(module.ok()) << module.status().message() << "\n" << sliced->text;
  if (!module.ok()) return "";
  for (const auto& function : module->functions) {
    if (!function.defined) continue;
    const auto body = ptx::ParseBody(sliced->text, function);
    EXPECT_TRUE(body.ok()) << body.status().message() << "\n" << sliced->text;
  }
  return sliced->text;
}

std::string Refusal(const std::string& text) {
  const auto sliced = Slice(text);
  if (sliced.ok()) return "it is sliced";
  EXPECT_EQ(sliced.status().code(), StatusCode::kUnsupported) << sliced.status().message();
  return sliced.status().message();
}

std::size_t Count(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

TEST(SlicePtxTest, TheArgumentsAreTheLastParameter) {
  const struct {
    const char* parameters;
    std::uint32_t offset;
  } cases[] = {{"", 0},
               {"()", 0},
               {"(\n)", 0},
               {"(.param .u64 a)", 8},
               {"(.param .u64 a, .param .u8 b)", 12},
               {"(.param .align 64 .b8 a[65], .param .u64 .ptr .align 8 b)", 80}};
  for (const auto& test : cases) {
    const auto sliced =
        Slice(ModuleOf(Format(".visible .entry k{}\n{{\n\tret;\n}}\n", test.parameters)));
    ASSERT_TRUE(sliced.ok()) << test.parameters << ": " << sliced.status().message();
    EXPECT_EQ(sliced->arguments_offset, test.offset) << test.parameters;
    EXPECT_EQ(sliced->parameter_bytes, test.offset + 16) << test.parameters;
    const auto module = ptx::IndexModule(sliced->text);
    ASSERT_TRUE(module.ok()) << module.status().message() << "\n" << sliced->text;
    const auto& last = module->FindFunction("k")->signature.parameters.back();
    EXPECT_EQ(last.bytes, 16u);
    EXPECT_EQ(last.alignment, 4u);
  }
  Lookup lookup;
  const auto named = SlicePtx(
      ModuleOf(".visible .entry .attribute(.unified) .noreturn noreturn() .noreturn { ret; }"),
      "noreturn", lookup.Function());
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_THAT(named->text, HasSubstr("slice_arguments[16]"));
}

TEST(SlicePtxTest, ParametersHaveALimitThatDependsOnTheVersion) {
  const auto with = [](int bytes, std::string_view version, std::string_view target) {
    return ModuleOf(Format(".visible .entry k(.param .align 4 .b8 a[{}])\n{{\n\tret;\n}}\n", bytes),
                    version, target);
  };
  EXPECT_TRUE(Slice(with(4336, "8.0", "sm_90")).ok());
  EXPECT_THAT(Refusal(with(4340, "8.0", "sm_90")), HasSubstr(reasons::kParameters));
  EXPECT_THAT(Refusal(with(4340, "8.1", "sm_61")), HasSubstr(reasons::kParameters));
  EXPECT_TRUE(Slice(with(4340, "8.1", "sm_90")).ok());
  EXPECT_TRUE(Slice(with(32748, "8.1", "sm_90")).ok());
  EXPECT_THAT(Refusal(with(32752, "8.1", "sm_90")), HasSubstr(reasons::kParameters));
}

TEST(SlicePtxTest, TheHeadStaysAndDebugInformationDoesNot) {
  const std::string text = TextOf(
      ".version 8.4 // the version\n/* .target sm_10 */ .target sm_90a, debug\n.address_size 64\n"
      ".file 1 \"a.cu\"\n.visible .entry other()\n{\n\tret;\n}\n"
      ".visible .entry k(.param .u64 p)\n.maxntid 128, 1, 1\n.minnctapersm 2\n{\n"
      "\t.reg .b32 %r<2>;\n\t.loc 1 5 0\n\tmov.u32 %r1, 1; // stays\n"
      "\t.loc 1 6 0, function_name $L__info_string0, inlined_at 1 7 3\n"
      "$L__tmp1:\n\tret;\n}\n"
      ".section .debug_str\n{\n$L__info_string0:\n.b8 1\n}\n");
  EXPECT_THAT(text, StartsWith(".version 8.4\n.target sm_90a\n.address_size 64\n"));
  EXPECT_THAT(text, AllOf(HasSubstr(".maxntid 128, 1, 1\n.minnctapersm 2"), HasSubstr("// stays"),
                          HasSubstr("$L__tmp1:")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr(".loc")), Not(HasSubstr(".file")),
                          Not(HasSubstr("info_string")), Not(HasSubstr("other"))));
}

TEST(SlicePtxTest, OnlyWhatIsReadIsComputed) {
  const std::string none = TextOf(ModuleOf(KernelOf("mov.u32 %r1, %tid.x;")));
  EXPECT_EQ(Count(none, "ld.param"), 0u);
  EXPECT_EQ(Count(none, ".pred"), 1u) << none;

  const std::string grid = TextOf(ModuleOf(KernelOf("mov.u32 %r1, %nctaid.y;")));
  EXPECT_EQ(Count(grid, "ld.param"), 1u);
  EXPECT_THAT(grid, AllOf(HasSubstr("[slice_arguments+8]"), HasSubstr("%r1, %slice_grid_y;"),
                          Not(HasSubstr("%ctaid")), Not(HasSubstr("%nctaid"))));

  const std::string x =
      TextOf(ModuleOf(KernelOf("mov.u32 %r1, %ctaid.x;\n mov.u32 %r2, %ctaid.x;")));
  EXPECT_EQ(Count(x, "div.u32"), 1u);
  EXPECT_EQ(Count(x, "bra.uni"), 1u) << "a grid of one row divides nothing";
  EXPECT_EQ(Count(x, "ld.param"), 2u);
  EXPECT_EQ(Count(x, "%ctaid"), 1u);
  EXPECT_EQ(Count(x, "%slice_block_x;"), 2u);

  const std::string y = TextOf(ModuleOf(KernelOf("mov.u32 %r1, %ctaid.y;")));
  EXPECT_EQ(Count(y, "div.u32"), 2u);
  EXPECT_EQ(Count(y, "bra.uni"), 2u) << "a grid of one plane divides once";
  EXPECT_EQ(Count(y, "mul.lo"), 1u) << "x is not needed";

  const std::string z = TextOf(ModuleOf(KernelOf("cvt.u64.u32 %d1, %ctaid.z;")));
  EXPECT_EQ(Count(z, "div.u32"), 2u);
  EXPECT_EQ(Count(z, "mul.lo"), 0u) << "neither x nor y is needed";
}

TEST(SlicePtxTest, IndicesAreComputedBeforeAllElse) {
  const std::string text = TextOf(
      ModuleOf(".visible .entry k()\n{\n\t.pragma \"enable_smem_spilling\";\n\t.reg .b32 %r<2>;\n"
               "AGAIN:\n\tmov.u32 %r1, %ctaid.x;\n\tbra AGAIN;\n}\n"));
  EXPECT_LT(text.find(".pragma"), text.find("ld.param"));
  EXPECT_LT(text.find("slice_indexed:"), text.find("AGAIN:"));
  const std::string scope = TextOf(ModuleOf(
      ".visible .entry k()\n{\n{\n\t.reg .b32 %r<2>;\n\tmov.u32 %r1, %ctaid.x;\n}\n\tret;\n}\n"));
  EXPECT_LT(scope.find("slice_indexed:"), scope.find("\t.reg .b32 %r<2>"));
}

TEST(SlicePtxTest, NewNamesAreInNoPlaceOfTheText) {
  const std::string text = TextOf(
      ModuleOf(KernelOf("{ .reg .b32 %slice_block_x, %slice__<9>; mov.u32 %slice__3, %ctaid.x; }\n"
                        "slice_indexed: // slice_____")));
  EXPECT_THAT(text, HasSubstr("%slice______block_x;"));
  EXPECT_EQ(Count(text, "slice_indexed:"), 1u);
  EXPECT_EQ(Count(text, "slice______indexed:"), 1u);
}

TEST(SlicePtxTest, VariablesAreThoseOfTheOriginal) {
  const std::string text =
      TextOf(ModuleOf(".visible .global .align 4 .u32 a = 7;\n.global .align 8 .b8 b[64];\n"
                      ".global .align 8 .u64 unused = unknown;\n.global .u32 unknown;\n" +
                      KernelOf("ld.global.u32 %r1, [a];\n @!%p1 st.global.u32 [b+8], %r1;\n"
                               "mov.u64 %d1, b;\n cvta.global.u64 %d2, b;\n mov.b64 %d3, b+-4+2;\n"
                               "red.global.add.u32 [a], 1;")));
  // a is at 7f0000000000, b at 7f0000001000.
  EXPECT_THAT(text, AllOf(Not(HasSubstr(".global .align")), Not(HasSubstr("unused"))));
  const auto is_at = [&](const std::string& before, std::uint64_t address,
                         const std::string& behind) {
    const std::size_t at = text.find(before + "%slice_address");
    ASSERT_NE(at, std::string::npos) << before << "\n" << text;
    const std::size_t begin = at + before.size();
    const std::string name = text.substr(begin, text.find_first_of("];", begin) - begin);
    EXPECT_THAT(text, HasSubstr(before + name + behind));
    EXPECT_THAT(text, HasSubstr(Format("mov.u64 {}, {};", name, address)));
  };
  is_at("ld.global.u32 %r1, [", 0x7f00'0000'0000, "];");
  is_at("@!%p1 st.global.u32 [", 0x7f00'0000'1008, "], %r1;");
  is_at("mov.u64 %d1, ", 0x7f00'0000'1000, ";");
  is_at("cvta.global.u64 %d2, ", 0x7f00'0000'1000, ";");
  is_at("mov.b64 %d3, ", 0x7f00'0000'0ffe, ";");
  is_at("red.global.add.u32 [", 0x7f00'0000'0000, "], 1;");
  EXPECT_THAT(text, HasSubstr("%slice_address<4>;"));
}

TEST(SlicePtxTest, SharedVariablesAndConstantsAreTheNewModulesOwn) {
  const auto sliced = Slice(ModuleOf(
      ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 8 .u32 words[3];\n"
      ".shared .u32 unused;\n.const .align 4 .f32 filter[5] = {0f3F800000};\n.const .u32 other;\n" +
      KernelOf("mov.u32 %r1, dynamic;\n st.shared.u32 [words+4], %r1;\n"
               "ld.const.u32 %r1, [filter+8];")));
  ASSERT_TRUE(sliced.ok()) << sliced.status().message();
  EXPECT_THAT(sliced->text, AllOf(HasSubstr(".extern .shared .align 16 .b8 dynamic[];"),
                                  HasSubstr(".shared .align 8 .b8 words[12];"),
                                  HasSubstr(".const .align 4 .b8 filter[20];")));
  EXPECT_THAT(sliced->text, AllOf(Not(HasSubstr("unused")), Not(HasSubstr("other"))));
  ASSERT_EQ(sliced->constants.size(), 1u);
  EXPECT_EQ(sliced->constants[0].name, "filter");
  EXPECT_EQ(sliced->constants[0].bytes, 20u);
}

TEST(SlicePtxTest, FunctionsThatAreCalledComeAlong) {
  const std::string text = TextOf(ModuleOf(
      ".extern .func (.param .b32 r) vprintf\n(\n.param .b64 a,\n.param .b64 b\n)\n;\n"
      ".global .align 1 .b8 $str[2] = {65, 0};\n"
      ".func second();\n.weak .func first(.param .b32 n) .noreturn // first\n{\n\tcall second;\n"
      "\tret;\n}\n.func second()\n{\n\t.reg .b64 %d<2>;\n\tmov.u64 %d1, $str;\n{\n"
      "\t.param .b32 r;\n\tcall (r), vprintf, (%d1, %d1);\n}\n\tret;\n}\n"
      ".func third()\n{\n\tret;\n}\n" +
      KernelOf("call.uni first, (%r1);")));
  EXPECT_THAT(text, AllOf(HasSubstr(".extern .func (.param .b32 r) vprintf"),
                          HasSubstr(".func first(.param .b32 n) .noreturn // first\n;"),
                          HasSubstr("mov.u64 %slice_address0, 139637976727552;")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("third")), Not(HasSubstr(".weak"))));
  const auto module = ptx::IndexModule(text);
  ASSERT_TRUE(module.ok());
  EXPECT_TRUE(module->FindFunction("first")->defined);
  EXPECT_TRUE(module->FindFunction("second")->defined);
}

TEST(SlicePtxTest, RefusesWhatDependsOnTheGrid) {
  const struct {
    const char* body;
    std::string_view reason;
  } cases[] = {
      {"mov.u32 %r1, %clusterid.x;", reasons::kClusters},
      {"mov.u32 %r1, %nclusterid.z;", reasons::kClusters},
      {"mov.u32 %r1, %cluster_ctaid.x;", reasons::kClusters},
      {"mov.u32 %r1, %cluster_ctarank;", reasons::kClusters},
      {"mov.pred %p1, %is_explicit_cluster;", reasons::kClusters},
      {"barrier.cluster.arrive;", reasons::kClusters},
      {"mapa.shared::cluster.u32 %r1, %r2, 1;", reasons::kClusters},
      {"getctarank.shared::cluster.u32 %r1, %r2;", reasons::kClusters},
      {"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%d1], "
       "[%d2];",
       reasons::kClusters},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
       "[%r1], [%d1], 16, [%r2], %h1;",
       reasons::kClusters},
      {"tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32;", reasons::kClusters},
      {"mov.u32 %r1, %envreg2;", reasons::kGridBarrier},
      {"mov.u64 %d1, %gridid;", reasons::kGridId},
      {"mov.u64 %d1, %globaltimer;", reasons::kGlobalTimer},
      {"@%p1 mov.u32 %r1, %globaltimer_lo;", reasons::kGlobalTimer},
      {"griddepcontrol.wait;", reasons::kDependentLaunch},
      {"mov.u32 %r1, %nothing;", reasons::kPtx},
      {"add.s32 %r1, %r2", reasons::kPtx},
      {"mov.u64 %d1, nothing;", reasons::kPtx},
  };
  for (const auto& test : cases)
    EXPECT_THAT(Refusal(ModuleOf(KernelOf(test.body))),
                AllOf(StartsWith(std::string(test.reason)), HasSubstr("PTX line")))
        << test.body;
  for (const char* attribute : {".explicitcluster", ".reqnctapercluster 2", ".maxclusterrank 8"})
    EXPECT_THAT(Refusal(ModuleOf(KernelOf("", attribute))), HasSubstr(reasons::kClusters))
        << attribute;
}

TEST(SlicePtxTest, AllowsWhatIsTheSameInASlice) {
  for (const char* body :
       {"mov.u32 %r1, %smid;", "mov.u64 %d1, %clock64;", "mov.u32 %r1, %dynamic_smem_size;",
        "barrier.sync 0;", "setmaxnreg.inc.sync.aligned.u32 64;", "fence.acq_rel.cluster;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, "
        "[%r2];"})
    TextOf(ModuleOf(KernelOf(body)));
}

TEST(SlicePtxTest, RefusesCallsThatLeaveTheModule) {
  const std::string declared =
      ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a, .param .b64 b);\n"
      ".extern .func cudaCGSynchronizeGrid();\n.extern .func elsewhere();\n"
      ".func own()\n{\n\tret;\n}\n"
      ".func index(.param .b32 n)\n{\n\t.reg .b32 %r<2>;\n\tmov.u32 %r1, %ctaid.x;\n\tret;\n}\n"
      ".func inner(.param .b32 n)\n{\n\tcall index, (1);\n\tret;\n}\n"
      ".visible .entry kernel()\n{\n\tret;\n}\n.global .u64 table = own;\n";
  const struct {
    const char* body;
    std::string_view reason;
  } cases[] = {
      {"{ .param .b32 r; call (r), cudaLaunchDeviceV2, (%d1, %d2); }", reasons::kDeviceRuntime},
      {"call cudaCGSynchronizeGrid;", reasons::kGridBarrier},
      {"call elsewhere;", reasons::kExternal},
      {"call kernel;", reasons::kIndirect},
      {"mov.u64 %d1, own;", reasons::kIndirect},
      {"mov.u64 %d1, kernel;", reasons::kIndirect},
      {"call inner, (own);", reasons::kIndirect},
      {"P: .callprototype _ ();\n call %d1, P;", reasons::kIndirect},
      {"call index, (1);", reasons::kFunctionIndex},
      {"call inner, (1);", reasons::kFunctionIndex},
  };
  for (const auto& test : cases)
    EXPECT_THAT(Refusal(ModuleOf(declared + KernelOf(test.body))),
                StartsWith(std::string(test.reason)))
        << test.body;
  EXPECT_TRUE(Slice(ModuleOf(declared + KernelOf("call own;"))).ok())
      << "what the kernel does not use does not matter";
}

TEST(SlicePtxTest, RefusesVariablesThatCanNotBeTheOriginals) {
  const std::string declared =
      ".global .u32 a;\n.global .u32 unknown;\n.extern .const .u32 c[];\n"
      ".extern .shared .u32 other;\n.global .align 4 .u32 m[4];\n";
  const struct {
    const char* body;
    std::string_view reason;
  } cases[] = {
      {"ld.global.u32 %r1, [unknown];", reasons::kVariable},
      {"ld.const.u32 %r1, [c];", reasons::kVariable},
      {"ld.shared.u32 %r1, [other];", reasons::kVariable},
      {"cvt.u32.u32 %r1, a;", reasons::kForm},
      {"mov.b64 {%r1, %r2}, {a, a};", reasons::kForm},
      {"mov.u64 %d1, m[0];", reasons::kForm},
      {"{ .reg .u32 a; mov.u32 a, 1; }", reasons::kForm},
      {"{ .reg .u64 unused; .local .u32 a; mov.u64 %d1, a; }", reasons::kForm},
      {"a: bra a;", reasons::kForm},
      {"mov.u64 %d1, m+99999999999999999999;", reasons::kPtx},
  };
  for (const auto& test : cases)
    EXPECT_THAT(Refusal(ModuleOf(declared + KernelOf(test.body))),
                StartsWith(std::string(test.reason)))
        << test.body;
}

TEST(SlicePtxTest, RefusesIndicesInOperandsThatCanNotBeReplaced) {
  for (const char* body : {"mov.u16 %h1, %ctaid.x;", "mov.b64 %d1, {%ctaid.x, %ctaid.y};",
                           "bar.sync %ctaid.x;", "ld.global.u32 %r1, [%ctaid.x];",
                           "mov.u32 %r1, %ctaid.w;", "{ .reg .b32 %ctaid; mov.u32 %ctaid, 1; }"})
    EXPECT_THAT(Refusal(ModuleOf(KernelOf(body))), HasSubstr(reasons::kForm)) << body;
}

TEST(SlicePtxTest, WhatIsNotThereIsNotFound) {
  Lookup lookup;
  const std::string text = ModuleOf(".extern .func f();\n" + KernelOf(""));
  for (const char* name : {"", "f", "kk", "K"})
    EXPECT_EQ(SlicePtx(text, name, lookup.Function()).status().code(), StatusCode::kNotFound)
        << name;
  for (const char* other : {"",
                            "\x7f"
                            "ELF",
                            ".version 9.0", ".version 9.0 .target sm_90 .texref"})
    EXPECT_EQ(SlicePtx(other, "k", lookup.Function()).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(Refusal(ModuleOf(".global .texref t;\n" + KernelOf(""))), HasSubstr(reasons::kPtx));
  EXPECT_THAT(Refusal(ModuleOf(".visible .func f()\n{\n\tret;\n}\n.alias g, f;\n" + KernelOf(""))),
              HasSubstr(reasons::kPtx));
}

// Damaged text gives an error or parsable text. The sanitizers check the rest.
TEST(SlicePtxTest, AnyTextWillDo) {
  const std::string text = ModuleOf(
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
      ".global .align 4 .u32 a[4] = {1, 2};\n.const .u32 c;\n.shared .u32 s;\n"
      ".func f(.param .b32 n)\n{\n\t.reg .b64 %d<2>;\n\tmov.u64 %d1, a+4;\n\tret;\n}\n" +
      KernelOf(".loc 1 2 3\n\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %nctaid.y;\n"
               "L: @%p1 bra L; // back\n\tst.global.u32 [a+-4+8], %r1;\n\t"
               "ld.shared.u32 %r1, [s];\n\tld.const.u32 %r2, [c];\n\tcall f, (%r1);"));
  ASSERT_NE(TextOf(text), "");
  static constexpr std::string_view kPieces[] = {
      "{", "}", "(", ")",        "[", "]", ";",    "\"",   "/*", "//",  "@",
      ".", ":", "+", "%ctaid.x", "a", "k", ".reg", ".loc", "\n", "call"};
  std::mt19937_64 random(FuzzSeed(7));
  std::size_t sliced = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = text;
    for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
      const std::size_t at = random() % damaged.size();
      if (random() % 2 == 0)
        damaged.erase(at, 1 + random() % 8);
      else
        damaged.insert(at, kPieces[random() % std::size(kPieces)]);
    }
    const auto result = Slice(damaged);
    if (result.ok()) {
      ++sliced;
      EXPECT_TRUE(ptx::IndexModule(result->text).ok()) << damaged << "\n=>\n" << result->text;
    } else {
      EXPECT_NE(result.status().message(), "");
    }
  }
  EXPECT_GT(sliced, 0u);
}

}  // namespace
}  // namespace cuspan::slicing
