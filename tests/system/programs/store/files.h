// Files of the program `store`, and results of its calls.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cuspan/store.h"
#include "driver_check.h"

extern int failures;

// Word i of test files.
inline uint32_t WordAt(uint64_t i) { return static_cast<uint32_t>(i * 2654435761u + 12345u); }

inline std::vector<unsigned char> Contents(size_t bytes) {
  std::vector<unsigned char> contents(bytes + 3);
  for (size_t i = 0; i < bytes; i += 4) {
    const uint32_t word = WordAt(i / 4);
    std::memcpy(contents.data() + i, &word, std::min<size_t>(4, contents.size() - i));
  }
  contents.resize(bytes);
  return contents;
}

inline std::string Write(const std::string& folder, const std::string& name,
                         const std::vector<unsigned char>& bytes) {
  const std::string path = folder + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  // Files changed just now are not taken for the same as one of another node.
  EXPECT(static_cast<bool>(file), "%s can not be written", path.c_str());
  return path;
}

inline cuspanArrayConfig_t ConfigOf(const std::string& path, uint32_t element) {
  cuspanArrayConfig_t config = {};
  config.path = path.c_str();
  config.element = element;
  return config;
}

inline std::vector<unsigned char> NpyFile(const std::string& dictionary, size_t data_bytes,
                                          int major = 1) {
  std::string header = "\x93NUMPY";
  header += static_cast<char>(major);
  header += '\0';
  const size_t fixed = header.size() + (major == 1 ? 2 : 4);
  const size_t length = (fixed + dictionary.size() + 1 + 63) / 64 * 64 - fixed;
  for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte)
    header += static_cast<char>(length >> (8 * byte) & 0xff);
  header += dictionary;
  header.resize(fixed + length - 1, ' ');
  header += '\n';
  std::vector<unsigned char> file(header.begin(), header.end());
  const std::vector<unsigned char> data = Contents(data_bytes);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

inline void Result(const char* what, int result) { std::printf("%s: %d\n", what, result); }

// A line for the result of each bad call.
void Bad(const std::string& folder);
