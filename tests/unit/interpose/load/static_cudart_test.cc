#include "interpose/load/static_cudart.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interpose/load/patch.h"
#include "tests/unit/interpose/load/small_exports.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

TargetList targets;

// `releases` is of tables made for the small table of exports, see CMakeLists.txt.
Search Find(const std::string& path, bool is_program = true,
            const ReleaseTable& releases = KnownReleases()) {
  const std::vector<std::uint8_t> file = ReadFile(path);
  ElfImage image;
  EXPECT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable) << path;
  Search search = FindStaticCudart(image, kSmallTable, releases, is_program, &targets);
  return search;
}

class StaticCudart : public testing::TestWithParam<const char*> {};

TEST_P(StaticCudart, IsFound) {
  ASSERT_EQ(Find(std::string(PROGRAMS "/") + GetParam()).finding, Finding::kFound);
  std::set<std::string> names;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < targets.count; ++i) {
    const Target& target = targets.targets[i];
    names.insert(kSmallExports[target.export_index].name);
    EXPECT_GT(target.address, last);
    EXPECT_GE(target.limit, target.address + kJumpSize) << kSmallExports[target.export_index].name;
    last = target.address;
  }
  EXPECT_EQ(names.size(), std::size(kSmallExports));
  EXPECT_EQ(targets.count, std::size(kSmallExports));
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
  EXPECT_EQ(Find("/proc/self/exe").finding, Finding::kNone);
  EXPECT_EQ(Find("/bin/true").finding, Finding::kNone);
}

TEST(StaticCudartSearch, LeavesLibrariesThatExportARuntimeAlone) {
  EXPECT_EQ(Find(FAKE, false).finding, Finding::kNone);
}

TEST(StaticCudartSearch, KnowsStrippedOnes) {
  const ReleaseTable none = {nullptr, 0};
  EXPECT_EQ(Find(PROGRAMS "/vadd_stripped", true, none).finding, Finding::kStripped);
  EXPECT_EQ(Find(PROGRAMS "/libvadd_stripped.so", false, none).finding, Finding::kStripped);
  EXPECT_EQ(Find(PROGRAMS "/devices_stripped", true, none).finding, Finding::kStripped);
  // Nothing tells for certain that it is a program for CUDA.
  EXPECT_EQ(Find(PROGRAMS "/devices_not_by_nvcc_stripped", true, none).finding, Finding::kNone);
}

std::vector<Target> Found(const std::string& path) {
  EXPECT_EQ(Find(path).finding, Finding::kFound) << path;
  return {targets.targets, targets.targets + targets.count};
}

TEST(StaticCudartSearch, FindsInStrippedOnesWhatTheSymbolsTell) {
  const std::pair<const char*, const char*> pairs[] = {
      {"vadd_static", "vadd_stripped"},
      {"libvadd_static.so", "libvadd_stripped.so"},
      {"devices_static", "devices_stripped"},
      {"devices_not_by_nvcc", "devices_not_by_nvcc_stripped"}};
  for (const auto& [with_symbols, stripped] : pairs) {
    const std::vector<Target> expected = Found(std::string(PROGRAMS "/") + with_symbols);
    const std::vector<Target> found = Found(std::string(PROGRAMS "/") + stripped);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].address, expected[i].address);
      EXPECT_EQ(found[i].size, expected[i].size);
      EXPECT_LE(found[i].limit, expected[i].limit);
      EXPECT_GE(found[i].limit, found[i].address + kJumpSize);
      EXPECT_EQ(found[i].export_index, expected[i].export_index);
    }
  }
}

TEST(StaticCudartSearch, TakesAChangedRuntimeForAnUnknownOne) {
  const std::vector<Target> known = Found(PROGRAMS "/vadd_stripped");
  std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_stripped");
  for (const Target& target : known) {
    ElfImage image;
    ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
    Elf64_Phdr segment;
    ASSERT_TRUE(image.FindSegment(target.address, target.size, &segment));
    std::uint8_t* const code = file.data() + segment.p_offset + (target.address - segment.p_vaddr);
    // Not every byte counts: a linker fills some in.
    for (std::size_t i = 0; i < target.size; ++i) code[i] ^= 0xff;
    EXPECT_FALSE(FindBySignatures(image, KnownReleases(), &targets));
    EXPECT_EQ(targets.count, 0u);
    for (std::size_t i = 0; i < target.size; ++i) code[i] ^= 0xff;
    EXPECT_TRUE(FindBySignatures(image, KnownReleases(), &targets));
  }
}

TEST(StaticCudartSearch, RefusesTwoFunctionsInOneBody) {
  EXPECT_EQ(Find(SHARED_BODY).finding, Finding::kUnusable);
}

}  // namespace
}  // namespace cuspan::load
