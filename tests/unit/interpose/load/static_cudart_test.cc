#include "interpose/load/static_cudart.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "interpose/load/patch.h"
#include "tests/unit/interpose/load/small_exports.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

TargetList symbol_targets;

Search Find(const std::string& path, bool is_program = true,
            const ExportTable& exports = kSmallTable) {
  const std::vector<std::uint8_t> file = ReadFile(path);
  ElfImage image;
  EXPECT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable) << path;
  Search search = FindStaticCudart(image, exports, is_program, &symbol_targets);
  return search;
}

class StaticCudart : public testing::TestWithParam<const char*> {};

TEST_P(StaticCudart, IsFound) {
  ASSERT_EQ(Find(std::string(PROGRAMS "/") + GetParam()).finding, Finding::kFound);
  std::set<std::string> names;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < symbol_targets.count; ++i) {
    const Target& target = symbol_targets.targets[i];
    names.insert(kSmallExports[target.export_index].name);
    EXPECT_GT(target.address, last);
    EXPECT_GE(target.limit, target.address + kJumpSize) << kSmallExports[target.export_index].name;
    last = target.address;
  }
  EXPECT_EQ(names.size(), std::size(kSmallExports));
  EXPECT_EQ(symbol_targets.count, std::size(kSmallExports));
}

INSTANTIATE_TEST_SUITE_P(Programs, StaticCudart,
                         testing::Values("vadd_static", "vadd_fixed", "vadd_relro",
                                         "vadd_exporting", "vadd_rdc", "vadd_strip_g",
                                         "libvadd_static.so"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST(StaticCudartSearch, LeavesSharedOnesAlone) {
  EXPECT_EQ(Find(PROGRAMS "/vadd_shared").finding, Finding::kNone);
  EXPECT_EQ(Find(PROGRAMS "/devices_shared_stripped").finding, Finding::kNone);
  EXPECT_EQ(Find(PROGRAMS "/libvadd_shared.so", false).finding, Finding::kNone);
}

TEST(StaticCudartSearch, LeavesProgramsWithoutCudaAlone) {
  EXPECT_EQ(Find("/bin/sh").finding, Finding::kNone);
  EXPECT_EQ(Find("/bin/true").finding, Finding::kNone);
}

TEST(StaticCudartSearch, LeavesLibrariesThatExportARuntimeAlone) {
  EXPECT_EQ(Find(FAKE, false).finding, Finding::kNone);
}

TEST(StaticCudartSearch, SaysWhichStrippedOnesItDoesNotUnderstand) {
  const ExportTable all = RuntimeExports();
  EXPECT_EQ(Find(PROGRAMS "/vadd_stripped_damaged", true, all).finding, Finding::kStripped);
  EXPECT_EQ(Find(PROGRAMS "/libvadd_stripped_damaged.so", false, all).finding, Finding::kStripped);
  // The file does not prove to be a CUDA program.
  EXPECT_EQ(Find(PROGRAMS "/devices_stripped_damaged", true, all).finding, Finding::kNone);
}

TEST(StaticCudartSearch, FindsWhatALibraryExports) {
  const std::vector<std::uint8_t> file = ReadFile(REAL_CUDART);
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  EXPECT_STREQ(image.SharedName(), "libcudart.so.13");
  ASSERT_EQ(FindExported(image, RuntimeExports(), &symbol_targets).finding, Finding::kFound);
  const SymbolTable symbols = image.Symbols(SHT_DYNSYM);
  std::size_t exported = 0;
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    exported += symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  }
  EXPECT_EQ(symbol_targets.count, exported);
  for (std::size_t i = 0; i < symbol_targets.count; ++i) {
    const Target& target = symbol_targets.targets[i];
    EXPECT_TRUE(symbols.Defines(RuntimeExports().entries[target.export_index].name));
    EXPECT_GE(target.limit, target.address + kJumpSize);
  }
  const std::vector<std::uint8_t> other = ReadFile(PROGRAMS "/libvadd_shared.so");
  ASSERT_EQ(image.Parse(View(other)), ElfImage::Verdict::kUsable);
  EXPECT_STREQ(image.SharedName(), "");
  EXPECT_EQ(FindExported(image, RuntimeExports(), &symbol_targets).finding, Finding::kNone);
}

TEST(StaticCudartSearch, RefusesTwoFunctionsInOneBody) {
  EXPECT_EQ(Find(SHARED_BODY).finding, Finding::kUnusable);
}

}  // namespace
}  // namespace cuspan::load
