#include "interpose/client/connection/host_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace cuspan {
namespace {

std::vector<std::byte> Numbers(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

// Rows of 7 bytes in planes of 3, 10 bytes and 5 rows apart, in parts with arbitrary ends.
TEST(HostRowsTest, PacksAndUnpacksInParts) {
  const HostRows rows{{7, 3, 4}, 10, 5};
  const std::vector<std::byte> memory = Numbers(10 * 5 * 4);
  std::vector<std::byte> expected;
  for (std::size_t z = 0; z < 4; ++z)
    for (std::size_t y = 0; y < 3; ++y)
      for (std::size_t x = 0; x < 7; ++x) expected.push_back(memory[(z * 5 + y) * 10 + x]);
  for (const std::size_t part : {1UL, 5UL, 7UL, 22UL, 84UL}) {
    std::vector<std::byte> packed(expected.size());
    for (std::size_t at = 0; at < packed.size(); at += part)
      PackRows(rows, memory.data(), at, std::min(part, packed.size() - at), packed.data() + at);
    EXPECT_EQ(packed, expected) << "in parts of " << part;
    std::vector<std::byte> back(memory.size(), std::byte{0xff});
    for (std::size_t at = 0; at < packed.size(); at += part)
      UnpackRows(rows, back.data(), at, std::min(part, packed.size() - at), packed.data() + at);
    for (std::size_t i = 0; i < back.size(); ++i) {
      const bool inside = i % 10 < 7 && i / 10 % 5 < 3;
      ASSERT_EQ(back[i], inside ? memory[i] : std::byte{0xff}) << i << " in parts of " << part;
    }
  }
}

TEST(HostRowsTest, WithoutRowsIsOneRun) {
  const std::vector<std::byte> memory = Numbers(100);
  std::vector<std::byte> packed(30);
  PackRows({}, memory.data(), 20, 30, packed.data());
  EXPECT_TRUE(std::equal(packed.begin(), packed.end(), memory.begin() + 20));
}

}  // namespace
}  // namespace cuspan
