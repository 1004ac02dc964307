// Files for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "interpose/load/elf_image.h"

namespace cuspan::load {

// Returns a whole file in a block of exactly its size, so sanitizers detect every access beyond it.
inline std::vector<std::uint8_t> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline Bytes View(const std::vector<std::uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace cuspan::load
