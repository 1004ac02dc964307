// Fat binaries made by nvcc for these tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "protocol/fatbin/fatbin.h"

namespace cuspan::fatbin {

inline std::vector<std::uint8_t> ReadSample(const std::string& name) {
  std::ifstream file(std::filesystem::path(CUSPAN_TEST_FATBINS) / (name + ".fatbin"),
                     std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The first entry of this kind.
inline Entry Find(const Container& container, Kind kind) {
  for (const Entry& entry : container.entries) {
    if (entry.kind == kind) return entry;
  }
  ADD_FAILURE() << "no entry of kind " << static_cast<int>(kind);
  return {};
}

}  // namespace cuspan::fatbin
