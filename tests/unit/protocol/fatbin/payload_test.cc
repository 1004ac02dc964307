#include "protocol/fatbin/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string_view>

#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

Entry Find(const Container& container, Kind kind) {
  for (const Entry& entry : container.entries) {
    if (entry.kind == kind) return entry;
  }
  ADD_FAILURE() << "no entry of kind " << static_cast<int>(kind);
  return {};
}

TEST(PayloadTest, EveryCompressModeHoldsTheSameText) {
  // The reference is uncompressed output of nvcc.
  const auto plain_bytes = ReadSample("none");
  auto plain = DecodePtx(Find(*ReadContainer(plain_bytes), Kind::kPtx));
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_THAT(*plain, testing::HasSubstr(".target sm_80"));
  EXPECT_THAT(*plain, testing::HasSubstr(".visible .entry"));
  EXPECT_EQ(plain->find('\0'), std::string::npos);
  for (const char* name : {"default", "size", "speed"}) {
    SCOPED_TRACE(name);
    const auto bytes = ReadSample(name);
    auto text = DecodePtx(Find(*ReadContainer(bytes), Kind::kPtx));
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, *plain);
  }
}

TEST(PayloadTest, ElfImagesStartAsElf) {
  for (const char* name : {"default", "size", "speed", "none", "debug"}) {
    SCOPED_TRACE(name);
    const auto bytes = ReadSample(name);
    auto image = DecodePayload(Find(*ReadContainer(bytes), Kind::kElf));
    ASSERT_TRUE(image.ok()) << image.status().message();
    ASSERT_GT(image->size(), 4u);
    EXPECT_THAT(std::vector<std::uint8_t>(image->begin(), image->begin() + 4),
                testing::ElementsAre(0x7f, 'E', 'L', 'F'));
  }
}

TEST(PayloadTest, LimitIsKept) {
  const auto bytes = ReadSample("default");
  const Entry entry = Find(*ReadContainer(bytes), Kind::kPtx);
  EXPECT_TRUE(DecodePayload(entry, entry.uncompressed_bytes).ok());
  EXPECT_EQ(DecodePayload(entry, entry.uncompressed_bytes - 1).status().code(),
            StatusCode::kExhausted);
}

TEST(PayloadTest, WrongAnnouncedSizesAreRefused) {
  for (const char* name : {"default", "speed"}) {
    SCOPED_TRACE(name);
    const auto bytes = ReadSample(name);
    Entry entry = Find(*ReadContainer(bytes), Kind::kPtx);
    const auto right = entry.uncompressed_bytes;
    for (const std::uint64_t wrong : {right - 1, right + 1, std::uint64_t{0}, kMaxImageBytes}) {
      entry.uncompressed_bytes = wrong;
      EXPECT_EQ(DecodePayload(entry).status().code(), StatusCode::kInvalid) << wrong;
    }
  }
}

TEST(PayloadTest, UnknownPackingAndOtherKindsAreRefused) {
  const auto bytes = ReadSample("lto");
  EXPECT_EQ(DecodePayload(Find(*ReadContainer(bytes), Kind::kLtoIr)).status().code(),
            StatusCode::kUnsupported);
  const auto elf_bytes = ReadSample("default");
  EXPECT_EQ(DecodePtx(Find(*ReadContainer(elf_bytes), Kind::kElf)).status().code(),
            StatusCode::kInvalid);
}

bool SampleMayName(const std::string& sample, std::string_view name) {
  const auto bytes = ReadSample(sample);
  return MayName(std::as_bytes(std::span(bytes)), name);
}

TEST(NamesTest, AreFoundHoweverTheImageIsPacked) {
  for (const char* sample : {"default", "size", "speed", "none", "debug", "many"}) {
    SCOPED_TRACE(sample);
    EXPECT_TRUE(SampleMayName(sample, "FatbinAdd"));
    EXPECT_FALSE(SampleMayName(sample, "vprintf"));
  }
}

TEST(NamesTest, MayBeInWhatCanNotBeLookedAt) {
  EXPECT_TRUE(SampleMayName("lto", "vprintf"));
  const std::vector<std::byte> large(kMaxSearchedBytes + 1, std::byte{'.'});
  EXPECT_TRUE(MayName(large, "vprintf"));
  EXPECT_FALSE(MayName(std::span(large).first(kMaxSearchedBytes), "vprintf"));
}

// Searching these would take too long, or too much stack because of their nesting.
TEST(NamesTest, LookAtNoMoreThanTheyMay) {
  const auto sample = ReadSample("none");
  const std::span<const std::byte> whole = std::as_bytes(std::span(sample));
  std::vector<std::byte> deep(whole.begin(), whole.end());
  for (int i = 0; i < 3; ++i) {
    const std::span<const std::byte> objects[] = {deep};
    deep = WithObjects(whole, objects);
  }
  EXPECT_TRUE(MayName(deep, "vprintf"));
  const std::vector<std::span<const std::byte>> many(2 * kMaxSearchedBytes / sample.size(), whole);
  EXPECT_TRUE(MayName(WithObjects(whole, many), "vprintf"));
}

TEST(NamesTest, AreFoundInObjectsAndImagesOfTheirOwn) {
  const auto linked = ReadSample("none");
  const auto object = ReadSample("size");
  const std::span<const std::byte> objects[] = {std::as_bytes(std::span(object))};
  const std::vector<std::byte> both = WithObjects(std::as_bytes(std::span(linked)), objects);
  EXPECT_FALSE(MayName(both, "vprintf"));
  const auto lto = ReadSample("lto");
  const std::span<const std::byte> hidden[] = {std::as_bytes(std::span(lto))};
  EXPECT_TRUE(MayName(WithObjects(std::as_bytes(std::span(linked)), hidden), "vprintf"));
  const auto elf = DecodePayload(Find(*ReadContainer(linked), Kind::kElf));
  ASSERT_TRUE(elf.ok());
  EXPECT_TRUE(MayName(std::as_bytes(std::span(*elf)), "FatbinCount"));
  EXPECT_FALSE(MayName(std::as_bytes(std::span(*elf)), "vprintf"));
  const std::string_view text = ".extern .func (.param .b32 r) vprintf";
  EXPECT_TRUE(MayName(std::as_bytes(std::span(text)), "vprintf"));
}

}  // namespace
}  // namespace cuspan::fatbin
