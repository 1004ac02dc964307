#include "interpose/load/stripped_cudart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/load/patch.h"
#include "interpose/load/static_cudart.h"
#include "interpose/load/unwind_table.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

TargetList code_targets;

const char* NameOf(const Target& target) {
  return RuntimeExports().entries[target.export_index].name;
}

// Returns the functions found by the symbols of a file not stripped.
std::vector<Target> BySymbols(const std::string& path) {
  const std::vector<std::uint8_t> file = ReadFile(path);
  ElfImage image;
  EXPECT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable) << path;
  EXPECT_EQ(FindStaticCudart(image, RuntimeExports(), true, &code_targets).finding, Finding::kFound)
      << path;
  std::vector<Target> found(code_targets.targets, code_targets.targets + code_targets.count);
  // An empty function, indistinguishable from others.
  std::erase_if(found, [](const Target& target) {
    return std::string_view(NameOf(target)) == "__cudaGetProcAddress";
  });
  return found;
}

std::vector<Target> ByCode(const std::vector<std::uint8_t>& file) {
  ElfImage image;
  EXPECT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  const bool found = FindStrippedCudart(image, RuntimeExports(), &code_targets);
  EXPECT_EQ(found, code_targets.count != 0);
  return {code_targets.targets, code_targets.targets + code_targets.count};
}

void ExpectSame(const std::vector<Target>& found, const std::vector<Target>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_STREQ(NameOf(found[i]), NameOf(expected[i]));
    EXPECT_EQ(found[i].address, expected[i].address) << NameOf(found[i]);
    EXPECT_EQ(found[i].size, expected[i].size) << NameOf(found[i]);
    EXPECT_LE(found[i].limit, expected[i].limit) << NameOf(found[i]);
    EXPECT_GE(found[i].limit, found[i].address + kJumpSize) << NameOf(found[i]);
  }
}

struct Pair {
  const char* with_symbols;
  const char* stripped;
};

class StrippedCudart : public testing::TestWithParam<Pair> {};

TEST_P(StrippedCudart, IsWhatTheSymbolsTell) {
  const std::string folder = PROGRAMS "/";
  ExpectSame(ByCode(ReadFile(folder + GetParam().stripped)),
             BySymbols(folder + GetParam().with_symbols));
}

// The toolkit's runtime in programs and libraries, and fake ones. The fake ones differ in the way
// to refer to names, order, release, and relocated or fixed addresses.
INSTANTIATE_TEST_SUITE_P(
    Files, StrippedCudart,
    testing::Values(Pair{"vadd_static", "vadd_stripped"}, Pair{"vadd_fixed", "vadd_fixed_stripped"},
                    Pair{"libvadd_static.so", "libvadd_stripped.so"},
                    Pair{"devices_static", "devices_stripped"},
                    Pair{"devices_not_by_nvcc", "devices_not_by_nvcc_stripped"},
                    Pair{"fake_names.so", "fake_names_stripped.so"},
                    Pair{"fake_names", "fake_names_stripped"},
                    Pair{"fake_pointers.so", "fake_pointers_stripped.so"},
                    Pair{"fake_pointers", "fake_pointers_stripped"},
                    Pair{"fake_names_11.so", "fake_names_11_stripped.so"},
                    Pair{"fake_names_11", "fake_names_11_stripped"},
                    Pair{"fake_pointers_11.so", "fake_pointers_11_stripped.so"},
                    Pair{"fake_pointers_11", "fake_pointers_11_stripped"}),
    [](const auto& info) {
      std::string name = info.param.stripped;
      std::ranges::replace(name, '.', '_');
      return name;
    });

class DefectiveCudart : public testing::TestWithParam<const char*> {};

TEST_P(DefectiveCudart, IsNotFoundAtAll) {
  for (const char* kind : {"_stripped.so", "_stripped"}) {
    EXPECT_TRUE(ByCode(ReadFile(std::string(PROGRAMS "/fake_") + GetParam() + kind)).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DefectiveCudart,
                         testing::Values("twins", "guest", "launches", "state", "claimed",
                                         "several"));

TEST(StrippedCudartSearch, NothingIsTakenForWhatItIsNot) {
  std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_stripped");
  const std::vector<Target> known = ByCode(file);
  ASSERT_FALSE(known.empty());
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  std::size_t without_one = 0;
  for (const Target& changed : known) {
    Elf64_Phdr segment;
    ASSERT_TRUE(image.FindSegment(changed.address, changed.size, &segment));
    std::uint8_t* const code = file.data() + segment.p_offset + (changed.address - segment.p_vaddr);
    for (std::size_t i = 0; i < changed.size; ++i) code[i] ^= 0xff;
    const std::vector<Target> found = ByCode(file);
    for (std::size_t i = 0; i < changed.size; ++i) code[i] ^= 0xff;
    if (found.empty()) continue;
    std::vector<Target> others = known;
    std::erase_if(others, [&](const Target& target) { return target.address == changed.address; });
    // An unnamed function may still be identified by its neighbours.
    ExpectSame(found, found.size() == known.size() ? known : others);
    without_one += found.size() == others.size() ? 1 : 0;
  }
  EXPECT_GT(without_one, known.size() - 20);  // The others' neighbours are unique.
}

TEST(StrippedCudartSearch, NeedsNoSectionHeaders) {
  std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/libvadd_stripped.so");
  const std::vector<Target> known = ByCode(file);
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(file.data());
  header->e_shoff = 0;
  header->e_shnum = 0;
  header->e_shstrndx = 0;
  ExpectSame(ByCode(file), known);
}

TEST(UnwindTable, TellsFunctions) {
  const std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_static");
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  UnwindTable table;
  ASSERT_TRUE(table.Parse(image));
  for (const Target& target : BySymbols(PROGRAMS "/vadd_static")) {
    const std::size_t index = table.At(target.address);
    ASSERT_NE(index, kNowhere);
    EXPECT_EQ(table.Size(index), target.size);
    EXPECT_EQ(table.LastUpTo(target.address + target.size - 1), index);
    EXPECT_EQ(table.At(target.address + 1), kNowhere);
    EXPECT_EQ(table.Code(index).size, target.size);
  }
  EXPECT_EQ(table.LastUpTo(0), kNowhere);
}

}  // namespace
}  // namespace cuspan::load
