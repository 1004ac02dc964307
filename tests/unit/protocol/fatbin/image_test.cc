// Tests the size derived from an image: exact for whole images, an error for truncated and changed
// ones. Reads stay inside the image (checked under the asan preset).
#include "protocol/fatbin/image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string_view>

#include "protocol/fatbin/fatbin.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

using Image = std::vector<std::uint8_t>;

// A copy of the exact size, so a sanitizer detects any byte too far.
class Copy {
 public:
  explicit Copy(std::span<const std::uint8_t> bytes)
      : bytes_(new std::uint8_t[bytes.size()]), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.get());
  }
  const void* data() const { return bytes_.get(); }
  Status Check() const {
    return CheckImage({reinterpret_cast<const std::byte*>(bytes_.get()), size_});
  }
  Result<std::uint64_t> Bytes() const { return ImageBytes(bytes_.get(), size_); }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t size_;
};

Image Text(std::string_view text) { return {text.begin(), text.end()}; }

// Machine code stored by nvcc in a sample.
Image Cubin() {
  const Image fatbin = ReadSample("none");
  const Result<Container> container = ReadContainer(fatbin);
  EXPECT_TRUE(container.ok());
  for (const Entry& entry : container->entries)
    if (entry.kind == Kind::kElf) return {entry.payload.begin(), entry.payload.end()};
  ADD_FAILURE() << "no machine code in the sample";
  return {};
}

TEST(ImageTest, TellsKindsByTheirFirstBytes) {
  EXPECT_EQ(KindOf(ReadSample("default").data()), ImageKind::kContainer);
  EXPECT_EQ(KindOf(Cubin().data()), ImageKind::kElf);
  EXPECT_EQ(KindOf(".version 8.0"), ImageKind::kText);
  const std::uint32_t wrapper = kWrapperMagic;
  EXPECT_EQ(KindOf(&wrapper), ImageKind::kWrapper);
  // Nothing after the end is read.
  for (const Image& whole : {ReadSample("default"), Cubin()}) {
    for (std::size_t size = 0; size < 4; ++size) {
      const Copy cut{std::span(whole).first(size)};
      EXPECT_EQ(KindOf(cut.data(), size), ImageKind::kText) << size;
    }
  }
  EXPECT_EQ(KindOf(Copy(Text(std::string_view("\x7f\x45\0", 3))).data()), ImageKind::kText);
}

TEST(ImageTest, AWholeImageHasItsSizeWhateverFollows) {
  for (const Image& image : {ReadSample("default"), ReadSample("size"), Cubin()}) {
    Result<std::uint64_t> bytes = ImageBytes(image.data());
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    // Padding of the payload may follow an ELF image.
    EXPECT_LE(*bytes, image.size());
    EXPECT_GE(*bytes + 8, image.size());
    Image longer = image;
    longer.resize(image.size() + 100, 0xee);
    EXPECT_EQ(*ImageBytes(longer.data(), longer.size()), *bytes);
    EXPECT_TRUE(Copy(longer).Check().ok());
    EXPECT_TRUE(Copy(std::span(longer).first(*bytes)).Check().ok());
  }
}

TEST(ImageTest, ATextEndsWithItsNul) {
  EXPECT_EQ(*ImageBytes(".version 8.0\n"), 14U);
  EXPECT_EQ(*ImageBytes(""), 1U);
  EXPECT_FALSE(Copy(Text(".version 8.0\n")).Check().ok());
  EXPECT_TRUE(Copy(Text(std::string_view(".version 8.0\n\0", 14))).Check().ok());
  EXPECT_FALSE(Copy({}).Check().ok());
}

TEST(ImageTest, EveryTruncationIsAnError) {
  for (const Image& image : {ReadSample("default"), Cubin()}) {
    const std::uint64_t whole = *ImageBytes(image.data());
    // Less than a magic number counts as text; its end is missing.
    for (std::size_t size = 0; size < whole; ++size) {
      const Copy cut{std::span(image).first(size)};
      ASSERT_FALSE(cut.Check().ok()) << "cut to " << size;
      ASSERT_FALSE(cut.Bytes().ok()) << "cut to " << size;
    }
  }
}

TEST(ImageTest, AWrapperIsNoImage) {
  const std::uint32_t wrapper[6] = {kWrapperMagic, 1};
  EXPECT_FALSE(ImageBytes(wrapper).ok());
}

TEST(ImageTest, DamagedTablesStayInside) {
  const Image image = Cubin();
  std::mt19937_64 random(FuzzSeed(11));
  const auto size = static_cast<std::uint32_t>(image.size());
  for (int round = 0; round < 20000; ++round) {
    Image damaged = image;
    // The header and the section table contain all offsets.
    Elf64_Ehdr header;
    std::memcpy(&header, image.data(), sizeof header);
    const bool in_header = round % 2 == 0;
    const std::uint32_t at =
        in_header ? 4 + random() % (sizeof header - 4)
                  : static_cast<std::uint32_t>(header.e_shoff) +
                        random() % (header.e_shnum * std::uint32_t{sizeof(Elf64_Shdr)});
    ASSERT_LT(at, size);
    damaged[at] = static_cast<std::uint8_t>(random());
    const Copy copy(damaged);
    const Result<std::uint64_t> bytes = copy.Bytes();
    if (bytes.ok()) {
      ASSERT_LE(*bytes, image.size());
    } else {
      ASSERT_FALSE(bytes.status().message().empty());
    }
  }
}

TEST(ImageTest, GarbageIsAnErrorOrAText) {
  std::mt19937_64 random(FuzzSeed(5));
  for (int round = 0; round < 5000; ++round) {
    Image garbage(random() % 200);
    for (std::uint8_t& byte : garbage) byte = static_cast<std::uint8_t>(random());
    if (garbage.size() > 4 && round % 3 != 0) {
      const std::uint32_t magic = round % 3 == 1 ? kContainerMagic : 0x464c457f;
      std::memcpy(garbage.data(), &magic, sizeof magic);
    }
    const Copy copy(garbage);
    const Result<std::uint64_t> bytes = copy.Bytes();
    if (bytes.ok()) {
      ASSERT_LE(*bytes, garbage.size());
    }
    static_cast<void>(copy.Check());
  }
}

}  // namespace
}  // namespace cuspan::fatbin
