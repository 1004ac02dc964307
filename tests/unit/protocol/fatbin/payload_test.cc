#include "protocol/fatbin/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string_view>

#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

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

}  // namespace
}  // namespace cuspan::fatbin
