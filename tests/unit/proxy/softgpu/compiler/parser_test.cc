// Invalid or unsupported PTX is refused with its line number, without a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "proxy/ptx/lexer.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<ptx::Token> Tokens(std::string_view text) {
  std::vector<ptx::Token> tokens;
  for (ptx::Lexer lexer(text); !lexer.AtEnd();) tokens.push_back(lexer.Consume());
  return tokens;
}

TEST(Lexer, ReadsEveryKindOfToken) {
  const auto tokens = Tokens(
      "ld.global.L2::128B.f32 %f1, [$x+-4]; // c\n/* d */ \"s\\\"t\" 0x1fU 017 0b11 0f3F800000 "
      "0d3FF0000000000000 2.5 1e3");
  const char* const texts[] = {"ld", "global", "L2::128B", "f32", "%f1", ",", "[",
                               "$x", "+",      "-",        "4",   "]",   ";"};
  for (std::size_t i = 0; i < std::size(texts); ++i) EXPECT_EQ(tokens[i].text, texts[i]);
  EXPECT_EQ(tokens[1].kind, ptx::Token::Kind::kDirective);
  EXPECT_EQ(tokens[13].kind, ptx::Token::Kind::kString);
  EXPECT_EQ(tokens[14].bits, 0x1fU);
  EXPECT_EQ(tokens[15].bits, 15U);
  EXPECT_EQ(tokens[16].bits, 3U);
  EXPECT_EQ(tokens[17].bits, 0x3f800000U);
  EXPECT_EQ(tokens[18].bits, 0x3ff0000000000000U);
  EXPECT_EQ(AsDouble(tokens[19].bits), 2.5);
  EXPECT_EQ(AsDouble(tokens[20].bits), 1000);
  EXPECT_EQ(tokens.size(), 21U);
}

TEST(Lexer, MarksWhatItCanNotRead) {
  for (const char* bad : {"99999999999999999999999", "0f12", "0x", "\"open", "`", "\\", "1.2.3",
                          "0f3F80000G", "\x80"})
    EXPECT_EQ(Tokens(bad).at(0).kind, ptx::Token::Kind::kBad) << bad;
  EXPECT_TRUE(Tokens("/* never closed").empty());
  EXPECT_TRUE(Tokens("// no newline").empty());
}

Status LoadStatus(std::string text) { return Program::Load(std::move(text)).status(); }

TEST(Module, RefusesWhatIsNotPtx) {
  for (const char* text :
       {"", "hello",
        "\x7f"
        "ELF",
        ".target sm_80", ".version", ".version x", ".version 9", ".version 9.0",
        ".version 9.0 .target", ".version 9.0 .target foo", ".version 9.0 .target sm_x"}) {
    EXPECT_EQ(LoadStatus(text).code(), StatusCode::kInvalid) << text;
    EXPECT_THAT(LoadStatus(text).message(), HasSubstr("PTX line")) << text;
  }
  EXPECT_EQ(LoadStatus(".version 9.0 .target sm_80 .address_size 32").code(),
            StatusCode::kUnsupported);
}

TEST(Module, NamesTheLineOfBadDeclarations) {
  const struct {
    const char* text;
    StatusCode code;
    const char* part;
  } cases[] = {
      {".global .u32", StatusCode::kInvalid, "name of a variable"},
      {".global u32 x;", StatusCode::kInvalid, "type"},
      {".global .align 3 .u32 x;", StatusCode::kInvalid, "power of two"},
      {".global .u32 x[99999999999999];", StatusCode::kInvalid, "length"},
      {".global .u64 x[1000000000000][1000000000];", StatusCode::kInvalid,
       "larger than any memory"},
      {".global .u8 x[2][999999999999] = {{1},{2}};", StatusCode::kInvalid, "larger"},
      {".global .u8 x[2][99999999999] = {{1},{2}};", StatusCode::kUnsupported, "initial values"},
      {".global .u32 x[2] = {1, 2, 3};", StatusCode::kInvalid, "too many values"},
      {".global .u32 x = {{{{1}}}};", StatusCode::kInvalid, "nested"},
      {".global .u32 x = y;", StatusCode::kUnsupported, "address"},
      {".global .u64 x = y;", StatusCode::kInvalid, "not declared"},
      {".global .u32 x; .global .u32 x;", StatusCode::kInvalid, "declared twice"},
      {".global .texref t;", StatusCode::kUnsupported, "texref"},
      {".shared .u32 s = 1;", StatusCode::kInvalid, "initial value"},
      {".entry k(", StatusCode::kInvalid, "parameter list"},
      {".entry k() {", StatusCode::kInvalid, "closing brace"},
      {".entry k(.param .align 8 .b8 p[99999]) {}", StatusCode::kInvalid, "larger than"},
      {".entry k(.reg .u32 p) {}", StatusCode::kInvalid, "register"},
      {".entry k() {} .entry k() {}", StatusCode::kInvalid, "defined twice"},
      {".entry k() .maxntid 0 {}", StatusCode::kInvalid, "extent"},
      {".nonsense", StatusCode::kUnsupported, "nonsense"},
      {".section .debug_x {", StatusCode::kInvalid, "brace"},
  };
  for (const auto& test : cases) {
    const Status status = LoadStatus(Module(std::string("\n\n") + test.text));
    EXPECT_EQ(status.code(), test.code) << test.text << ": " << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("PTX line 6"), HasSubstr(test.part)))
        << test.text;
  }
}

Status KernelStatus(const std::string& body) {
  CUSPAN_ASSIGN_OR_RETURN(
      auto program,
      Program::Load(Module(".visible .entry k(.param .u32 p) {\n.reg .pred %p<4>; .reg .b16 %h<4>; "
                           ".reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>;\n" +
                           body + "\n}")));
  return program->Compile("k").status();
}

TEST(Body, NamesTheLineOfBadStatements) {
  const struct {
    const char* text;
    StatusCode code;
    const char* part;
  } cases[] = {
      {"add.s32 %r1, %r2 ret;", StatusCode::kInvalid, "';'"},
      {"add.s32 %r1, %r2, %r9;", StatusCode::kInvalid, "%r9"},
      {"mov.u32 %r1, %envreg31;", StatusCode::kUnsupported, "%envreg31"},
      {"vmad.s32.u32.u32 %r1, -%r2, %r3, %r1;", StatusCode::kUnsupported, "computed"},
      {"mov.u32 %r1, 1<<4;", StatusCode::kUnsupported, "constant expression"},
      {"ld.global.u32 %r1, [%d1+4*8];", StatusCode::kUnsupported, "constant expression"},
      {"add.s32 %r1, %r2;", StatusCode::kInvalid, "operands"},
      {"add.s64 %d1, %d2, %r1;", StatusCode::kInvalid, "%r1"},
      {"add.s32 %p1, %r2, %r3;", StatusCode::kInvalid, "%p1"},
      {"add.s64 %r1, %d2, %d3;", StatusCode::kInvalid, "%r1"},
      {"add.s32 5, %r2, %r3;", StatusCode::kInvalid, "destination"},
      {"add %r1, %r2, %r3;", StatusCode::kUnsupported, "no type"},
      {"add.pred %p1, %p2, %p3;", StatusCode::kUnsupported, "type"},
      {"add.f32 %f1, %f2, 1;", StatusCode::kInvalid, "integer constant"},
      {"frobnicate.b32 %r1;", StatusCode::kUnsupported, "frobnicate.b32"},
      {"add.wild.s32 %r1, %r2, %r3;", StatusCode::kUnsupported, ".wild"},
      {"mov.u32 %r1, %r2[0];", StatusCode::kInvalid, "not a variable"},
      {"mov.u32 %r1, outside[1];", StatusCode::kUnsupported, "element 1 of 'outside'"},
      {"mov.u32 %r1, outside[x];", StatusCode::kInvalid, "index"},
      {"bra NOWHERE;", StatusCode::kInvalid, "NOWHERE"},
      {"bra %r1;", StatusCode::kInvalid, "label"},
      {"brx.idx %r1, T;", StatusCode::kInvalid, "'T'"},
      {"X: X:", StatusCode::kInvalid, "twice"},
      {"@%r1 ret;", StatusCode::kInvalid, "predicate"},
      {"{", StatusCode::kInvalid, "closing brace"},
      {"{ { ret; }", StatusCode::kInvalid, "closing brace"},
      {".reg .b32 %r<4000000000>; .reg .b32 x<4>; .reg .b32 y; .reg .b32 y;", StatusCode::kInvalid,
       "twice"},
      {".local .b8 big[600000];", StatusCode::kInvalid, "600000"},
      {".shared .b8 big[600000]; mov.u32 %r1, big;", StatusCode::kInvalid, "shared memory"},
      {"ld.global.u32 %r1, %r2;", StatusCode::kInvalid, "brackets"},
      {"ld.global.u32 %r1, [%r2];", StatusCode::kInvalid, "64"},
      {"ld.param.u64 %d1, [p];", StatusCode::kInvalid, "outside"},
      {"ld.param.u32 %r1, [p+4];", StatusCode::kInvalid, "outside"},
      {"ld.global.v2.u32 %r1, [%d1];", StatusCode::kInvalid, "braces"},
      {"ld.global.v2.u32 {%r1, %r2, %r3}, [%d1];", StatusCode::kInvalid, "braces"},
      {"mov.u32 %r1, unknown;", StatusCode::kInvalid, "unknown"},
      {"mov.b64 {%r1, %r2, %r3}, %d1;", StatusCode::kInvalid, "parts"},
      {"call nobody;", StatusCode::kInvalid, "nobody"},
      {"call k, (%r1);", StatusCode::kInvalid, "kernel"},
      {"lop3.b32 %r1, %r2, %r3, %r1, %r2;", StatusCode::kInvalid, "table"},
      {"tcgen05.wait::ld.sync.aligned;", StatusCode::kUnsupported, "tcgen05"},
      {"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d1, %f1];", StatusCode::kInvalid, "tex.2d"},
      {"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f2};",
       StatusCode::kInvalid, "wmma"},
      {"setp.s32 %p1, %r1, %r2;", StatusCode::kInvalid, "comparison"},
      {"setp.eq.and.s32 %p1, %r1, %r2;", StatusCode::kInvalid, "fourth"},
      {"mul.s32 %r1, %r2, %r3;", StatusCode::kInvalid, ".lo"},
      {"((((((((", StatusCode::kInvalid, ""},
      {"mov.u32 %r1, ((((((%r2))))));", StatusCode::kInvalid, "nested"},
  };
  for (const auto& test : cases) {
    const Status status = KernelStatus(test.text);
    EXPECT_EQ(status.code(), test.code) << test.text << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(test.part)) << test.text;
    if (std::string_view(test.part) != "closing brace" &&
        std::string_view(test.part) != "shared memory") {
      EXPECT_THAT(status.message(), testing::ContainsRegex("line 6|'nobody'|the kernel 'k'"))
          << test.text;
    }
  }
}

TEST(Body, UnsupportedInstructionsAreNamedWithKernelAndLine) {
  EXPECT_EQ(
      KernelStatus("\n\nwgmma.fence.sync.aligned;").message(),
      "kernel 'k', PTX line 8: 'wgmma.fence.sync.aligned': this instruction is not implemented");
}

TEST(Body, AGoodKernelIsFoundAmongBadOnes) {
  auto program = Program::Load(
      Module(".entry bad() { nonsense; } .entry good() { ret; } .entry worse() { add.s32 x; }"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE((*program)->Compile("good").ok());
  EXPECT_FALSE((*program)->Compile("bad").ok());
  EXPECT_FALSE((*program)->Compile("worse").ok());
}

TEST(Body, AKernelOfClustersDoesNotHinderOthers) {
  auto program = Program::Load(Module(
      ".entry bad() .explicitcluster .reqnctapercluster 16, 1, 1 { ret; } .entry good() { ret; }"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE((*program)->Compile("good").ok());
  const Status refused = (*program)->Compile("bad").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("clusters of blocks ('.explicitcluster')"));
}

// The directive limits the cluster size of launches. A launch without clusters is within the limit.
TEST(Body, AKernelWithALimitOfClustersRuns) {
  auto program = Program::Load(
      Module(".entry good() .maxntid 128 .minnctapersm 2 .maxclusterrank 4 { ret; }"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE((*program)->Compile("good").ok());
}

// --- Random damage: every outcome must be a status

std::string NvccText() {
  std::ifstream file(std::string(CUSPAN_TEST_PTX_FOLDER) + "/kernels_sm_80.ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void ParseEverything(std::string text) {
  auto program = Program::Load(std::move(text));
  if (!program.ok()) {
    EXPECT_FALSE(program.status().message().empty());
    return;
  }
  for (const auto& name : (*program)->kernel_names()) {
    const auto info = (*program)->Kernel(name);
    EXPECT_TRUE(info.ok() || !info.status().message().empty());
  }
}

TEST(Damage, TruncatedModules) {
  const std::string text = NvccText();
  ASSERT_GT(text.size(), 10000U);
  for (std::size_t size = 0; size < text.size(); size += 1 + size / 50)
    ParseEverything(text.substr(0, size));
}

TEST(Damage, ChangedBytes) {
  const std::string text = NvccText();
  std::mt19937 random(17);
  constexpr char kLikely[] = "{}[]();,.%@!\"/*0123456789abcdefxX \n\0\xff<>|:-+";
  for (int round = 0; round < 60; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 20; ++i)
      damaged[random() % damaged.size()] = kLikely[random() % (sizeof kLikely - 1)];
    ParseEverything(std::move(damaged));
  }
}

// Compiles instructions randomly combined from real parts.
TEST(Damage, RandomInstructionsCompileOrAreRefused) {
  const char* const opcodes[] = {
      "add",  "sub",  "mul",      "mad",   "fma",        "div",       "rem",       "abs",    "neg",
      "min",  "max",  "and",      "or",    "xor",        "not",       "shl",       "shr",    "shf",
      "popc", "clz",  "bfind",    "brev",  "bfe",        "bfi",       "bmsk",      "lop3",   "prmt",
      "addc", "subc", "madc",     "mul24", "sad",        "dp4a",      "vabsdiff4", "sin",    "ex2",
      "rcp",  "sqrt", "copysign", "testp", "setp",       "set",       "selp",      "slct",   "cvt",
      "ld",   "st",   "mov",      "cvta",  "isspacep",   "atom",      "red",       "membar", "bar",
      "shfl", "vote", "match",    "redux", "activemask", "nanosleep", "bra",       "ret",    "call",
      "cp",   "szext"};
  const char* const modifiers[] = {
      "s32",     "u32",      "b32",     "f32",     "s64",    "u64",    "b64",  "f64",  "b16",
      "u16",     "f16",      "bf16",    "f16x2",   "bf16x2", "pred",   "u8",   "s8",   "b8",
      "b128",    "lo",       "hi",      "wide",    "cc",     "rn",     "rz",   "rm",   "ftz",
      "sat",     "approx",   "eq",      "lt",      "gtu",    "nan",    "and",  "or",   "global",
      "shared",  "local",    "param",   "to",      "add",    "cas",    "exch", "inc",  "min",
      "v2",      "v4",       "sync",    "idx",     "any",    "ballot", "l",    "r",    "wrap",
      "clamp",   "volatile", "relaxed", "acquire", "gpu",    "rni",    "rzi",  "relu", "NaN",
      "xorsign", "abs",      "tf32"};
  const char* const operands[] = {"%r1",
                                  "%r2",
                                  "%d1",
                                  "%d2",
                                  "%f1",
                                  "%h1",
                                  "%h2",
                                  "%p1",
                                  "%p2|%p1",
                                  "%r1|%p1",
                                  "_",
                                  "0",
                                  "1",
                                  "-1",
                                  "255",
                                  "0f3F800000",
                                  "0d3FF0000000000000",
                                  "[%d1]",
                                  "[%r1+4]",
                                  "[p]",
                                  "[%d1+-8]",
                                  "{%r1, %r2}",
                                  "{%h1, %h2}",
                                  "{%d1, %d2}",
                                  "%tid.x",
                                  "%clock64",
                                  "!%p1",
                                  "k",
                                  "p",
                                  "(%r1)",
                                  "31",
                                  "0x7fffffffffffffff"};
  std::mt19937 random(23);
  int compiled = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = opcodes[random() % std::size(opcodes)];
    for (unsigned i = random() % 5; i > 0; --i)
      text += std::string(".") + modifiers[random() % std::size(modifiers)];
    const unsigned count = random() % 6;
    for (unsigned i = 0; i < count; ++i)
      text += std::string(i == 0 ? " " : ", ") + operands[random() % std::size(operands)];
    const Status status = KernelStatus(text + ";");
    compiled += status.ok() ? 1 : 0;
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalid ||
                status.code() == StatusCode::kUnsupported)
        << text << ": " << status.message();
  }
  EXPECT_GT(compiled, 0);
}

}  // namespace
}  // namespace cuspan::softgpu
