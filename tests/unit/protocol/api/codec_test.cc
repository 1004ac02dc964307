#include "protocol/api/codec.h"

#include <gtest/gtest.h>

#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

using testing_messages::Encoded;

// Makes bytes from numbers, for wire forms written by hand.
std::vector<std::byte> Wire(std::initializer_list<int> numbers) {
  std::vector<std::byte> bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

// --- The wire form of each kind of field: little-endian, packed, lengths before contents.

TEST(Codec, ScalarsAreLittleEndianAndPacked) {
  EXPECT_EQ(Encoded(std::uint8_t{0x12}), Wire({0x12}));
  EXPECT_EQ(Encoded(std::uint16_t{0x1234}), Wire({0x34, 0x12}));
  EXPECT_EQ(Encoded(std::uint32_t{0x12345678}), Wire({0x78, 0x56, 0x34, 0x12}));
  EXPECT_EQ(Encoded(std::uint64_t{0x123456789abcdef0}),
            Wire({0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12}));
  EXPECT_EQ(Encoded(std::int32_t{-2}), Wire({0xfe, 0xff, 0xff, 0xff}));
  EXPECT_EQ(Encoded(1.0F), Wire({0x00, 0x00, 0x80, 0x3f}));  // IEEE 754
  EXPECT_EQ(Encoded(true), Wire({1}));
  EXPECT_EQ(Encoded(false), Wire({0}));
  EXPECT_EQ(Encoded(Dim3{1, 2, 3}), Wire({1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}));
}

TEST(Codec, StringsBytesAndListsHaveTheirCountFirst) {
  EXPECT_EQ(Encoded(std::string("ab")), Wire({2, 0, 0, 0, 'a', 'b'}));
  EXPECT_EQ(Encoded(std::string()), Wire({0, 0, 0, 0}));
  const std::vector<std::byte> contents = Wire({9, 8, 7});
  EXPECT_EQ(Encoded(Bytes(contents)), Wire({3, 0, 0, 0, 9, 8, 7}));
  EXPECT_EQ(Encoded(std::vector<std::uint32_t>{5, 6}), Wire({2, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0}));
  const Key128 key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  EXPECT_EQ(Encoded(key), Wire({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
}

TEST(Codec, BooleansAreZeroOrOne) {
  for (int number = 0; number < 256; ++number) {
    bool value = false;
    EXPECT_EQ(DecodeFrom(Wire({number}), value), number < 2) << number;
    if (number < 2) {
      EXPECT_EQ(value, number == 1);
    }
  }
}

TEST(Codec, BytesPointIntoTheFrame) {
  const std::vector<std::byte> frame = Wire({2, 0, 0, 0, 7, 8});
  Bytes view;
  ASSERT_TRUE(DecodeFrom(frame, view));
  EXPECT_EQ(view.data(), frame.data() + 4);
  EXPECT_EQ(view.size(), 2U);
}

// A count larger than the input must fail before memory is allocated for it.
TEST(Codec, CountsThatLieAreRefused) {
  const auto refused = []<typename T>(T, std::vector<std::byte> bytes) {
    T value;
    return !DecodeFrom(bytes, value);
  };
  for (const int high : {0x7f, 0xff}) {
    const std::vector<std::byte> huge = Wire({0xff, 0xff, 0xff, high, 1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_TRUE(refused(std::string(), huge));
    EXPECT_TRUE(refused(Bytes(), huge));
    EXPECT_TRUE(refused(std::vector<std::uint32_t>(), huge));
    EXPECT_TRUE(refused(std::vector<std::string>(), huge));
    EXPECT_TRUE(refused(std::vector<DeviceDescription>(), huge));
  }
  // One more and one less than the contents.
  EXPECT_TRUE(refused(std::string(), Wire({3, 0, 0, 0, 'a', 'b'})));
  EXPECT_TRUE(refused(std::string(), Wire({1, 0, 0, 0, 'a', 'b'})));
  EXPECT_TRUE(refused(std::vector<std::uint32_t>(), Wire({2, 0, 0, 0, 1, 0, 0, 0})));
  EXPECT_TRUE(refused(std::vector<std::uint32_t>(), Wire({0, 0, 0, 0, 1, 0, 0, 0})));
  // The count equals the number of bytes: a check of the count alone would accept this.
  EXPECT_TRUE(refused(std::vector<std::uint64_t>(), Wire({8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8})));
  // The wrong count is inside an element.
  EXPECT_TRUE(refused(std::vector<std::string>(),
                      Wire({2, 0, 0, 0, 1, 0, 0, 0, 'a', 0xff, 0xff, 0xff, 0xff})));
}

TEST(Decoder, GivesZerosAfterAReadPastTheEnd) {
  const std::vector<std::byte> bytes = Wire({1, 2, 3});
  Decoder decoder(bytes);
  std::uint32_t number = 77;
  Codec<std::uint32_t>::Decode(decoder, number);
  EXPECT_FALSE(decoder.ok());
  EXPECT_EQ(number, 0U);
  // The decoder keeps failing, though one byte would still fit.
  std::uint8_t byte = 77;
  Codec<std::uint8_t>::Decode(decoder, byte);
  EXPECT_EQ(byte, 0U);
  std::string text = "before";
  Codec<std::string>::Decode(decoder, text);
  EXPECT_EQ(text, "");
  Dim3 dim{4, 5, 6};
  Codec<Dim3>::Decode(decoder, dim);
  EXPECT_EQ(dim.x + dim.y + dim.z, 0U);
  EXPECT_FALSE(decoder.Done());
}

TEST(Decoder, IsDoneWhenAllWasRead) {
  const std::vector<std::byte> bytes = Wire({1, 2});
  Decoder decoder(bytes);
  EXPECT_FALSE(decoder.Done());
  EXPECT_EQ(decoder.left(), 2U);
  EXPECT_EQ(decoder.View(2).size(), 2U);
  EXPECT_TRUE(decoder.Done());
  EXPECT_EQ(decoder.left(), 0U);
  decoder.Fail();
  EXPECT_FALSE(decoder.Done());
}

}  // namespace
}  // namespace cuspan
