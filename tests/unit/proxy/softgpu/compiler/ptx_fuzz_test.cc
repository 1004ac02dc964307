// Runs the PTX indexer, parser and compiler on PTX of nvcc with random damage. There must be no
// crash, no endless work and no read outside the text (checked by the sanitizer presets). Each
// result is a value or an error with a message.
//
//   CUSPAN_FUZZ_SEED    another seed of the damage (fuzz_seed.h)
//   CUSPAN_FUZZ_ROUNDS  rounds per text (default: short)
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/softgpu/jit/program.h"
#include "tests/unit/fuzz_seed.h"

namespace cuspan::softgpu {
namespace {

struct Text {
  std::string name;
  std::string ptx;
};

std::vector<Text> Texts() {
  std::vector<Text> texts;
  for (const auto& entry : std::filesystem::directory_iterator(CUSPAN_TEST_PTX_FOLDER)) {
    if (entry.path().extension() != ".ptx") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    texts.push_back({entry.path().filename().string(),
                     {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  return texts;
}

// Damages text in places relevant to a parser.
class Damager {
 public:
  explicit Damager(std::uint64_t seed) : random_(seed) {}

  std::string Damage(std::string text) {
    for (std::uint64_t left = Below(6) + 1; left > 0 && !text.empty(); --left) Once(text);
    return text;
  }
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }

 private:
  // A position in the text, often near the last one: damage accumulates.
  std::size_t Place(const std::string& text) {
    if (Below(3) == 0 && last_ < text.size()) return last_ + Below(text.size() - last_) / 16;
    return last_ = Below(text.size());
  }
  // Begin and end of the word, number or sign at `place`.
  static std::pair<std::size_t, std::size_t> WordAt(const std::string& text, std::size_t place) {
    const auto in_word = [&](std::size_t i) {
      const char c = text[i];
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
    };
    std::size_t begin = place;
    std::size_t end = place;
    while (begin > 0 && in_word(begin - 1)) --begin;
    while (end < text.size() && in_word(end)) ++end;
    if (end == begin) ++end;
    return {begin, std::min(end, text.size())};
  }
  static std::pair<std::size_t, std::size_t> LineAt(const std::string& text, std::size_t place) {
    const std::size_t before = text.rfind('\n', place);
    const std::size_t begin = before == std::string::npos ? 0 : before;
    const std::size_t after = text.find('\n', place + 1);
    return {begin, after == std::string::npos ? text.size() : after};
  }

  void Once(std::string& text) {
    static constexpr std::string_view kWords[] = {"{",
                                                  "}",
                                                  "(",
                                                  ")",
                                                  "[",
                                                  "]",
                                                  ";",
                                                  ",",
                                                  "<",
                                                  ">",
                                                  "\"",
                                                  "/*",
                                                  "//",
                                                  "@",
                                                  "!",
                                                  "|",
                                                  ".reg",
                                                  ".b32",
                                                  ".u64",
                                                  ".f16x2",
                                                  ".v4",
                                                  ".pred",
                                                  ".param",
                                                  ".shared",
                                                  ".entry",
                                                  ".func",
                                                  ".extern",
                                                  ".align 3",
                                                  "-1",
                                                  "0",
                                                  "4294967296",
                                                  "0x",
                                                  "0f7F8",
                                                  "1e999",
                                                  "%r1",
                                                  "%rd1",
                                                  "%p1",
                                                  "%tid.x",
                                                  "$L__BB0_1",
                                                  "_",
                                                  "call",
                                                  "bra",
                                                  "brx.idx",
                                                  "bar.sync",
                                                  "ld.global",
                                                  "st.v4.f32",
                                                  "atom",
                                                  "wmma",
                                                  "mma.sync",
                                                  "tex.2d",
                                                  "ret",
                                                  "exit",
                                                  "18446744073709551615",
                                                  ".local .b8 x[9999999999]",
                                                  ".branchtargets",
                                                  ".callprototype",
                                                  ".pragma \"",
                                                  ".section",
                                                  ".loc 1 2 3",
                                                  ".maxntid 0"};
    const std::size_t place = Place(text);
    const auto [begin, end] = Below(2) == 0 ? WordAt(text, place) : LineAt(text, place);
    switch (Below(9)) {
      case 0:
        text[place] = static_cast<char>(Below(256));
        break;
      case 1:
        text[place] ^= static_cast<char>(1 << Below(8));
        break;
      case 2:
        text.erase(begin, end - begin);
        break;
      case 3:
        text.insert(begin, text.substr(begin, end - begin));
        break;
      case 4:
        text.replace(begin, end - begin, kWords[Below(std::size(kWords))]);
        break;
      case 5:
        text.insert(place, kWords[Below(std::size(kWords))]);
        break;
      case 6: {  // Text from elsewhere.
        const auto other =
            Below(2) == 0 ? WordAt(text, Below(text.size())) : LineAt(text, Below(text.size()));
        text.replace(begin, end - begin, text.substr(other.first, other.second - other.first));
        break;
      }
      case 7:
        text.insert(place, Below(100) == 0 ? 100'000 : Below(40), "{([,; .x\n"[Below(9)]);
        break;
      default:
        if (Below(8) == 0) text.resize(place);
        break;
    }
  }

  std::mt19937_64 random_;
  std::size_t last_ = 0;
};

// Makes all calls possible with the text. Compiling is slow, so it is optional.
void Use(const std::string& text, bool compile) {
  auto program = Program::Load(text, ProgramOptions{});
  if (!program.ok()) {
    EXPECT_FALSE(program.status().message().empty());
    return;
  }
  static std::uint64_t memory[64];
  for (const auto& variable : (*program)->variables()) (*program)->Bind(variable.name, memory);
  for (const auto& name : (*program)->kernel_names()) {
    const auto kernel = (*program)->Kernel(name);
    if (!kernel.ok()) {
      EXPECT_FALSE(kernel.status().message().empty());
      continue;
    }
    if (!compile) continue;
    const auto compiled = (*program)->Compile(name, {64, 1, 1});
    if (!compiled.ok()) {
      EXPECT_FALSE(compiled.status().message().empty());
    }
  }
}

// Text before the first kernel, and one kernel.
std::string OneKernel(const std::string& text, std::uint64_t which) {
  std::vector<std::size_t> begins;
  for (std::size_t at = text.find(".visible .entry"); at != std::string::npos;
       at = text.find(".visible .entry", at + 1))
    begins.push_back(at);
  if (begins.empty()) return text;
  const std::size_t index = which % begins.size();
  const std::size_t end = index + 1 < begins.size() ? begins[index + 1] : text.size();
  return text.substr(0, begins[0]) + text.substr(begins[index], end - begins[index]);
}

TEST(PtxFuzz, DamagedModulesAreIndexedAndParsed) {
  const std::uint64_t rounds = FuzzNumber("CUSPAN_FUZZ_ROUNDS", 40);
  Damager damager(FuzzSeed(1));
  for (const Text& text : Texts())
    for (std::uint64_t round = 0; round < rounds; ++round) {
      SCOPED_TRACE(text.name + ", round " + std::to_string(round));
      Use(damager.Damage(text.ptx), false);
    }
}

TEST(PtxFuzz, DamagedKernelsAreCompiled) {
  const std::uint64_t rounds = FuzzNumber("CUSPAN_FUZZ_ROUNDS", 40);
  Damager damager(FuzzSeed(1001));
  for (const Text& text : Texts())
    for (std::uint64_t round = 0; round < rounds; ++round) {
      SCOPED_TRACE(text.name + ", round " + std::to_string(round));
      const std::string kernel = OneKernel(text.ptx, damager.Below(1000));
      if (kernel.size() > 20'000) continue;
      Use(damager.Damage(kernel), true);
    }
}

TEST(PtxFuzz, AnyBytesAreRefused) {
  std::mt19937_64 random(FuzzSeed(1));
  for (int round = 0; round < 500; ++round) {
    std::string text = round % 2 == 0 ? "" : ".version 8.0\n.target sm_80\n";
    for (std::uint64_t left = random() % 400; left > 0; --left)
      text += static_cast<char>(random() % 3 == 0 ? random()
                                                  : ".{}()[];,@%$ \n\"/*rbu0123"[random() % 26]);
    Use(text, true);
  }
}

}  // namespace
}  // namespace cuspan::softgpu
