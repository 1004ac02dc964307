#include "interpose/load/elf_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "interpose/load/static_cudart.h"
#include "interpose/load/stripped_cudart.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/interpose/load/small_exports.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

TargetList targets;

// Calls all functions on the bytes. The results do not matter.
void Explore(Bytes bytes) {
  ElfImage image;
  if (image.Parse(bytes) != ElfImage::Verdict::kUsable) return;
  std::uint64_t address = 0;
  image.DynamicAddress(&address);
  Elf64_Phdr segment;
  image.FindSegment(address, 16, &segment);
  for (std::size_t i = 0; i < image.segment_count(); ++i) image.Segment(i);
  image.HasSection(".nv_fatbin");
  for (unsigned type : {SHT_SYMTAB, SHT_DYNSYM}) {
    const SymbolTable symbols = image.Symbols(type);
    for (std::size_t i = 0; i < symbols.count(); ++i) {
      ASSERT_LE(std::strlen(symbols.Name(symbols.Get(i))), bytes.size);
    }
  }
  for (bool is_program : {false, true}) {
    FindStaticCudart(image, kSmallTable, is_program, &targets);
  }
  FindStrippedCudart(image, RuntimeExports(), &targets);
  FindExported(image, RuntimeExports(), &targets);
}

TEST(ElfImage, ReadsTheTestItself) {
  const std::vector<std::uint8_t> file = ReadFile("/proc/self/exe");
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  EXPECT_TRUE(image.type() == ET_DYN || image.type() == ET_EXEC);
  EXPECT_TRUE(image.HasSection(".text"));
  EXPECT_FALSE(image.HasSection(".no_such_section"));
  std::uint64_t dynamic = 0;
  EXPECT_TRUE(image.DynamicAddress(&dynamic));
  EXPECT_TRUE(image.Symbols(SHT_SYMTAB).Defines("main"));
  EXPECT_FALSE(image.Symbols(SHT_SYMTAB).Defines("no_such_function"));
  EXPECT_TRUE(image.Symbols(SHT_DYNSYM).Mentions("__libc_start_main"));
  EXPECT_FALSE(image.Symbols(SHT_DYNSYM).Defines("__libc_start_main"));
}

TEST(ElfImage, FindsTheSegmentOfAFunction) {
  const std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_static");
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  const SymbolTable symbols = image.Symbols(SHT_SYMTAB);
  for (std::size_t i = 0; i < symbols.count(); ++i) {
    const Elf64_Sym symbol = symbols.Get(i);
    if (std::strcmp(symbols.Name(symbol), "cudaMalloc") != 0) continue;
    Elf64_Phdr segment;
    ASSERT_TRUE(image.FindSegment(symbol.st_value, symbol.st_size, &segment));
    EXPECT_EQ(segment.p_flags, unsigned{PF_R | PF_X});
    EXPECT_FALSE(image.FindSegment(symbol.st_value, ~std::uint64_t{0}, &segment));
    EXPECT_FALSE(image.FindSegment(~std::uint64_t{0}, 2, &segment));
    return;
  }
  FAIL() << "no cudaMalloc";
}

TEST(ElfImage, RefusesWhatIsNoProgramForThisMachine) {
  using Verdict = ElfImage::Verdict;
  const std::vector<std::uint8_t> file = ReadFile("/proc/self/exe");
  ElfImage image;
  EXPECT_EQ(image.Parse({}), Verdict::kNotElf);
  const std::string script = "#!/bin/sh\nexit 0\n";
  EXPECT_EQ(image.Parse({reinterpret_cast<const std::uint8_t*>(script.data()), script.size()}),
            Verdict::kNotElf);
  const auto with = [&](std::size_t offset, std::uint8_t value) {
    std::vector<std::uint8_t> changed = file;
    changed[offset] = value;
    return image.Parse(View(changed));
  };
  EXPECT_EQ(with(EI_CLASS, ELFCLASS32), Verdict::kForeign);
  EXPECT_EQ(with(EI_DATA, ELFDATA2MSB), Verdict::kForeign);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_machine), EM_AARCH64), Verdict::kForeign);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_type), ET_REL), Verdict::kForeign);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff), Verdict::kMalformed);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_shoff) + 7, 0xff), Verdict::kMalformed);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_shentsize), 1), Verdict::kMalformed);
}

TEST(ElfImage, SurvivesTruncation) {
  const std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_static");
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size < 2048; ++size) sizes.push_back(size);
  for (std::size_t size = 2048; size < file.size(); size += 9973) sizes.push_back(size);
  for (std::size_t off_end = 1; off_end < 300; ++off_end) sizes.push_back(file.size() - off_end);
  for (const std::size_t size : sizes) {
    const std::vector<std::uint8_t> cut(file.begin(), file.begin() + static_cast<long>(size));
    Explore(View(cut));
  }
}

TEST(ElfImage, SurvivesAnyByteOfItsTables) {
  std::vector<std::uint8_t> file = ReadFile(PROGRAMS "/vadd_static");
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  Elf64_Ehdr header;
  ASSERT_TRUE(View(file).Read(0, &header));
  const std::size_t sections = image.section_count() * sizeof(Elf64_Shdr);
  const SymbolTable symbols = image.Symbols(SHT_SYMTAB);
  const auto symbols_at = static_cast<std::size_t>(symbols.entries.data - file.data());
  std::mt19937_64 random(FuzzSeed(20240607));
  const std::uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  const auto flip = [&](std::size_t offset) {
    const std::uint8_t before = file[offset];
    file[offset] = values[random() % std::size(values)];
    Explore(View(file));
    file[offset] = before;
  };
  for (std::size_t i = 0; i < sizeof(header); ++i) flip(i);
  for (std::size_t i = 0; i < 300; ++i) {
    flip(header.e_phoff + random() % (header.e_phnum * sizeof(Elf64_Phdr)));
    flip(header.e_shoff + random() % sections);
    flip(symbols_at + random() % symbols.entries.size);
  }
}

TEST(ElfImage, CountsInSectionZeroCountToo) {
  std::vector<std::uint8_t> file = ReadFile("/proc/self/exe");
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  const std::size_t count = image.section_count();
  Elf64_Ehdr header;
  ASSERT_TRUE(View(file).Read(0, &header));
  Elf64_Shdr zeroth;
  ASSERT_TRUE(View(file).Read(header.e_shoff, &zeroth));
  zeroth.sh_size = header.e_shnum;
  zeroth.sh_link = header.e_shstrndx;
  header.e_shnum = 0;
  header.e_shstrndx = SHN_XINDEX;
  std::memcpy(file.data() + header.e_shoff, &zeroth, sizeof(zeroth));
  std::memcpy(file.data(), &header, sizeof(header));
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  EXPECT_EQ(image.section_count(), count);
  EXPECT_TRUE(image.HasSection(".text"));
}

}  // namespace
}  // namespace cuspan::load
