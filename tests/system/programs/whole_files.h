// Files with known contents.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using Contents = std::vector<unsigned char>;

inline Contents Random(size_t bytes, unsigned seed) {
  std::mt19937 generator(seed);
  Contents contents(bytes);
  for (unsigned char& byte : contents) byte = static_cast<unsigned char>(generator());
  return contents;
}

inline void WriteWhole(const char* path, const Contents& contents) {
  FILE* const out = std::fopen(path, "wb");
  if (out == nullptr || std::fwrite(contents.data(), 1, contents.size(), out) != contents.size() ||
      std::fclose(out) != 0) {
    std::perror(path);
    std::exit(EXIT_FAILURE);
  }
}

inline Contents ReadWhole(const char* path) {
  Contents contents;
  FILE* const in = std::fopen(path, "rb");
  if (in == nullptr) return contents;
  unsigned char part[65536];
  for (size_t count = 0; (count = std::fread(part, 1, sizeof part, in)) != 0;)
    contents.insert(contents.end(), part, part + count);
  std::fclose(in);
  return contents;
}
