#include "protocol/fatbin/callers.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include <random>
#include <vector>

#include "protocol/fatbin/payload.h"
#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

constexpr std::string_view kPrint = "vprintf";

Callers CallersIn(std::span<const std::uint8_t> image) {
  return FindCallers(std::as_bytes(image), kPrint);
}
Callers CallersInText(std::string_view text) {
  return FindCallers(std::as_bytes(std::span(text)), kPrint);
}

TEST(CallersTest, ThereAreNoneWithoutTheFunction) {
  for (const char* sample : {"default", "size", "speed", "none", "debug", "many"}) {
    SCOPED_TRACE(sample);
    const Callers found = CallersIn(ReadSample(sample));
    EXPECT_FALSE(found.all);
    EXPECT_TRUE(found.kernels.empty());
  }
}

TEST(CallersTest, AreKnownByMachineCodeAndPtx) {
  const Callers found = CallersIn(ReadSample("prints"));
  EXPECT_TRUE(found.Include("Direct"));
  EXPECT_FALSE(found.Include("Silent"));
}

TEST(CallersTest, IncludeCallersThroughFunctionsAndPointers) {
  for (const char* sample : {"prints_code", "prints_debug", "prints_old", "prints_new"}) {
    SCOPED_TRACE(sample);
    const auto container = ReadSample(sample);
    const auto code = DecodePayload(Find(*ReadContainer(container), Kind::kElf));
    ASSERT_TRUE(code.ok());
    const Callers found = CallersIn(*code);
    for (const char* kernel : {"Direct", "Through", "ThroughPointer"})
      EXPECT_TRUE(found.Include(kernel)) << kernel;
    if (std::string_view(sample) != "prints_debug") {
      EXPECT_FALSE(found.Include("Silent"));
    }
  }
}

// Its callers are not known, so all kernels count.
TEST(CallersTest, AreAllIfAFunctionOfPtxCallsIt) {
  EXPECT_TRUE(CallersIn(ReadSample("prints_ptx")).all);
}

// The launched kernels may call it.
TEST(CallersTest, AreAllIfKernelsLaunchOthers) {
  EXPECT_TRUE(CallersIn(ReadSample("prints_launch")).all);
}

TEST(CallersTest, OfPtxAreTheKernelsWithTheName) {
  const Callers found = CallersInText(
      ".extern .func  (.param .b32 r) vprintf\n(\n.param .b64 a\n)\n;\n"
      ".visible .entry one(\n.param .u64 p\n)\n{\ncall.uni (r),\nvprintf,\n(p);\n}\n"
      ".visible .entry two()\n{\nret;\n}\n.entry three ()\n{ call vprintf, (p); }");
  EXPECT_FALSE(found.all);
  EXPECT_EQ(found.kernels, (std::set<std::string, std::less<>>{"one", "three"}));
  EXPECT_TRUE(CallersInText(".func f()\n{ call vprintf; }\n.entry k() { }").all);
  EXPECT_TRUE(CallersInText("vprintf").all);
  EXPECT_TRUE(CallersInText(".entry vprintf").all);
}

TEST(CallersTest, AreAllInCodeNotSearched) {
  EXPECT_TRUE(CallersIn(ReadSample("lto")).all);
  const std::vector<std::uint8_t> large(kMaxSearchedBytes + 1, '.');
  EXPECT_TRUE(CallersIn(large).all);
  EXPECT_FALSE(CallersIn(std::span(large).first(kMaxSearchedBytes)).all);
}

// Searching these would take too long, or too much stack because of their nesting.
TEST(CallersTest, AreAllBeyondTheLimitsOfSizeAndNesting) {
  const auto sample = ReadSample("none");
  const std::span<const std::byte> whole = std::as_bytes(std::span(sample));
  std::vector<std::byte> deep(whole.begin(), whole.end());
  for (int i = 0; i < 3; ++i) {
    const std::span<const std::byte> objects[] = {deep};
    deep = WithObjects(whole, objects);
  }
  EXPECT_TRUE(FindCallers(deep, kPrint).all);
  const std::vector<std::span<const std::byte>> many(2 * kMaxSearchedBytes / sample.size(), whole);
  EXPECT_TRUE(FindCallers(WithObjects(whole, many), kPrint).all);
}

TEST(CallersTest, AreFoundInObjects) {
  const auto linked = ReadSample("none");
  const auto quiet = ReadSample("size");
  const auto printing = ReadSample("prints");
  const auto lto = ReadSample("lto");
  const auto with = [&](std::span<const std::uint8_t> object) {
    const std::span<const std::byte> objects[] = {std::as_bytes(object)};
    return FindCallers(WithObjects(std::as_bytes(std::span(linked)), objects), kPrint);
  };
  EXPECT_TRUE(with(quiet).kernels.empty());
  EXPECT_FALSE(with(quiet).all);
  EXPECT_TRUE(with(printing).Include("Direct"));
  EXPECT_FALSE(with(printing).Include("Silent"));
  EXPECT_TRUE(with(lto).all);
}

// Each takes one pass over the text.
TEST(CallersTest, ManyCallsTakeNoLongerThanTheirText) {
  std::string text = ".extern .func vprintf;\n.entry k() {";
  while (text.size() < kMaxSearchedBytes / 2) text += "vprintf ";
  EXPECT_EQ(CallersInText(text + "}").kernels, (std::set<std::string, std::less<>>{"k"}));
  text = ".extern .func vprintf;\n";
  while (text.size() < kMaxSearchedBytes / 2) text += ".entry k() { vprintf } ";
  EXPECT_EQ(CallersInText(text).kernels.size(), 1U);
}

// Sections and names of a damaged image may overlap.
TEST(CallersTest, OverlappingSectionsAreNotAllRead) {
  constexpr std::uint16_t kSections = 60'000;
  constexpr std::uint64_t kAttributes = 16 << 20;
  std::string names("\0.nv.info.x\0vprintf\0", 20);
  const std::uint64_t names_at = sizeof(Elf64_Ehdr) + kSections * sizeof(Elf64_Shdr);
  const std::uint64_t symbols_at = names_at + names.size();
  const std::uint64_t attributes_at = symbols_at + 2 * sizeof(Elf64_Sym);
  std::vector<std::uint8_t> image(attributes_at + kAttributes, 1);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  std::memcpy(image.data(), &header, sizeof header);
  for (std::uint64_t i = 0; i < kSections; ++i) {
    Elf64_Shdr section{};
    section.sh_name = 1;
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = attributes_at;
    section.sh_size = kAttributes;
    if (i == 0) {
      section = {};
      section.sh_type = SHT_STRTAB;
      section.sh_offset = names_at;
      section.sh_size = names.size();
    } else if (i == 1) {
      section = {};
      section.sh_type = SHT_SYMTAB;
      section.sh_offset = symbols_at;
      section.sh_size = 2 * sizeof(Elf64_Sym);
    }
    std::memcpy(image.data() + sizeof header + i * sizeof section, &section, sizeof section);
  }
  std::memcpy(image.data() + names_at, names.data(), names.size());
  const Elf64_Sym symbols[2] = {
      {}, {.st_name = 12, .st_info = 0, .st_other = 0, .st_shndx = 0, .st_value = 0, .st_size = 0}};
  std::memcpy(image.data() + symbols_at, symbols, sizeof symbols);
  EXPECT_TRUE(CallersIn(image).all);
}

// Damage may hide callers, but nothing outside the image is read.
TEST(CallersTest, DamagedMachineCodeIsReadWithinItsBounds) {
  const auto container = ReadSample("prints_code");
  const auto code = DecodePayload(Find(*ReadContainer(container), Kind::kElf));
  ASSERT_TRUE(code.ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::uint8_t> damaged = *code;
    for (int k = 0; k < 4; ++k)
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    if (i % 4 == 0) damaged.resize(random() % damaged.size());
    CallersIn(damaged);
  }
}

}  // namespace
}  // namespace cuspan::fatbin
